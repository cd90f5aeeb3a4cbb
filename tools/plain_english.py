"""
Find sentences that a reader must read twice, and fail if a folder has too many of them.

    python -m tools.plain_english                 check: changed lines are clean, no folder is above its ceiling
    python -m tools.plain_english --list jobs     print all findings below a folder
    python -m tools.plain_english --lower         lower the ceilings to the present numbers

A changed line is one that differs from the merge base with main, or is not committed yet.
Ceilings and exceptions are in plain_english.toml, in the folder of this file. A ceiling never rises.
"""

import argparse
import re
import subprocess
import sys
import tomllib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from tools.prose import Kind, Passage, passages_of

ROOT = Path(__file__).resolve().parents[1]
SETTINGS = "tools/plain_english.toml"
_FILES = ("*.py", "*.md", "*.html", "*.js", "*.toml", "*.yml", "Makefile", ".ci/run", ".env.example")
_WIDEST_COMMENT, _WIDEST_MARKDOWN = 120, 160
_MOST_PRINTED = 100


@dataclass(frozen=True)
class Rule:
    name: str
    advice: str
    # Return the places (start, end) of a passage's text that break the rule.
    find: Callable[[Passage], Iterator[tuple[int, int]]]


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    rule: Rule
    excerpt: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.rule.name}: {self.excerpt}\n    {self.rule.advice}"


@dataclass(frozen=True)
class Exemption:
    """A finding that is no mistake, with the reason."""

    path: str
    reason: str
    text: str = ""
    rule: str = ""

    def covers(self, path: str, rule: str, text: str) -> bool:
        return fnmatchcase(path, self.path) and self.rule in {"", rule} and self.text in text


@dataclass(frozen=True)
class Settings:
    ceilings: Mapping[str, int]
    exemptions: tuple[Exemption, ...]


# --- rules ---

_START = r"(?:^|[.:;!?][)\"”*]*\s+|[(“]|\*\*)"
_UNNAMED = re.compile(
    rf"(?P<before>{_START}|\b(?:and|or|but|so|if|as|of|by|for|from|than|is|are|was|with|on|in|to|at|that)\s+)"
    r"(?:[Ww]ho|[Ww]hoever|[Ww]hose|[Ww]hat|[Ww]hatever)\s+(?!to\b|kind\b|order\b|way\b)(?=\w)"
)
_QUESTION_WORD = re.compile(r"\b(?:who|whose|what|which|when|where|why|how|whether)\b", re.IGNORECASE)
_THOSE = re.compile(r"\b[Tt]hose (?:that|which|who|whose)\b")
_SOMEBODY = re.compile(r"\b(?:some|no|every|any)body\b", re.IGNORECASE)
_PERSON = re.compile(r"\b(?:he|him|his|himself|she|her|herself)\b", re.IGNORECASE)
_PROCESS_WHO = re.compile(
    r"\b(?:bin|daemon|job|lane|loop|main|manager|member|node|process|server|stuffer|sweep|thread|turn|worker)s?,? who\b"
)
_SO_MANY = re.compile(r"\bso (?:many|much|often|long|soon|few|little)\b(?! (?:as|that)\b)", re.IGNORECASE)
_OF_FIRST = re.compile(rf"{_START}Of (?=\w)")
_OPENING = re.compile(r"^(?:Whether|Who|Whose|Whom|What|How|Those|That)\b")
_OLD_WORD = re.compile(
    r"\b(?:anew|at rest|at the most|befall\w*|befell|cannot be meant|dear|fall upon|for ever|haste|hasten\w*|heed\w*|hitherto"
    r"|in hand|in vain|in work|(?:is|are|was|were) (?:gone|no more)|lay about|lest|ow(?:e|ed|es|ing)|reigns?|tells? of|told of"
    r"|thereof|uproot\w*|what binds|what counts|whereupon)\b(?! to\b)"
)
_RETURNED = re.compile(r"\b[Rr]eturn (?:how|why|whether)\b")
_RAISED = re.compile(r"\b[A-Z][A-Za-z]+: [Ii]t\b")
_NAME = re.compile(r"^(?:test )?(?:it|they)\b")
_COMMENT = re.compile(r"^(?:its?|they|their)\b", re.IGNORECASE)
_ABBREVIATION = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|No|St)|\s[A-Z])$")
_NEXT_SENTENCE = re.compile(r"(?<=[\w)`”\"*\]%])[.!?][\"”)*_]*(?=\s+[*_“\"(\[`]*[A-Z])")


def _matches(pattern: re.Pattern[str]) -> Callable[[Passage], Iterator[tuple[int, int]]]:
    return lambda passage: (found.span() for found in pattern.finditer(passage.text))


def _unnamed_subjects(passage: Passage) -> Iterator[tuple[int, int]]:
    text = passage.text
    for found in _UNNAMED.finditer(text):
        sentence = text[_start_of_sentence(text, found.start("before")) : found.end("before")]
        is_second_question = found["before"].strip() in {"and", "or"} and _QUESTION_WORD.search(sentence)
        is_heading = passage.is_fragment and found.start() == 0
        if not (is_second_question or is_heading or _is_question(text, found.end())):
            yield found.span()


