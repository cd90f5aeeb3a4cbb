"""
robots.txt by RFC 9309: the rules of a site for crawlers, and their lifetime.

An answer is fetched once for each origin and run, and again after a day. All workers share it. `RobotsTable` holds the
answers that this process knows. It also takes answers of other processes, and returns the answers that this process
fetched, to be stored. `robots_rules` parses the rules. The status of robots.txt has these meanings:

- 2xx: the rules in the whole lines of the first 500 KiB; a web page in the place of robots.txt has no rules;
- 3xx: followed up to five hops, to any host; after more, or without a target: no rules;
- other 4xx: no rules, everything is allowed;
- 429 and 5xx: unreachable; no document of the origin is fetched until it answers.

A connection that fails has no such meaning: the document fails in the same way.
"""

import asyncio
import enum
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.web.fetch import Fetches, FetchFailed, Response
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.location import location_of
from jobs.connectors.repository.web.retry import retry_after_of
from jobs.connectors.repository.web.robots_rules import RobotsRules, has_rules
from jobs.connectors.repository.web.urls import BadUrl, canonical

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ORIGINS_HELD: Final = 8192
_CHARACTERS_HELD: Final = 16 * 1024 * 1024
# Shortest time before an unreachable origin's robots.txt is requested again (seconds).
_UNREACHABLE_SECONDS: Final = 1.0


class RobotsKind(enum.StrEnum):
    """The kind of answer to a request for robots.txt: it has rules, allows everything, or could not be read."""

    RULES = "rules"
    ALLOW_ALL = "allow_all"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """The answer of one origin. `text` holds the rules, as fetched. `retry_after` is for an unreachable one."""

    kind: RobotsKind
    text: str = ""
    retry_after: float | None = None


ALLOW_ALL: Final = RobotsAnswer(RobotsKind.ALLOW_ALL)


