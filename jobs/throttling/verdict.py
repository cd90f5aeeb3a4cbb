"""
What keeps a bin from being asked for more, judged from what is known of it at one moment. No I/O.

The most decisive reason comes first: what is denied is not slow because of its gap. A bin is as fast as its host where
it is asked for less than it may be, although documents wait: then its host takes the time.
"""

import datetime as dt
import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.throttling.limits import Limits

# A rate of so much of the allowed one is the allowed one: it is counted when turns close, and turns differ.
_AS_GOOD_AS: Final = 0.85


class Cause(enum.StrEnum):
    """Why a bin is not asked for more than it is."""

    STOPPED = "stopped"
    DENIED = "denied"
    # At this time of the week.
    CLOSED = "closed"
    BACK_OFF = "back_off"
    NOTHING_WAITS = "nothing_waits"
    NO_WORKER = "no_worker"
    NO_OWNER = "no_owner"
    NOT_DUE = "not_due"
    # Each answer shows whether it can be asked again as usual.
    TRIAL = "trial"
    PARENT = "parent"
    GAP = "gap"
    BYTES = "bytes"
    REQUESTS = "requests"
    # Its documents are next: nothing limits it, and nothing is under way.
    NEXT = "next"
    # As fast as the host answers.
    HOST = "host"


@dataclass(frozen=True, slots=True)
class Above:
    """A parent of a bin, as far as it may be what keeps the bin waiting. Its rate is that of late, None if unknown."""

    id: int
    limits: Limits
    open_requests: int
    opens_at: dt.datetime | None
    starts_per_second: float | None = None

    @property
    def is_full(self) -> bool:
        return self.open_requests >= self.limits.requests


@dataclass(frozen=True, slots=True)
class Known:
    """
    What is known of a bin. `waiting` documents are pending in jobs that run, and `is_ready` says that some are due.

    `is_owned` and `is_served` say whether a manager has the group of such a seed, and whether there is a worker that
    may have its documents. Rates are those of late, None if unknown.
    """

    limits: Limits
    is_stopped: bool
    open_turns: int
    open_requests: int
    not_before: dt.datetime | None
    back_off_until: dt.datetime | None
    back_off_level: int
    waiting: int
    is_ready: bool
    is_owned: bool
    is_served: bool
    starts_per_second: float | None
    bytes_per_second: float | None
    above: Sequence[Above] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """The cause, until when it lasts at least if that is known, and which parent it is."""

    cause: Cause
    until: dt.datetime | None = None
    parent: int | None = None


def judge(known: Known, *, now: dt.datetime) -> Verdict:
    """Say what keeps a bin from being asked for more."""
    if known.limits.denied:
        return Verdict(Cause.STOPPED if known.is_stopped else Cause.DENIED)
    if known.limits.closed_until is not None and known.limits.closed_until > now:
        return Verdict(Cause.CLOSED, known.limits.closed_until)
    if known.back_off_until is not None and known.back_off_until > now:
        return Verdict(Cause.BACK_OFF, known.back_off_until)
    if not known.open_turns:
        return _of_a_bin_at_rest(known, now=now)
    if known.back_off_level:
        return Verdict(Cause.TRIAL)
    if (parent := _narrow_parent(known, now=now)) is not None:
        return Verdict(Cause.PARENT, parent=parent.id)
    cause = _limit_reached(known)
    if cause == Cause.HOST and (parent := _shared_parent(known)) is not None:
        return Verdict(Cause.PARENT, parent=parent.id)
    return Verdict(cause)


def _of_a_bin_at_rest(known: Known, *, now: dt.datetime) -> Verdict:
    if not known.waiting:
        return Verdict(Cause.NOTHING_WAITS)
    if not known.is_served:
        return Verdict(Cause.NO_WORKER)
    if not known.is_owned:
        return Verdict(Cause.NO_OWNER)
    own = max(known.not_before or now, now)
    parent = _narrow_parent(known, now=now)
    if parent is not None and (own == now or (parent.opens_at or now) > own):
        return Verdict(Cause.PARENT, parent.opens_at, parent.id)
    if own > now:
        return Verdict(Cause.BYTES if not known.limits.gap else Cause.GAP, own)
    return Verdict(Cause.NEXT if known.is_ready else Cause.NOT_DUE)


def _narrow_parent(known: Known, *, now: dt.datetime) -> Above | None:
    """The parent that gives the bin less than it may have itself, the slowest first; None if none does."""
    for above in sorted(known.above, key=lambda one: one.limits.gap, reverse=True):
        is_shut = above.opens_at is not None and above.opens_at > now
        is_slower = above.limits.gap > known.limits.gap
        is_full = above.is_full and (not known.open_turns or known.open_requests < known.limits.requests)
        if is_full or (is_slower and (is_shut or known.open_turns)) or (is_shut and not known.open_turns):
            return above
    return None


def _shared_parent(known: Known) -> Above | None:
    """The parent whose places go by turns to the bin and to others, who are asked meanwhile; None if none does."""
    own = known.starts_per_second or 0.0
    full = [above for above in known.above if above.is_full and above.starts_per_second is not None]
    return next((above for above in full if own < (above.starts_per_second or 0.0) * _AS_GOOD_AS), None)


def _limit_reached(known: Known) -> Cause:
    """Of a bin that is served: which of its limits it has come up to."""
    limits = known.limits
    if limits.bytes_per_second is not None and _reaches(known.bytes_per_second, limits.bytes_per_second):
        return Cause.BYTES
    if limits.gap > 0 and _reaches(known.starts_per_second, 1 / limits.gap):
        return Cause.GAP
    if not known.waiting:
        return Cause.NOTHING_WAITS
    if limits.gap == 0 and limits.bytes_per_second is None and known.open_requests >= limits.requests:
        return Cause.REQUESTS
    return Cause.HOST


def _reaches(rate: float | None, allowed: float) -> bool:
    """Whether a rate is as good as the allowed one; one that is not known is taken to be."""
    return rate is None or rate >= allowed * _AS_GOOD_AS
