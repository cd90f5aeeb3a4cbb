"""
A simulated site for the freshness of looks: pages with known change rates on hosts with a limit of requests. No I/O.

Time is virtual. Changes have no memory, so a look needs one random number only: the time of the first change after it.
Each schedule gets the same pages, the same limits, and the same measure: the share of page-seconds in which the crawl
has seen all changes that are older than the goal's time. The measure uses the true change rates, which no schedule
sees: after a look, the chance of freshness depends only on the rate and the time, so it is exact and has no noise of
its own.
"""

import heapq
import math
import random
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.freshness.looks import fresh_share, looks, price_at
from jobs.freshness.plans import PLANNED
from jobs.freshness.pricing import GoalTerms, LanePlan, LaneSample, Seen, price_host
from jobs.freshness.rates import NO_EVIDENCE, Evidence, after_look

HOUR: Final = 3600.0
DAY: Final = 24 * HOUR
_TEMPLATES: Final = 6


@dataclass(frozen=True, slots=True)
class Page:
    number: int
    host: int
    rate: float
    address: str


@dataclass(frozen=True, slots=True)
class Site:
    """Pages on hosts that allow `looks_per_second` each. They must be fresh `within` these seconds."""

    pages: Sequence[Page]
    looks_per_second: float
    within: float
    longest: float = 30 * DAY

    def of_host(self, host: int) -> list[Page]:
        return [page for page in self.pages if page.host == host]

    @property
    def hosts(self) -> list[int]:
        return sorted({page.host for page in self.pages})


def skewed_site(*, pages: int, hosts: int, looks_per_page_and_day: float, within: float, seed: int) -> Site:
    """
    Return a site whose pages change after a day in the median; the middle two thirds are between 1.5 hours and 16 days.

    Pages of one template differ by a factor of 5 in the middle two thirds, and templates by a factor of 9.
    """
    chance = random.Random(seed)
    medians = [chance.gauss(0, 2.2) for _ in range(_TEMPLATES)]
    made = []
    for number in range(pages):
        template = chance.randrange(_TEMPLATES)
        rate = math.exp(medians[template] + chance.gauss(0, 1.7)) / DAY
        made.append(Page(number, number % hosts, rate, f"http://host/{'abcdefgh'[template]}/{number}.html"))
    return Site(made, pages / hosts * looks_per_page_and_day / DAY, within)


class Schedule(ABC):
    """Decides the interval to the next look at a page."""

    name: str

    @abstractmethod
    def first(self, page: Page) -> float:
        """Return the interval after the first look."""

    @abstractmethod
    def next(self, page: Page, *, now: float, seconds: float, changed: bool) -> float:
        """Return the interval after a look that came `seconds` after the one before."""


class Fixed(Schedule):
    """Looks at all pages equally often."""

    name = "fixed interval"

    def __init__(self, site: Site) -> None:
        self._interval = len(site.of_host(0)) / site.looks_per_second

    def first(self, page: Page) -> float:
        return self._interval

    def next(self, page: Page, *, now: float, seconds: float, changed: bool) -> float:
        return self._interval


class Nutch(Schedule):
    """
    Nutch's AdaptiveFetchSchedule with its defaults: 1.4 times the interval after no change, 0.8 times after one.

    It begins with the interval that the host allows, which is better than Nutch's 30 days here.
    """

    name = "Nutch's adaptive"

    def __init__(self, site: Site) -> None:
        self._first = len(site.of_host(0)) / site.looks_per_second
        self._intervals: dict[int, float] = {}

    def first(self, page: Page) -> float:
        return self._intervals.setdefault(page.number, self._first)

    def next(self, page: Page, *, now: float, seconds: float, changed: bool) -> float:
        interval = self._intervals[page.number] * (0.8 if changed else 1.4)
        self._intervals[page.number] = min(max(interval, 60.0), 365 * DAY)
        return self._intervals[page.number]


class Best(Schedule):
    """The best intervals for the true change rates: no schedule can do better. It uses the whole budget of a host."""

    name = "best possible"

    def __init__(self, site: Site) -> None:
        self._intervals: dict[int, float] = {}
        for host in site.hosts:
            pages = site.of_host(host)
            low, high = math.log(1e-3), math.log(site.within + 1 / min(page.rate for page in pages))
            for _ in range(60):
                middle = (low + high) / 2
                intervals = [_best_interval(page.rate, site, price=math.exp(middle)) for page in pages]
                is_too_much = sum(1 / one for one in intervals) > site.looks_per_second * PLANNED
                low, high = (middle, high) if is_too_much else (low, middle)
            self._intervals |= {page.number: _best_interval(page.rate, site, price=math.exp(high)) for page in pages}
        self._chance = random.Random(0)

    def first(self, page: Page) -> float:
        # Pages with the same interval must not all be due at the same time.
        return self._chance.random() * self._intervals[page.number]

    def next(self, page: Page, *, now: float, seconds: float, changed: bool) -> float:
        return self._intervals[page.number]


