"""
The groups of a web address: its template, and wider groups to which traps spread.

A template is the address with its variable parts generalised. The addresses of some traps have many templates, for
example one for each combination of facets. So an address also belongs to a group for each parameter of its query, and
to the group of its siblings below one path. Addresses with odd paths have groups, too: deep paths, repeated segments,
double slashes, and upper-case letters.

Each group has the rule that would refuse it: an expression for the exclusions of a job.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote_plus, urlsplit

# Number of segments from which a path counts as deep.
_DEEP: Final = 5
# Number of occurrences of one segment from which a path counts as repeating itself.
_REPEATED: Final = 3
# Largest number of parameters of a query that have groups of their own.
_PARAMETERS: Final = 8
# Number of characters from which a segment counts as the text of a title.
_SLUG_CHARACTERS: Final = 21
# Least number of characters of a segment that counts as repeated by a page. A shorter segment may be in the page by
# chance.
_ECHO_CHARACTERS: Final = 4
# Largest number of kept characters of a template.
_TEMPLATE_CHARACTERS: Final = 300

_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}(-[0-9]{1,2})?")
_ID: Final = re.compile(r"(?=[^0-9]*[0-9])(?:[0-9a-f-]{8,}|(?=[^a-z]*[a-z])[0-9a-z]{12,})", re.IGNORECASE)
# A letter between two numbers, as in codes.
_MIXED: Final = re.compile("[0-9]+[a-z]+[0-9]", re.IGNORECASE)
_NUMBERS: Final = re.compile(r"[0-9]+")
_SPECIAL: Final = re.compile(r"[.+*?^$()\[\]{}|\\]")
_UPPER: Final = re.compile(r"[A-Z]")
_ESCAPED: Final = re.compile(r"%[0-9A-F]{2}")
_COPY: Final = re.compile(r"/(print|printable|amp|mobile)(/|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Group:
    """
    Addresses of one host that may be one trap. `rule` is the expression that would exclude the addresses.

    `parameter` is the query parameter that they share, "" for none. `is_wide` is true if the group spans the host.
    """

    template: str
    rule: str
    parameter: str = ""
    is_wide: bool = False


@dataclass(frozen=True, slots=True)
class Grouped:
    """
    The groups of an address. The first one is its template.

    A `plain` address has no query and no odd path, but its path may be deep. A page may repeat parts of its address:
    `echoes` are whole texts from its path, and `words` are words of its query.
    """

    host: str
    groups: tuple[Group, ...]
    is_plain: bool
    echoes: tuple[str, ...]
    words: frozenset[str]


def grouped(url: str) -> Grouped:
    """Return the groups of a canonical web address."""
    parts = urlsplit(url)
    origin = f"^https?://{_escaped(parts.netloc)}"
    keys = sorted({key for key, _ in _parameters(parts.query)})
    segments = [segment for segment in parts.path.split("/") if segment]
    odd = list(_odd(origin, parts.path, segments))
    path, path_rule = _path_template(parts.path)
    exact = Group(
        (path + (f"?{'&'.join(keys)}" if keys else ""))[:_TEMPLATE_CHARACTERS],
        f"{origin}{path_rule}" + (rf"\?(.*[&;])?{_escaped_key(keys[0])}=" if keys else r"$"),
    )
    wider = [
        Group(f"**?{key}", rf"{origin}.*[?&;]{_escaped_key(key)}=", parameter=key, is_wide=True)
        for key in keys[:_PARAMETERS]
    ]
    if keys:
        wider.append(Group(f"{path}?*"[:_TEMPLATE_CHARACTERS], rf"{origin}{path_rule}\?"))
    if segments:
        parent, parent_rule = _path_template(parts.path.rstrip("/").rpartition("/")[0])
        wider.append(Group(f"{parent}/*"[:_TEMPLATE_CHARACTERS], rf"{origin}{parent_rule}/+[^/?]+/*(\?|$)"))
    return Grouped(
        host=parts.netloc,
        groups=(exact, *odd, *wider),
        is_plain=not keys
        and not any(one.template.startswith("**") for one in odd)
        and _COPY.search(parts.path) is None
        and ";" not in parts.path,
        echoes=_echoes(unquote_plus(parts.path).lower()),
        words=frozenset(re.findall(r"[^\W_]+", unquote_plus(parts.query).lower())),
    )


def _echoes(path: str) -> tuple[str, ...]:
    """
    Return the path, its last segment, and the segment without its ending. Texts that occur by chance are left out.
    """
    last = path.rstrip("/").rpartition("/")[2]
    stem = last.rpartition(".")[0]
    return (*([path] if len(path) > 1 else []), *(text for text in (last, stem) if len(text) >= _ECHO_CHARACTERS))


def _parameters(query: str) -> Iterator[tuple[str, str]]:
    for part in re.split("[&;]", query):
        key, _, value = part.partition("=")
        if key:
            yield key[:60].lower(), value


def _path_template(path: str) -> tuple[str, str]:
    """Return the template of a path, and its expression; two empty texts for an empty path."""
    templates, rules = [], []
    if not path:
        return "", ""
    for segment in path.split("/")[1:]:
        name, semicolon, parameters = segment.partition(";")
        template, rule = _generalised(name)
        if semicolon:
            key = parameters.partition("=")[0].lower()
            template, rule = f"{template};{key}", f"{rule};{_escaped_key(key)}="
        templates.append(template)
        rules.append(rule)
    return "/" + "/".join(templates), "/" + "/".join(rules)


def _generalised(segment: str) -> tuple[str, str]:
    if _DATE.fullmatch(segment):
        return "{date}", "[0-9-]+"
    if segment.isdecimal():
        return "{n}", "[0-9]+"
    if _ID.fullmatch(segment):
        return "{id}", "[^/?]+"
    if _MIXED.search(segment):
        return "{mixed}", "[^/?]*[0-9][^/?]*"
    words = re.split("[-_+]", segment)
    if len(words) > 2 or len(segment) >= _SLUG_CHARACTERS or _ESCAPED.search(segment):
        return "{slug}", "[^/?]+"
    return _NUMBERS.sub("{n}", segment), _NUMBERS.sub("[0-9]+", _escaped(segment))


def _odd(origin: str, path: str, segments: list[str]) -> Iterator[Group]:
    """
    Yield a group for each odd property of a path: a repeated segment, a double slash, upper-case letters, or many
    segments.
    """
    counts = Counter(segments)
    most, count = max(counts.items(), key=lambda one: (one[1], one[0]), default=("", 0))
    if count >= _REPEATED:
        yield Group(
            f"**/{most[:60]}/** {_REPEATED} times", rf"{origin}(/.*)?(/{_escaped(most)}.*){{{_REPEATED}}}", is_wide=True
        )
    if "//" in path:
        yield Group("**//**", f"{origin}[^?]*//", is_wide=True)
    if _UPPER.search(_ESCAPED.sub("", path)):
        yield Group("**/{upper case}/**", f"{origin}[^?]*[A-Z]", is_wide=True)
    if len(segments) >= _DEEP:
        first, rule = _generalised(segments[0])
        yield Group(f"/{first}/**", f"{origin}/{rule}(/[^/?]+){{{_DEEP - 1},}}", is_wide=True)


def _escaped_key(key: str) -> str:
    """Return an expression for the name of a parameter that ignores case, because names were compared in lower case."""
    return f"(?i:{_escaped(key)})"


def _escaped(text: str) -> str:
    return _SPECIAL.sub(r"\\\g<0>", text)