def _start_of_sentence(text: str, place: int) -> int:
    return max(text.rfind(end, 0, place) for end in (". ", ": ", "? ", "! ")) + 1


def _is_question(text: str, place: int) -> bool:
    end = re.search(r"[.!?](?:\s|\W|$)", text[place:])
    return end is not None and end[0].startswith("?")


def _openings(passage: Passage) -> Iterator[tuple[int, int]]:
    if passage.is_opening and (found := _OPENING.search(passage.text)):
        yield found.span()


def _returned_questions(passage: Passage) -> Iterator[tuple[int, int]]:
    if passage.kind is Kind.DOCSTRING:
        yield from (found.span() for found in _RETURNED.finditer(passage.text))


def _pronouns(passage: Passage) -> Iterator[tuple[int, int]]:
    """Yield pronouns in place of a noun: in the conditions of exceptions, and first in a comment or a test name."""
    if passage.kind is Kind.DOCSTRING and passage.text.startswith("Raises:"):
        yield from (found.span() for found in _RAISED.finditer(passage.text))
    if passage.kind is Kind.NAME and (found := _NAME.search(passage.text)):
        yield found.span()
    if passage.kind is Kind.COMMENT and (found := _COMMENT.search(passage.text)):
        yield found.span()


def _further_sentences(passage: Passage) -> Iterator[tuple[int, int]]:
    """Yield the ends of sentences that another one follows on the same line of Markdown."""
    if passage.kind is not Kind.MARKDOWN or passage.is_fragment:
        return
    offset = 0
    for _, line in passage.lines:
        for found in _NEXT_SENTENCE.finditer(line):
            if not _ABBREVIATION.search(line[: found.start()]):
                yield offset + found.start(), offset + found.end()
        offset += len(line) + 1


def _nothing(_passage: Passage) -> Iterator[tuple[int, int]]:
    yield from ()


WIDE = Rule(
    "too wide", f"Break the line: {_WIDEST_MARKDOWN} characters in Markdown, {_WIDEST_COMMENT} in a comment.", _nothing
)
RULES = (
    Rule("unnamed subject", "Name the subject instead of who or what.", _unnamed_subjects),
    Rule("those that", "Name the things.", _matches(_THOSE)),
    Rule("somebody", "Name the person or the process.", _matches(_SOMEBODY)),
    Rule("he for a process", "A process is it; a person has a role: operator, developer, client.", _matches(_PERSON)),
    Rule("who for a process", "A process is it: write that or which.", _matches(_PROCESS_WHO)),
    Rule("so many", "Give the number, or its name.", _matches(_SO_MANY)),
    Rule("Of first", "Begin with the subject.", _matches(_OF_FIRST)),
    Rule("old word", "Use the word of the trade.", _matches(_OLD_WORD)),
    Rule("start of a docstring", "Begin with a verb: Return, Yield, True if, Raise.", _openings),
    Rule("question after return", "Name the result: the number, the reason; or write True if.", _returned_questions),
    Rule("it without a noun", "Name the thing instead of it.", _pronouns),
    Rule("two sentences in a line", "Put each sentence of Markdown on a line of its own.", _further_sentences),
    WIDE,
)


def findings_in(path: str, text: str, exemptions: tuple[Exemption, ...] = ()) -> Iterator[Finding]:
    """Yield the places in a file that break a rule, except for the exemptions."""
    for passage in passages_of(path, text):
        for rule in RULES:
            for start, end in rule.find(passage):
                excerpt = passage.text[max(0, start - 40) : end + 60].strip()
                if not any(exemption.covers(path, rule.name, passage.text) for exemption in exemptions):
                    yield Finding(path, passage.line_at(min(end, len(passage.text) - 1)), rule, excerpt)
    for number, line in enumerate(text.split("\n"), 1):
        if _is_too_wide(path, line) and not any(exemption.covers(path, WIDE.name, line) for exemption in exemptions):
            yield Finding(path, number, WIDE, line.strip()[:100])


def _is_too_wide(path: str, line: str) -> bool:
    if path.endswith(".md"):
        return len(line) > _WIDEST_MARKDOWN and not line.lstrip().startswith("|")
    return len(line) > _WIDEST_COMMENT and line.lstrip().startswith(("# ", "//"))


# --- the repository ---


def read_settings(text: str) -> Settings:
    """Read ceilings and exemptions; raise ValueError if an exemption gives no reason."""
    read = tomllib.loads(text)
    exemptions = tuple(Exemption(**exemption) for exemption in read.get("exemptions", ()))
    for exemption in exemptions:
        if not exemption.reason.strip():
            raise ValueError(f"The exemption of {exemption.path} needs a reason.")
    return Settings(read.get("ceilings", {}), exemptions)


def folder_of(path: str) -> str:
    """Return the top folder of a file, or a point for a file outside of all folders."""
    return path.partition("/")[0] if "/" in path else "."


