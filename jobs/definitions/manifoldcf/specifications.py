"""ManifoldCF's document specifications of web, feed and file jobs: seeds, and the fields of the connector."""

from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, Final

from jobs.connectors.repository.web.scope import BadPattern, compile_pattern
from jobs.definitions.manifoldcf.nodes import Part

_EVERYTHING: Final = frozenset({".*", ""})
_SECURITY: Final = "The access of documents follows the access rules of the job and the connection."
_CANONICAL: Final = "crawlctl makes addresses canonical by its own rules."


@dataclass(slots=True)
class Converted:
    """
    Seeds and fields of a job; `roots` are directories that a file connection must be able to read.

    `tokens` are the access tokens of the forced access list.
    """

    seeds: list[str] = field(default_factory=list)
    specification: dict[str, Any] = field(default_factory=dict)
    roots: list[str] = field(default_factory=list)
    tokens: list[str] = field(default_factory=list)


def convert_web(part: Part) -> Converted:
    converted = Converted(seeds=[line for seeds in part.take("seeds") for line in _lines(seeds)])
    scope = "any"
    for limit in part.take("limittoseeds"):
        if limit.take_attribute("value") == "true":
            scope = "host"
    converted.specification = {"scope": scope, **_patterns(part, "includes", "include")}
    converted.specification |= _patterns(part, "excludes", "exclude")
    converted.specification |= _patterns(part, "excludescontentindex", "exclude_text")
    for of_index in (*part.take("includesindex"), *part.take("excludesindex")):
        if set(_lines(of_index)) - _EVERYTHING:
            of_index.note("crawlctl has no rules of addresses for the index alone. Use rules of content.")
    for redirects in part.take("forceinclusionofredirects"):
        if redirects.take_attribute("value") == "true":
            redirects.note("crawlctl follows redirects of seeds inside of their domain.")
    converted.tokens = _tokens(part)
    _refuse(part)
    return converted


def convert_feed(part: Part) -> Converted:
    converted = Converted(seeds=[feed.take_attribute("url") for feed in part.take("feed")])
    converted.specification = _patterns(part, "excludes", "exclude")
    for timing in ("feedtimeout", "feedrescan", "minfeedrescan", "badfeedrescan"):
        for given in part.take(timing):
            given.refuse("Feeds follow the intervals and the schedule of the job.")
    for mode, usual in (("dechromedmode", "none"), ("chromedmode", "use")):
        for given in part.take(mode):
            if given.take_attribute("mode") not in {"", usual}:
                given.note("crawlctl indexes the page of an entry, with all its text.")
    converted.tokens = _tokens(part)
    _refuse(part)
    return converted


def convert_files(part: Part) -> Converted:
    converted = Converted()
    include: list[str] = []
    exclude: list[str] = []
    for start in part.take("startpoint"):
        path = start.take_attribute("path").strip()
        if not PurePosixPath(path).is_absolute():
            start.refuse(f"{path!r} is not an absolute path.")
            continue
        converted.seeds.append(PurePosixPath(path).as_uri())
        converted.roots.append(path)
        if start.take_attribute("converttouri") == "true":
            start.note("Files keep their file addresses.")
        seen: set[str] = set()
        rules = [child for child in start.children if child.kind in {"include", "exclude"}]
        start.children = [child for child in start.children if child not in rules]
        for rule in rules:
            _file_rule(rule, include, exclude, seen=seen)
        start.left()
    if len(converted.seeds) > 1 and (include or exclude):
        part.note("Rules of all start points apply to the whole job.")
    found = {"include": [] if "*" in include else include, "exclude": exclude}
    converted.specification = {name: list(dict.fromkeys(rules)) for name, rules in found.items() if rules}
    part.left()
    return converted


def _file_rule(rule: Part, include: list[str], exclude: list[str], *, seen: set[str]) -> None:
    """
    Add a rule of a start point. In ManifoldCF the first rule that matches applies, so a rule after `*` has no effect.
    """
    of, glob = rule.take_attribute("type") or "file", rule.take_attribute("match") or rule.take_text() or "*"
    if of in seen:
        rule.note(f"It has no effect after a rule for all names of type {of}.")
    elif rule.kind == "exclude":
        exclude.append(glob)
    elif of == "file":
        include.append(glob)
    elif glob != "*":
        rule.note("crawlctl has no rules that include directories. Exclude the others.")
    if glob == "*":
        seen.add(of)
    rule.left()


def _refuse(part: Part) -> None:
    """Note the parts of web and feed jobs that crawlctl lacks, and all unknown parts."""
    for rule in part.take("urlspec"):
        rule.refuse(_CANONICAL)
    for security in part.take("security"):
        security.refuse(_SECURITY)
    for forced in part.take("metadata"):
        forced.refuse("crawlctl adds no forced metadata.")
    for mapped in part.take("map"):
        mapped.refuse("crawlctl does not rewrite addresses.")
    part.left()


def _tokens(part: Part) -> list[str]:
    """Return the tokens of a forced access list."""
    given = part.take("access")
    tokens = [access.take_attribute("token") for access in given]
    for access in given:
        access.left()
    return list(filter(None, tokens))


def _lines(part: Part) -> list[str]:
    """Return the lines of a text, without the lines that are comments."""
    lines = [line.strip() for line in part.take_text().splitlines()]
    return [line for line in lines if line and not line.startswith("#")]


def _patterns(part: Part, kind: str, name: str) -> dict[str, list[str]]:
    """
    Return a field of regular expressions.

    An expression that RE2 does not accept is noted and stays, so that an import refuses it. Without the expression, the
    job would read more documents.
    """
    patterns: list[str] = []
    for given in part.take(kind):
        lines = _lines(given)
        if kind == "includes" and _EVERYTHING & set(lines):
            continue
        for line in lines:
            try:
                compile_pattern(line)
            except BadPattern as error:
                given.note(f"RE2 does not accept {line!r} ({error.reason}). Write it in another way.")
            patterns.append(line)
    return {name: patterns} if patterns else {}
