"""
The rules that decide which files of a tree belong to a job: globs and regular expressions over their paths.

A rule is a glob (`*.txt`, `drafts/*`, `/srv/data/**/old`), or a regular expression after `regex:`. A glob that begins
with a slash matches the whole path. Any other glob matches its end, from any slash on. `*` and `?` stop at a slash,
`**` does not. An engine with linear time (RE2) executes both.

A file belongs to the job if no exclude rule matches it or a directory between it and the seed. If there are include
rules, one of them must match the file, too. Hidden names begin with a dot.
"""

import re
from collections.abc import Iterable, Sequence
from typing import Final

from jobs.connectors.repository.filesystem.paths import is_within, shown
from jobs.connectors.repository.web.scope import Pattern, compile_pattern

_REGEX: Final = "regex:"
# Largest number of directories whose decision is cached.
_REMEMBERED: Final = 10_000


def compile_rule(rule: str) -> Pattern:
    """
    Return the compiled rule.

    Raises:
        BadPattern: the rule is invalid, or needs an engine that does not match in linear time.
    """
    if rule.startswith(_REGEX):
        return compile_pattern(rule.removeprefix(_REGEX))
    return compile_pattern(_translated(rule))


class Rules:
    """The rules of one job. `tops` are the normal paths of its seeds, which belong to it in any case."""

    def __init__(
        self, *, tops: Sequence[bytes], include: Iterable[str] = (), exclude: Iterable[str] = (), hidden: bool = False
    ) -> None:
        self._tops = sorted(tops, key=len, reverse=True)
        self._include = [compile_rule(rule) for rule in include]
        self._exclude = [compile_rule(rule) for rule in exclude]
        self._hidden = hidden
        self._directories: dict[bytes, bool] = {}

    def admits_directory(self, path: bytes) -> bool:
        """True if the content of this directory may belong to the job."""
        known = self._directories.get(path)
        if known is None:
            if len(self._directories) >= _REMEMBERED:
                self._directories.clear()
            known = self._directories[path] = path in self._tops or (self._is_kept(path) and self._admits_above(path))
        return known

    def admits_file(self, path: bytes) -> bool:
        if path in self._tops:
            return True
        if not self._is_kept(path) or not self._admits_above(path):
            return False
        return not self._include or any(rule.search(shown(path)) for rule in self._include)

    def _admits_above(self, path: bytes) -> bool:
        """
        True if the directory around this path belongs to the job. Also True for a path that lies below no seed, because
        a followed link led to it.
        """
        above = path.rpartition(b"/")[0] or b"/"
        if not any(is_within(above, top) for top in self._tops):
            return True
        return self.admits_directory(above)

    def _is_kept(self, path: bytes) -> bool:
        name = path.rpartition(b"/")[2]
        if name.startswith(b".") and not self._hidden:
            return False
        return not self._exclude or not any(rule.search(shown(path)) for rule in self._exclude)


def _translated(glob: str) -> str:
    """Return the glob as a regular expression over a whole path."""
    parts = ["^" if glob.startswith("/") else "(?:^|/)"]
    at = 0
    while at < len(glob):
        character = glob[at]
        if glob.startswith("**/", at):
            parts.append("(?:.*/)?")
            at += 3
        elif glob.startswith("**", at):
            parts.append(".*")
            at += 2
        elif character == "*":
            parts.append("[^/]*")
            at += 1
        elif character == "?":
            parts.append("[^/]")
            at += 1
        elif character == "[" and (end := glob.find("]", at + 2)) > 0:
            inside = glob[at + 1 : end]
            negated = inside[0] in "!^"
            members = re.sub(r"([\\\[\]^&~|])", r"\\\1", inside[1:] if negated else inside)
            parts.append(f"[{'^/' if negated else ''}{members}]")
            at = end + 1
        else:
            parts.append(re.escape(character))
            at += 1
    return "(?s)" + "".join(parts) + "$"