def git(root: Path, *words: str) -> str | None:
    """Return the output of git; None if git fails or is not installed."""
    try:
        command = ["git", "-C", str(root), "-c", "core.quotePath=false", *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return None


def files_of(root: Path) -> list[str]:
    """Return the files to read: the files that git knows; without git, all files that are not hidden."""
    listed = git(root, "ls-files", "--cached", "--others", "--exclude-standard", "--", *_FILES)
    if listed is not None:
        return sorted(path for path in set(listed.split("\n")) if path and (root / path).is_file())
    found = {path.relative_to(root) for pattern in _FILES for path in root.rglob(pattern) if path.is_file()}
    return sorted(str(path) for path in found if path.parts[0] != "var" and not path.parts[0].startswith(".v"))


def merge_base(root: Path) -> str | None:
    """Return the commit at which this branch left main, or None without the history."""
    for main in ("main", "origin/main"):
        if base := git(root, "merge-base", "HEAD", main):
            return base.strip()
    return None


def changed_lines(root: Path, base: str) -> dict[str, set[int]]:
    """Return the numbers of the lines of each file that are not in the commit `base`."""
    changed: defaultdict[str, set[int]] = defaultdict(set)
    path = ""
    for line in (git(root, "diff", "--unified=0", "--find-renames", base) or "").split("\n"):
        if line.startswith("+++ "):
            path = line[6:]
        elif hunk := re.match(r"@@ -\S+ \+(\d+)(?:,(\d+))? @@", line):
            changed[path] |= set(range(int(hunk[1]), int(hunk[1]) + int(hunk[2] or 1)))
    for new in (git(root, "ls-files", "--others", "--exclude-standard") or "").split("\n"):
        if new and (root / new).is_file():
            changed[new] = set(range(1, (root / new).read_bytes().count(b"\n") + 2))
    return dict(changed)


def lowered(text: str, counts: Mapping[str, int]) -> str:
    """Return the text of the settings with each ceiling lowered to the present number."""

    def lower(line: re.Match[str]) -> str:
        return f"{line[1]} = {min(int(line[3]), counts.get(line[2], 0))}"

    head, mark, tail = text.partition("[ceilings]\n")
    ceilings, separator, rest = tail.partition("\n[")
    return head + mark + re.sub(r'(?m)^("?([^"\s]+)"?) = (\d+)$', lower, ceilings) + separator + rest


def raised_ceilings(old: Mapping[str, int], new: Mapping[str, int]) -> list[str]:
    """Return the folders whose ceiling is above that of the merge base, new folders included."""
    return [folder for folder, ceiling in new.items() if ceiling > old.get(folder, 0)]


def problems(root: Path, settings: Settings, findings: list[Finding]) -> Iterator[str]:
    """
    Yield the reasons why the check fails: findings in changed lines, raised ceilings, folders above their ceiling.
    """
    base = merge_base(root)
    if base:
        changed = changed_lines(root, base)
        yield from (str(finding) for finding in findings if finding.line in changed.get(finding.path, ()))
        old = git(root, "show", f"{base}:{SETTINGS}")
        if old is not None:
            for folder in raised_ceilings(read_settings(old).ceilings, settings.ceilings):
                yield f"{SETTINGS}: the ceiling of {folder} was raised. Ceilings only fall."
    for folder, count in Counter(folder_of(finding.path) for finding in findings).items():
        ceiling = settings.ceilings.get(folder, 0)
        if count > ceiling:
            yield (
                f"{folder}: {count} findings, and the ceiling is {ceiling}. "
                f"List them: python -m tools.plain_english --list {folder}"
            )


def main(arguments: list[str], root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", metavar="FOLDER", help="print all findings below a folder or in a file")
    parser.add_argument("--lower", action="store_true", help="lower the ceilings to the present numbers")
    options = parser.parse_args(arguments)
    settings = read_settings((root / SETTINGS).read_text(encoding="utf-8"))
    findings = [
        finding
        for path in files_of(root)
        for finding in findings_in(path, (root / path).read_text(encoding="utf-8"), settings.exemptions)
    ]
    if options.list:
        below = [finding for finding in findings if f"{finding.path}/".startswith(f"{options.list.rstrip('/')}/")]
        return _print([*map(str, below), f"{len(below)} findings"])
    counts = Counter(folder_of(finding.path) for finding in findings)
    if options.lower:
        text = (root / SETTINGS).read_text(encoding="utf-8")
        (root / SETTINGS).write_text(lowered(text, counts), encoding="utf-8")
        return 0
    found = list(problems(root, settings, findings))
    if found:
        _print(
            [*found[:_MOST_PRINTED], *([f"… and {len(found) - _MOST_PRINTED} more"] if found[_MOST_PRINTED:] else [])]
        )
        return 1
    if any(counts[folder] < ceiling for folder, ceiling in settings.ceilings.items()):
        _print(["Some folders are below their ceiling. Lower it: python -m tools.plain_english --lower"])
    return 0


def _print(lines: list[str]) -> int:
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