def _best_interval(rate: float, site: Site, *, price: float) -> float:
    """Return the interval at which the last look buys `price` seconds of freshness, by bisection."""
    low, high = max(site.within, 1.0), site.longest
    if price_at(rate=rate, interval=high, within=site.within) <= price:
        return high
    for _ in range(50):
        middle = math.sqrt(low * high)
        is_less = price_at(rate=rate, interval=middle, within=site.within) < price
        low, high = (middle, high) if is_less else (low, middle)
    return high


class Ours(Schedule):
    """The intervals of `jobs.freshness`: it knows only which looks found a change."""

    name = "freshness goals"

    def __init__(self, site: Site, *, share: float = 1.0, sample: int = 150) -> None:
        self._site, self._sample = site, sample
        self._terms = [GoalTerms(share, site.within)]
        # Seconds between two measurements: a quarter of the time between two looks at the average page.
        self._every = len(site.of_host(site.hosts[0])) / site.looks_per_second / 4
        # The freshness that each plan expects.
        self.expected: list[float] = []
        self._looks = looks(site.within, site.longest)
        self._chance = random.Random(0)
        self._seen: dict[int, list[Page]] = defaultdict(list)
        self._evidence: dict[int, Evidence] = {}
        self._plans: dict[int, LanePlan] = {}
        self._priced_at: dict[int, float] = {}

    def first(self, page: Page) -> float:
        self._seen[page.host].append(page)
        self._evidence[page.number] = NO_EVIDENCE
        return self._interval(page)

    def next(self, page: Page, *, now: float, seconds: float, changed: bool) -> float:
        self._evidence[page.number] = after_look(self._evidence[page.number], seconds, changed=changed)
        if now - self._priced_at.get(page.host, 0.0) >= self._every:
            self._price(page.host)
            self._priced_at[page.host] = now
        return self._interval(page)

    def _price(self, host: int) -> None:
        pages = self._seen[host]
        sample = self._chance.sample(pages, min(self._sample, len(pages)))
        seen = [Seen(0, page.address, self._evidence[page.number], 0.0) for page in sample]
        before = self._plans.get(host, LanePlan())
        lane = LaneSample(self._terms, self._site.longest, seen, len(pages) / len(sample), before)
        (self._plans[host],) = price_host([lane], allows=self._site.looks_per_second)
        self.expected.append(self._plans[host].goals[0].expected)

    def _interval(self, page: Page) -> float:
        plan = self._plans.get(page.host)
        if plan is None:
            return len(self._site.of_host(page.host)) / self._site.looks_per_second
        return plan.interval(0, page.address, self._evidence[page.number], self._looks)


def freshness(site: Site, schedule: Schedule, *, days: float, warm_up: float, seed: int) -> float:
    """Return the share of page-seconds in which the pages were fresh, after `warm_up` days."""
    fresh = total = 0.0
    for host in site.hosts:
        one, both = _of_host(site, schedule, host=host, end=days * DAY, begin=warm_up * DAY, seed=seed)
        fresh, total = fresh + one, total + both
    return fresh / total


def _of_host(site: Site, schedule: Schedule, *, host: int, end: float, begin: float, seed: int) -> tuple[float, float]:
    chance = random.Random(f"{seed} {host}")
    pages = site.of_host(host)
    gap, free, fresh, total = 1 / site.looks_per_second, 0.0, 0.0, 0.0
    due = [(chance.random(), position) for position in range(len(pages))]
    heapq.heapify(due)
    last: list[float | None] = [None] * len(pages)
    # The moment of the first change after the last look at each page.
    changes_at = [0.0] * len(pages)
    while due[0][0] < end and free < end:
        at, position = heapq.heappop(due)
        # The host allows one look in each gap: a later look waits for its turn.
        now = max(at, free)
        free = now + gap
        page, before = pages[position], last[position]
        if before is None:
            interval = schedule.first(page)
        else:
            changed = changes_at[position] <= now
            fresh += _fresh_seconds(page, site, since=before, begin=begin, end=now)
            total += max(0.0, now - max(before, begin))
            interval = schedule.next(page, now=now, seconds=now - before, changed=changed)
        last[position] = now
        changes_at[position] = now + chance.expovariate(page.rate)
        heapq.heappush(due, (now + interval, position))
    for position, before in enumerate(last):
        # The time from the last look to the end counts as well.
        if before is not None:
            fresh += _fresh_seconds(pages[position], site, since=before, begin=begin, end=end)
        total += end - max(before or 0.0, begin)
    return fresh, total


def _fresh_seconds(page: Page, site: Site, *, since: float, begin: float, end: float) -> float:
    """Return the mean fresh seconds of a page between `begin` and `end`, if its last look was at `since`."""

    def until(moment: float) -> float:
        seconds = max(moment - since, 0.0)
        return seconds * fresh_share(rate=page.rate, interval=seconds, within=site.within) if seconds else 0.0

    return max(until(end) - until(begin), 0.0)
