"""
Parses the rules of a robots.txt for one crawler, by RFC 9309, and finds the name of a crawler in its User-Agent.

This module parses the groups, protego the patterns. protego would match a part of a name, and let an unknown record end
a group. It also copies each rule for each agent of a group, so half a megabyte could require gigabytes. Therefore
protego gets one group only: the rules for this crawler, or the rules for all crawlers.

As the standard says, all groups of a name count together, and only an Allow or a Disallow ends a row of User-agent
lines. A Crawl-delay, which is not part of the standard, applies to the agents above it in its group.
"""

import math
import re
from collections.abc import Iterator
from typing import Final, NamedTuple
from urllib.parse import quote

from protego import Protego

from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits

EVERYONE: Final = "*"
# Letters, digits, - and _. The standard allows no digits, but some crawlers have them in their names: 360Spider,
# bot2go.
_NAME: Final = re.compile(r"[A-Za-z0-9_-]+")
_COMPATIBLE: Final = re.compile(r"\(\s*compatible\s*;\s*([A-Za-z0-9_-]+)", re.IGNORECASE)
_LINE_ENDS: Final = re.compile(r"\r\n|\r|\n")
# Misspellings and a missing colon are accepted, as in Google's and protego's parsers.
_RECORD: Final = re.compile(
    r"(?:(?P<agent>user[- ]?agent)|(?P<allow>allow)|(?P<disallow>dis+al+ow|diasllow|disallaw)|(?P<delay>crawl[- ]?delay))"
    r"\s*[:\s]\s*(?P<value>.*)",
    re.IGNORECASE | re.DOTALL,
)
# No expression matches across lines. Otherwise, a text of blanks or empty lines would take long.
_SITEMAP: Final = re.compile(r"(?:^|[\r\n])[ \t]*sitemap[ \t]*:[ \t]*(\S+)", re.IGNORECASE)
# The part of a pattern before its first wildcard or escape.
_LITERAL: Final = re.compile(r"[^*$%]*")
# Characters of a pattern that stay as they are. All others are escaped, so that no character can end a line.
_PLAIN: Final = "".join(map(chr, range(0x21, 0x7F)))


class RobotsLine(NamedTuple):
    """A rule of robots.txt: the number of its line from 1, and the rule as it is understood."""

    number: int
    rule: str


class _Group(NamedTuple):
    """All groups of robots.txt for one name of a crawler, merged: their rules, and their Crawl-delays."""

    rules: list[RobotsLine]
    delays: list[str]


class RobotsRules:
    """The rules of one robots.txt for the crawler of this name; without rules everything is allowed."""

    def __init__(self, text: str, *, name: str, limits: Limits = DEFAULT_LIMITS) -> None:
        group = _group_for(text, name=name)
        lines = [
            "User-agent: *",
            *(line.rule for line in group.rules),
            *(f"Crawl-delay: {delay}" for delay in group.delays),
        ]
        self._rules = Protego.parse("\n".join(lines))
        self.crawl_delay = self._delay(limits.crawl_delay)

    def allows(self, url: str) -> bool:
        return bool(self._rules.can_fetch(url, EVERYONE))

    def _delay(self, most: float) -> float | None:
        """Return the seconds that the site demands between two requests, at most `most`; None if it demands none."""
        delay = self._rules.crawl_delay(EVERYONE)
        if delay is None or math.isnan(delay) or delay < 0:
            return None
        return min(float(delay), most)


def name_of(user_agent: str) -> str:
    """
    Return the name of the crawler that sends this User-Agent, for robots.txt; `*` if it has none.

    The name is the first word. If the crawler also imitates a browser, the name is the word in `(compatible; Name/1.0;
    …)`.
    """
    user_agent = user_agent.strip()
    if user_agent.lower().startswith("mozilla") and (found := _COMPATIBLE.search(user_agent)) is not None:
        return found[1]
    first = _NAME.match(user_agent)
    return EVERYONE if first is None else first[0]


def is_name(text: str) -> bool:
    """True if a crawler may have this name."""
    return _NAME.fullmatch(text) is not None


def has_rules(text: str) -> bool:
    """
    True if the text has a rule for any crawler. A web page that a server sends in the place of robots.txt has none.
    """
    has_agent = False
    for _, kind, _ in _records(text):
        if kind != "agent" and has_agent:
            return True
        has_agent = True
    return False


def sitemaps_in(text: str) -> Iterator[str]:
    """Yield the addresses of sitemaps that the text names, as typed. They belong to no group of rules."""
    return (found[1] for found in _SITEMAP.finditer(text))


def decisive_line(text: str, *, name: str, url: str) -> RobotsLine | None:
    """
    Return the rule of robots.txt that decides about an address; None if no rule matches it.

    By the standard, this is the longest rule that matches. Between rules of equal length, an Allow wins.
    """
    is_allowed = RobotsRules(text, name=name).allows(url)
    path = url[url.index("/", 8) :]
    deciding = [
        line
        for line in _group_for(text, name=name).rules
        if line.rule.startswith("allow") == is_allowed and path.startswith(_beginning_of(line)) and _matches(line, url)
    ]
    return max(deciding, key=lambda line: len(line.rule.partition(": ")[2]), default=None)


def _beginning_of(line: RobotsLine) -> str:
    """Return the beginning of a pattern that is also the beginning of each matching path."""
    return _LITERAL.match(line.rule.partition(": ")[2])[0]  # type: ignore[index] # it matches the empty text, too


def _matches(line: RobotsLine, url: str) -> bool:
    pattern = line.rule.partition(": ")[2]
    return not Protego.parse(f"User-agent: *\ndisallow: {pattern}").can_fetch(url, EVERYONE)


def _group_for(text: str, *, name: str) -> _Group:
    """Return the group for the crawler of this name; if the text does not name it, the group for everyone."""
    wanted = name.lower()
    groups = {EVERYONE: _Group([], []), wanted: _Group([], [])}
    is_named = False
    # Those agents of the current group that name this crawler or all crawlers, and True after the first rule of the
    # group.
    agents: set[str] = set()
    has_begun = False
    for number, kind, value in _records(text):
        if kind == "agent":
            if has_begun:
                agents, has_begun = set(), False
            agent = _agent_of(value)
            if agent in groups:
                agents.add(agent)
                is_named = is_named or agent == wanted
        elif kind == "delay":
            for agent in agents:
                groups[agent].delays.append(quote(value, safe=_PLAIN))
        else:
            has_begun = True
            for agent in agents if value else ():
                groups[agent].rules.append(RobotsLine(number, f"{kind}: {quote(value, safe=_PLAIN)}"))
    return groups[wanted if is_named else EVERYONE]


def _agent_of(value: str) -> str:
    """Return the name in a User-agent line, in lower case; '' if it has none."""
    if value == EVERYONE or value[:2].rstrip() == EVERYONE:
        return EVERYONE
    # Some sites write stars around a name. The standard does not have them, so they are ignored.
    found = _NAME.match(value.lstrip(EVERYONE))
    return "" if found is None else found[0].lower()


def _records(text: str) -> Iterator[tuple[int, str, str]]:
    """
    Yield the records of the kinds that the standard defines or crawlers know, as (number of the line, kind, value).
    Other records have no effect.
    """
    for number, line in enumerate(_LINE_ENDS.split(text), start=1):
        record = _RECORD.match(line.partition("#")[0].strip())
        if record is not None:
            assert record.lastgroup is not None
            kind = next(name for name in ("agent", "allow", "disallow", "delay") if record[name] is not None)
            yield number, kind, record["value"]
