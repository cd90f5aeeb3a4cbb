"""
The verdict on a host: the reason for which it gets no more requests, from facts of one moment.

The checks begin with the most decisive reason: a denied host is not slow because of its gap. A host with a queue always
has a cause. For a host that is served, the cause follows from the limits and the time of an answer, not from a measured
rate. A rate lags behind an edit, and is unknown before the first turns have closed.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jobs.throttling.bins import documents_below, is_limited
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.requests import Requests

# Share of the allowed rate from which a host counts as being at this rate. Below 1, because requests are counted when
# turns close, and turns are not equally long.
_AS_GOOD_AS: Final = 0.85
# Time after an edit of limits, or after its first turn, in which a host may be slower than its pace without another
# reason.
_RAMP: Final = dt.timedelta(seconds=20)


@dataclass(frozen=True, slots=True)
class Above:
    """
    A parent that may keep a host waiting. Its rate is the latest, None if unknown.

    `open_documents` counts the documents of the open turns below it.
    """

    id: int
    limits: Limits
    open_requests: int
    opens_at: dt.datetime | None
    starts_per_second: float | None = None
    open_documents: int = 0

    @property
    def is_full(self) -> bool:
        return self.open_requests >= self.limits.requests

    @property
    def has_no_place(self) -> bool:
        """True if no other turn can begin below this parent. Turns below a limited parent may share its requests."""
        if is_limited(self.limits):
            return self.open_documents >= documents_below(self.limits)
        return self.is_full


@dataclass(frozen=True, slots=True)
class Known:
    """
    The facts of a host. `held` counts the `waiting` documents of jobs that are paused or wait; `in_progress` are handed
    out.

    `ready_at` is the time from which the first of its lanes may hand out a document. `is_owned` is True if a manager
    has the group of a seed with such a lane. `is_served` is True if a worker may have its documents; otherwise
    `missing_tag` may be the reason. `group_why` is the reason why a group cannot be stuffed. `open_turns` and `lent`
    are the turns and the requests that workers may have open. `open_now` is the number of requests that are open; None
    if no worker has reported. Rates are the latest ones; None if unknown. `changed_at` is the time of the last change
    of its limits.
    """

    limits: Limits
    is_stopped: bool
    open_turns: int
    lent: int
    not_before: dt.datetime | None
    back_off_until: dt.datetime | None
    back_off_level: int
    waiting: int
    ready_at: dt.datetime | None
    is_owned: bool
    is_served: bool
    starts_per_second: float | None
    bytes_per_second: float | None
    above: Sequence[Above] = ()
    held: int = 0
    in_progress: int = 0
    is_known: bool = True
    missing_tag: str = ""
    group_why: str = ""
    group_failing_since: dt.datetime | None = None
    workers_are_full: bool = False
    asks_for_delay: bool = False
    open_now: int | None = None
    changed_at: dt.datetime | None = None
    latest: Requests = field(default_factory=Requests)

    @property
    def waiting_at_workers(self) -> int:
        """Return the number of documents that workers have claimed and not begun."""
        if not self.open_turns:
            return 0
        return max(0, self.in_progress - (self.lent if self.open_now is None else self.open_now))

    @property
    def queued(self) -> int:
        """Return the number of documents that are not being read, wherever they wait."""
        return self.waiting + self.waiting_at_workers


def judge_host(known: Known, *, now: dt.datetime) -> Verdict:
    """Return the cause that keeps a host from getting more requests."""
    verdict = _cause(known, now=now)
    return replace(verdict, failing=known.latest) if known.latest.is_failing else verdict


def _cause(known: Known, *, now: dt.datetime) -> Verdict:
    if known.limits.denied:
        return Verdict(Cause.DENIED)
    if known.is_stopped:
        return Verdict(Cause.STOPPED)
    if known.limits.closed_until is not None and known.limits.closed_until > now:
        return Verdict(Cause.CLOSED, until=known.limits.closed_until)
    if known.back_off_until is not None and known.back_off_until > now:
        return Verdict(Cause.BACK_OFF, until=known.back_off_until)
    if not known.queued:
        return Verdict(Cause.IN_PROGRESS if known.in_progress else Cause.NOTHING_WAITS)
    if not known.waiting_at_workers and known.held >= known.waiting:
        return Verdict(Cause.JOBS_HELD)
    if not known.is_served:
        return Verdict(Cause.NO_TAG if known.missing_tag else Cause.NO_WORKER, detail=known.missing_tag)
    if known.group_failing_since is not None:
        return Verdict(Cause.GROUP_FAILS, since=known.group_failing_since, detail=known.group_why)
    if not known.is_owned:
        return Verdict(Cause.NO_OWNER)
    return _of_a_served_host(known, now=now) if known.open_turns else _of_a_host_without_a_turn(known, now=now)


def _of_a_host_without_a_turn(known: Known, *, now: dt.datetime) -> Verdict:
    own = max(known.not_before or now, now)
    parent = _narrow_parent(known, now=now)
    if parent is not None and (own == now or (parent.opens_at or now) > own):
        return Verdict(Cause.PARENT, until=parent.opens_at, parent=parent.id)
    if known.ready_at is None:
        return Verdict(Cause.NOT_DUE)
    if known.ready_at > own:
        # The parent is checked first, because a lane that waits for a place below its parent sleeps, too.
        in_use = next((above for above in known.above if above.is_full), None)
        return Verdict(Cause.PARENT, parent=in_use.id) if in_use else Verdict(Cause.NOT_DUE, until=known.ready_at)
    if own > now:
        # The read bytes cause a delay that is longer than the gap.
        is_of_bytes = known.limits.bytes_per_second is not None and own - now > dt.timedelta(seconds=known.limits.gap)
        return Verdict(Cause.BYTES if is_of_bytes else _pace(known), until=own)
    return Verdict(Cause.WORKERS if known.workers_are_full else Cause.NEXT)


def _of_a_served_host(known: Known, *, now: dt.datetime) -> Verdict:
    if known.back_off_level:
        return Verdict(Cause.TRIAL)
    if not known.is_known:
        return Verdict(Cause.RAMPING)
    if (parent := _narrow_parent(known, now=now) or _shared_parent(known)) is not None:
        return Verdict(Cause.PARENT, parent=parent.id, until=parent.opens_at)
    limits, seconds = known.limits, known.latest.seconds
    pace, bytes_allowed = 1 / limits.gap if limits.gap > 0 else None, limits.bytes_per_second
    # Requests a second that are possible with the allowed number of connections.
    carried = limits.requests / seconds if seconds else None
    if bytes_allowed is not None and (pace is None or (known.bytes_per_second or 0.0) >= bytes_allowed * _AS_GOOD_AS):
        verdict = Verdict(Cause.BYTES)
    elif pace is not None and (carried is None or carried >= pace):
        verdict = Verdict(_pace(known))
    elif limits.requests >= UNLIMITED_REQUESTS or _has_free_connections(known):
        verdict = Verdict(Cause.WORKERS)
    else:
        return Verdict(Cause.REQUESTS, busy=known.open_now, places=limits.requests, seconds=seconds)
    if verdict.cause in {Cause.GAP, Cause.CRAWL_DELAY} and _is_below(known.starts_per_second, pace):
        if known.changed_at is not None and now - known.changed_at < _RAMP:
            return Verdict(Cause.RAMPING, since=known.changed_at)
        if known.workers_are_full:
            return Verdict(Cause.WORKERS)
    return verdict


def _pace(known: Known) -> Cause:
    if not known.limits.gap:
        return Cause.BYTES
    return Cause.CRAWL_DELAY if known.asks_for_delay else Cause.GAP


def _has_free_connections(known: Known) -> bool:
    """True if less than half of the connections are known to be in use."""
    rate, seconds = known.starts_per_second, known.latest.seconds
    used = known.open_now if known.open_now is not None else rate * seconds if rate and seconds else None
    return used is not None and used < known.limits.requests / 2


def _is_at_its_pace(known: Known) -> bool:
    """True if the host gets as many requests as its own gap allows."""
    gap, rate = known.limits.gap, known.starts_per_second
    return gap > 0 and rate is not None and not _is_below(rate, 1 / gap)


def _is_below(rate: float | None, allowed: float | None) -> bool:
    return rate is not None and allowed is not None and rate < allowed * _AS_GOOD_AS


def _narrow_parent(known: Known, *, now: dt.datetime) -> Above | None:
    """Return the slowest parent that allows the host less than its own limits; None without one."""
    has_room = known.lent < known.limits.requests and not _is_at_its_pace(known)
    for above in sorted(known.above, key=lambda one: one.limits.gap, reverse=True):
        if not known.open_turns:
            if above.has_no_place or (above.opens_at is not None and above.opens_at > now):
                return above
        elif (above.is_full and has_room) or above.limits.gap > known.limits.gap:
            return above
    return None


def _shared_parent(known: Known) -> Above | None:
    """Return the parent whose places the host shares with other hosts in turns; None without such a parent."""
    if not _is_below(known.starts_per_second, 1 / known.limits.gap if known.limits.gap else float("inf")):
        return None
    own = known.starts_per_second or 0.0
    full = [above for above in known.above if above.is_full and above.starts_per_second is not None]
    return next((above for above in full if own < (above.starts_per_second or 0.0) * _AS_GOOD_AS), None)
