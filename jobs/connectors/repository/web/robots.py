"""
robots.txt by RFC 9309: what a site asks of crawlers, and how long that is believed.

An answer is fetched once per origin and day and shared: `RobotsTable` holds what this process knows, is
taught what others have fetched, and gives out what was fetched here, to be stored. The rules themselves
are read by protego. How the status of robots.txt is understood:

- 2xx: the rules in the first 500 KiB; a page of HTML in their place has no rules;
- 3xx: followed up to five hops, to any host; further ones, or one that leads nowhere: no rules;
- other 4xx: no rules, everything is allowed;
- 429 and 5xx: unreachable; nothing of the origin is fetched until it answers.

A connection that fails is neither: the document itself would fail the same way, and does.
"""

import asyncio
import enum
import math
import re
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from protego import Protego

from jobs.connectors.repository.base import Pace
from jobs.connectors.repository.web.fetch import Fetcher, Response
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.retry import retry_after_of
from jobs.connectors.repository.web.urls import BadUrl, canonical

_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_ORIGINS_HELD: Final = 8192
# How long an unreachable origin is not asked for robots.txt again, at least.
_UNREACHABLE_SECONDS: Final = 1.0


class RobotsKind(enum.StrEnum):
    RULES = "rules"
    ALLOW_ALL = "allow_all"
    UNREACHABLE = "unreachable"


@dataclass(frozen=True, slots=True)
class RobotsAnswer:
    """What one origin said. `text` holds the rules, as fetched; `retry_after` is for an unreachable one."""

    kind: RobotsKind
    text: str = ""
    retry_after: float | None = None


ALLOW_ALL: Final = RobotsAnswer(RobotsKind.ALLOW_ALL)


class RobotsRules:
    """The rules of one origin for one crawler. `token` is its product token, as in `product_token`."""

    def __init__(self, answer: RobotsAnswer, *, token: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._token = token
        self._rules = Protego.parse(answer.text) if answer.kind is RobotsKind.RULES else None
        self.crawl_delay = self._delay(limits.crawl_delay)

    def allows(self, url: str) -> bool:
        return self._rules is None or bool(self._rules.can_fetch(url, self._token))

    def _delay(self, most: float) -> float | None:
        """The seconds between two requests that the site asks for, at most `most`."""
        delay = None if self._rules is None else self._rules.crawl_delay(self._token)
        if delay is None or math.isnan(delay) or delay < 0:
            return None
        return min(float(delay), most)


class RobotsTable:
    """
    What this process knows of robots.txt, by origin; for all its jobs.

    `learn` takes what another process has fetched; `take_fetched` hands out what was fetched here since it
    was last called. Times are those of this process' own `clock`.
    """

    def __init__(self, *, limits: Limits = DEFAULT_LIMITS, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._clock = clock
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._unreachable_since: dict[str, float] = {}
        self._fetched: dict[str, RobotsAnswer] = {}
        self._under_way: dict[str, asyncio.Lock] = {}

    def known(self, origin: str) -> RobotsAnswer | None:
        """What the origin said, if that may still be believed."""
        known = self._known.get(origin)
        if known is None or known.expires <= self._clock():
            return None
        return known.answer

    def learn(self, origin: str, answer: RobotsAnswer, *, lives_for: float) -> None:
        """Believe this answer for so many seconds."""
        now = self._clock()
        self._known[origin] = _Known(answer=answer, expires=now + lives_for, rules={})
        self._known.move_to_end(origin)
        if answer.kind is RobotsKind.UNREACHABLE:
            self._unreachable_since.setdefault(origin, now)
        else:
            self._unreachable_since.pop(origin, None)
        while len(self._known) > _ORIGINS_HELD:
            dropped, _ = self._known.popitem(last=False)
            self._unreachable_since.pop(dropped, None)

    def rules(self, origin: str, *, token: str) -> RobotsRules:
        """The rules of a known, reachable origin for this crawler."""
        known = self._known[origin]
        rules = known.rules.get(token)
        if rules is None:
            rules = known.rules[token] = RobotsRules(known.answer, token=token, limits=self._limits)
        return rules

    def crawl_delay(self, origin: str, *, token: str) -> float | None:
        """The seconds between two requests that a known origin asks for."""
        answer = self.known(origin)
        if answer is None or answer.kind is RobotsKind.UNREACHABLE:
            return None
        return self.rules(origin, token=token).crawl_delay

    def unreachable_for(self, origin: str) -> float:
        """The seconds since the first of the origin's unbroken series of refusals."""
        since = self._unreachable_since.get(origin)
        return 0.0 if since is None else self._clock() - since

    def take_fetched(self) -> dict[str, RobotsAnswer]:
        """The answers that were fetched here and are not yet taken, by origin; unreachable ones are not told."""
        fetched, self._fetched = self._fetched, {}
        return fetched

    async def ask(self, origin: str, *, fetcher: Fetcher, headers: Mapping[str, str], pace: Pace) -> RobotsAnswer:
        """
        What the origin says, fetched if it is not known. Two who ask at once cause one fetch.

        Raises:
            FetchFailed: the connection failed, or broke.
        """
        answer = self.known(origin)
        if answer is not None:
            return answer
        lock = self._under_way.setdefault(origin, asyncio.Lock())
        try:
            async with lock:
                answer = self.known(origin)
                if answer is None:
                    answer = await self._fetch(origin, fetcher=fetcher, headers=headers, pace=pace)
                    self._learn_fetched(origin, answer)
                return answer
        finally:
            if not lock.locked():
                self._under_way.pop(origin, None)

    def _learn_fetched(self, origin: str, answer: RobotsAnswer) -> None:
        if answer.kind is RobotsKind.UNREACHABLE:
            self.learn(origin, answer, lives_for=max(_UNREACHABLE_SECONDS, min(answer.retry_after or 0.0, 10.0)))
        else:
            self.learn(origin, answer, lives_for=self._limits.robots_seconds)
            self._fetched[origin] = answer

    async def _fetch(self, origin: str, *, fetcher: Fetcher, headers: Mapping[str, str], pace: Pace) -> RobotsAnswer:
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
                url = canonical(response.headers.get("Location", ""), url, limits=self._limits)
            except BadUrl:
                return ALLOW_ALL
        return ALLOW_ALL


@dataclass(frozen=True, slots=True)
class _Known:
    answer: RobotsAnswer
    expires: float
    rules: dict[str, RobotsRules]


def product_token(user_agent: str) -> str:
    """What robots.txt calls the crawler that sends this User-Agent: its first letters, - and _ included."""
    token = re.match(r"[A-Za-z_-]*", user_agent.strip())
    return token[0] if token is not None and token[0] else "*"


def _answer_of(response: Response, *, limits: Limits) -> RobotsAnswer:
    status = response.status
    if status == 429 or status >= 500:
        retry_after = retry_after_of(response.headers, most=limits.back_off)
        return RobotsAnswer(RobotsKind.UNREACHABLE, retry_after=retry_after)
    if not 200 <= status < 300:
        return ALLOW_ALL
    text = response.body.decode("utf-8-sig", "replace").replace("\x00", "")
    if text.lstrip()[:1] == "<":
        return ALLOW_ALL
    return RobotsAnswer(RobotsKind.RULES, text=text)