class RobotsTable:
    """
    The known robots.txt answers, by origin, for all jobs of this process.

    `learn` takes an answer that another process fetched. `take_fetched` returns the answers that this process fetched
    since the last call. Times are those of this process's own `clock`.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._characters = 0
        self._unreachable_since: dict[str, float] = {}
        self._fetched: dict[str, RobotsAnswer] = {}
        self._under_way: dict[str, _Fetch] = {}

    def known(self, origin: str) -> RobotsAnswer | None:
        """Return the answer of the origin; None if it is unknown or has expired."""
        known = self._known.get(origin)
        if known is None or known.expires <= self._clock():
            return None
        return known.answer

    def forget_older(self, origin: str, *, than: float) -> None:
        """
        Drop the answer if it is older than this moment of the table's clock, because each run requests robots.txt
        again.
        """
        known = self._known.get(origin)
        if known is not None and known.asked_at < than:
            self._forget(origin)

    def learn(self, origin: str, answer: RobotsAnswer, *, lives_for: float, age: float = 0.0) -> None:
        """Store this answer for `lives_for` seconds. The origin gave it `age` seconds ago."""
        now = self._clock()
        self._forget(origin)
        self._known[origin] = _Known(answer=answer, asked_at=now - age, expires=now + lives_for, rules={})
        self._characters += len(answer.text)
        if answer.kind is RobotsKind.UNREACHABLE:
            self._unreachable_since.setdefault(origin, now)
        else:
            self._unreachable_since.pop(origin, None)
        while len(self._known) > _ORIGINS_HELD or (self._characters > _CHARACTERS_HELD and len(self._known) > 1):
            oldest = next(iter(self._known))
            self._forget(oldest)
            self._unreachable_since.pop(oldest, None)

    def rules(self, origin: str, *, name: str) -> RobotsRules:
        """Return the rules of a known, reachable origin for the crawler of this name."""
        known = self._known[origin]
        rules = known.rules.get(name)
        if rules is None:
            rules = known.rules[name] = RobotsRules(known.answer.text, name=name, limits=self._limits)
        return rules

    def crawl_delay(self, origin: str, *, name: str) -> float | None:
        """
        Return the seconds between two requests that an origin demands; None if it demands none, or its rules are
        unknown.
        """
        answer = self.known(origin)
        if answer is None or answer.kind is RobotsKind.UNREACHABLE:
            return None
        return self.rules(origin, name=name).crawl_delay

    def unreachable_for(self, origin: str) -> float:
        """Return the seconds since the origin became unreachable; 0 if it is not."""
        since = self._unreachable_since.get(origin)
        return 0.0 if since is None else self._clock() - since

    @property
    def has_fetched(self) -> bool:
        """True if an answer was fetched here and is not yet taken."""
        return bool(self._fetched)

    def take_fetched(self) -> dict[str, RobotsAnswer]:
        """Return the answers that this process fetched since the last call, by origin, without unreachable origins."""
        fetched, self._fetched = self._fetched, {}
        return fetched

    async def ask(self, origin: str, *, fetcher: Fetches, headers: Mapping[str, str], pace: Pace) -> RobotsAnswer:
        """
        Return the answer of the origin, fetched if it is not known. Two calls at the same time cause one fetch.

        Raises:
            FetchFailed: the connection failed, or broke.
        """
        while (answer := self.known(origin)) is None:
            fetch = self._under_way.get(origin)
            if fetch is None:
                return await self._fetch_for_all(origin, fetcher=fetcher, headers=headers, pace=pace)
            await fetch.over.wait()
            # If a host does not answer, all of its documents wait for the same attempt, and share the failure.
            if fetch.failure is not None:
                raise FetchFailed(fetch.failure.code, fetch.failure.detail)
        return answer

    async def _fetch_for_all(
        self, origin: str, *, fetcher: Fetches, headers: Mapping[str, str], pace: Pace
    ) -> RobotsAnswer:
        fetch = self._under_way[origin] = _Fetch()
        try:
            answer = await self._fetch(origin, fetcher=fetcher, headers=headers, pace=pace)
        except FetchFailed as failure:
            fetch.failure = failure
            raise
        else:
            self._learn_fetched(origin, answer)
            return answer
        finally:
            # The entry is removed after a cancellation, too, so that one of the waiting calls fetches instead.
            del self._under_way[origin]
            fetch.over.set()

    def _forget(self, origin: str) -> None:
        known = self._known.pop(origin, None)
        if known is not None:
            self._characters -= len(known.answer.text)

    def _learn_fetched(self, origin: str, answer: RobotsAnswer) -> None:
        if answer.kind is RobotsKind.UNREACHABLE:
            self.learn(origin, answer, lives_for=max(_UNREACHABLE_SECONDS, min(answer.retry_after or 0.0, 10.0)))
        else:
            self.learn(origin, answer, lives_for=self._limits.robots_seconds)
            self._fetched[origin] = answer

    async def _fetch(self, origin: str, *, fetcher: Fetches, headers: Mapping[str, str], pace: Pace) -> RobotsAnswer:
        url = f"{origin}/robots.txt"
        for _ in range(self._limits.robots_redirects + 1):
            await pace.before_request()
            response = await fetcher.fetch(
                url,
                headers={**headers, "Accept": "text/plain, */*;q=0.5"},
                is_wanted=lambda status, _headers, _first: 200 <= status < 300,
                most_bytes=self._limits.robots_bytes,
            )
            if response.status not in _REDIRECTS:
                return _answer_of(response, limits=self._limits)
            try:
                url = canonical(location_of(response), url, limits=self._limits)
            except BadUrl:
                return ALLOW_ALL
        return ALLOW_ALL


class _Fetch:
    """A robots.txt that is being fetched. Other calls wait until it is `over`."""

    def __init__(self) -> None:
        self.over = asyncio.Event()
        self.failure: FetchFailed | None = None


@dataclass(frozen=True, slots=True)
class _Known:
    answer: RobotsAnswer
    asked_at: float
    expires: float
    rules: dict[str, RobotsRules]


def _answer_of(response: Response, *, limits: Limits) -> RobotsAnswer:
    status = response.status
    if status == 429 or status >= 500:
        retry_after = retry_after_of(response.headers, most=limits.longest_retry_after)
        return RobotsAnswer(RobotsKind.UNREACHABLE, retry_after=retry_after)
    if not 200 <= status < 300:
        return ALLOW_ALL
    text = response.body.decode("utf-8-sig", "replace").replace("\x00", "")
    if not response.whole:
        # An incomplete last line is dropped, because "Disallow: /a" may be cut to "Disallow: /".
        text = text[: max(text.rfind("\n"), text.rfind("\r")) + 1]
    return RobotsAnswer(RobotsKind.RULES, text=text) if has_rules(text) else ALLOW_ALL
