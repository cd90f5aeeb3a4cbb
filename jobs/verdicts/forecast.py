"""
The forecast of the end of a run: the queues of its hosts, emptied at the rates that they allow. Arithmetic, no I/O.

The model treats the queues as a fluid: each host is served at the rate that it allows, as long as the workers' capacity
is enough. The capacity is shared fairly between the hosts. Documents that are still to be found are added to the
queues. Two things are unknown: the number of these documents, and the pace of the crawl compared with the model. The
band of the forecast comes from both.
"""

import datetime as dt
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

# Share of the rate that its hosts allow. A crawl at this rate or above is limited by its hosts, and not by its workers.
_AT_THE_LIMIT: Final = 0.85
# Documents a second that are assumed for a host without a limit.
_UNLIMITED: Final = 1_000.0
# Least and largest value of the real pace of a crawl, divided by the pace in the model.
_SLOWEST: Final = 0.25
_FASTEST: Final = 1.1
# The forecast is a range. Unknown documents widen it, and so do these factors and seconds for starts, ends and chance.
_SOONER: Final = 0.93
_LATER: Final = 1.15
_SLACK: Final = 20.0
# Largest number of documents still to be found, for each known document.
_MOST_FOUND: Final = 20.0
# Least share of the time that a change must save to count as a gain.
_GAIN: Final = 0.02


class Queue(NamedTuple):
    """The documents that wait at one host, and the rate that it allows (documents a second); None without a limit."""

    waiting: float
    allowed: float | None


class Sample(NamedTuple):
    """The documents of a run at one moment: the number of all `known` documents, and of the ended ones."""

    seconds: float
    known: int
    ended: int


@dataclass(frozen=True, slots=True)
class Band:
    """The seconds until the end: the likely number, and the bounds between which it is in 80 % of all crawls."""

    likely: float
    soonest: float
    latest: float


@dataclass(frozen=True, slots=True)
class Forecast:
    """
    The forecast of a run. `hosts_are_the_limit` is true if more workers would not help.

    `found` is the likely number of documents that are still to be found.
    """

    band: Band
    hosts_are_the_limit: bool
    found: int


def forecast(
    queues: Sequence[Queue], samples: Sequence[Sample], *, workers: float = 1.0, rate: float = 1.0
) -> Forecast | None:
    """
    Return the forecast; None if nothing waits, if all hosts are closed, or if the samples show no progress.

    `samples` are of the last minutes, the oldest first. `workers` and `rate` multiply the present number of workers and
    the allowed rates.
    """
    waiting = sum(queue.waiting for queue in queues)
    recent = _recent_rate(samples)
    if not waiting or not recent:
        return None
    allowed = [_UNLIMITED if queue.allowed is None else queue.allowed for queue in queues]
    served = sum(pace for queue, pace in zip(queues, allowed, strict=True) if queue.waiting >= 1)
    if not served:
        return None
    are_hosts_the_limit = recent >= served * _AT_THE_LIMIT
    capacity = math.inf if are_hosts_the_limit else recent * workers
    pace = min(_FASTEST, max(_SLOWEST, recent / served)) if are_hosts_the_limit else 1.0
    few, likely, many = _estimate_undiscovered(samples, waiting=waiting)
    changed = [one * rate for one in allowed]

    def last(found: float) -> float:
        grown = [queue.waiting * (1 + found / waiting) for queue in queues]
        return drain(grown, changed, capacity=capacity) / pace

    band = Band(
        likely=last(likely),
        soonest=max(0.0, last(few) * _SOONER - _SLACK),
        latest=last(many) * _LATER + _SLACK,
    )
    return Forecast(band, are_hosts_the_limit, round(likely))


def is_gain(before: Band, after: Band) -> bool:
    """True if a change ends the run noticeably earlier."""
    return after.likely < before.likely * (1 - _GAIN)


def drain(waiting: Sequence[float], allowed: Sequence[float], *, capacity: float) -> float:
    """Return the seconds until all queues are empty, if `capacity` is shared fairly between them."""
    left = [(amount, rate) for amount, rate in zip(waiting, allowed, strict=True) if amount > 0]
    seconds = 0.0
    while left:
        if any(not rate for _amount, rate in left):
            return math.inf
        paces = _share([rate for _amount, rate in left], capacity)
        step = min(amount / pace for (amount, _rate), pace in zip(left, paces, strict=True))
        seconds += step
        rest = [(amount - pace * step, rate) for (amount, rate), pace in zip(left, paces, strict=True)]
        left = [(amount, rate) for amount, rate in rest if amount > 1e-6]
    return seconds


def _share(rates: Sequence[float], capacity: float) -> list[float]:
    """Return the rate of each queue: its own, or a fair share of the capacity if that is less."""
    if sum(rates) <= capacity:
        return list(rates)
    fair, left, others = 0.0, capacity, len(rates)
    for rate in sorted(rates):
        fair = left / others
        if rate >= fair:
            break
        left, others = left - rate, others - 1
    return [min(rate, fair) for rate in rates]


def _recent_rate(samples: Sequence[Sample]) -> float:
    if len(samples) < 2 or samples[-1].seconds <= samples[0].seconds:
        return 0.0
    middle = samples[len(samples) // 2] if len(samples) > 4 else samples[0]
    return max(0.0, (samples[-1].ended - middle.ended) / (samples[-1].seconds - middle.seconds))


def _estimate_undiscovered(samples: Sequence[Sample], *, waiting: float) -> tuple[float, float, float]:
    """
    Return three numbers of documents that are still to be found: the least, the likely and the most.

    The model assumes that each ended document finds the same part of the unknown documents, so discoveries decrease
    exponentially. A comparison of the two halves of the samples shows how fast. For the largest number, each document
    finds as many as a document of the last minutes did.
    """
    first, middle, last = samples[0], samples[len(samples) // 2], samples[-1]
    before = _found_per_outcome(first, middle)
    lately = _found_per_outcome(middle, last)
    if not lately:
        return 0.0, 0.0, 0.0
    ended = (last.ended - first.ended) / 2
    most = min(_MOST_FOUND, lately / (1 - lately) if lately < 1 else _MOST_FOUND) * waiting
    if before <= lately:
        return most / 2, most * 0.75, most
    fading = lately * ended / math.log(before / lately)
    # `lately` is the mean of the last half of the samples. The present value is lower.
    likely = min(most, fading * math.sqrt(lately / before))
    return likely / 2, likely, max(likely, min(most, 2 * fading))


def _found_per_outcome(earlier: Sample, later: Sample) -> float:
    ended = later.ended - earlier.ended
    return max(0.0, (later.known - earlier.known) / ended) if ended > 0 else 0.0


def end_in_window(now: dt.datetime, seconds: float, *, opens: dt.time, closes: dt.time) -> dt.datetime:
    """
    Return the moment at which work of some seconds ends if it is done only from `opens` until `closes` of each day.
    """
    at, left = now, seconds
    while True:
        start = dt.datetime.combine(at.date(), opens, at.tzinfo)
        if opens < closes:
            if at.timetz().replace(tzinfo=None) >= closes:
                start += dt.timedelta(days=1)
            end = dt.datetime.combine(start.date(), closes, at.tzinfo)
        else:
            if at.timetz().replace(tzinfo=None) < closes:
                start -= dt.timedelta(days=1)
            end = dt.datetime.combine(start.date() + dt.timedelta(days=1), closes, at.tzinfo)
        begin = max(at, start)
        room = (end - begin).total_seconds()
        if left <= room:
            return begin + dt.timedelta(seconds=left)
        left, at = left - room, end
