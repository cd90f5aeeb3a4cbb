"""
Which turns a bin can give now: arithmetic over what stuffing has locked and read. No I/O.

A *limited* bin (it has a gap) has one open turn and at most one successor, which the same worker takes
ahead and starts when the first ends. A bin with only a limit of open requests may have several turns,
whose requests sum to the limit, each with at most one successor of its own. A successor has no
requests until the turn that it follows closes and leaves it its own.
"""

import datetime as dt
import math
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

# A turn is at most so much planned work: after an edit, or a failure, no older pace lasts longer.
LONGEST_TURN: Final = dt.timedelta(seconds=10)
# Documents of one turn where only open requests limit: enough to bridge the way to its successor.
DOCUMENTS_A_TURN: Final = 64
# How long before its first start a turn may be handed out.
_LEAD: Final = dt.timedelta(seconds=1)
# Who finds the lane of another owner first in line leaves the place to it for so long.
COURTESY: Final = dt.timedelta(seconds=2)
# A lane whose bin has no place is woken by the turn that closes; this long it waits if that is lost.
LOST_PLACE: Final = dt.timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that is handed out and not closed. `worker` is None while its batch is only offered."""

    id: int
    worker: uuid.UUID | None
    has_follower: bool


@dataclass(frozen=True, slots=True)
class BinSeen:
    """
    A bin under its lock. `requests` and `gap` (seconds) are the strictest of the running jobs' policies.

    `rival_served_at` is when a lane of another group, ready for this bin too, was last served; None
    when there is no such lane.
    """

    id: int
    requests: int
    gap: float
    not_before: dt.datetime | None
    back_off_until: dt.datetime | None
    closed_at: dt.datetime | None
    is_known: bool
    open_requests: int
    turns: Sequence[OpenTurn]
    has_rival: bool = False
    rival_priority: int = 0
    rival_served_at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """A lane under its lock. One that needs a `tag` goes only to these `workers`; None is any."""

    id: int
    bin_id: int
    job_id: int
    priority: int
    served_at: dt.datetime | None
    tag: str = ""
    workers: frozenset[uuid.UUID] | None = None

    def may_follow(self, turn: OpenTurn | None) -> bool:
        """Whether the worker of that turn may have this lane's documents, too."""
        return turn is None or self.workers is None or turn.worker in self.workers


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """What may be handed out from a lane: at most `documents`, at this pace."""

    lane: LaneSeen
    documents: int
    requests: int
    gap: float
    follows: OpenTurn | None = None


@dataclass(frozen=True, slots=True)
class NoPlace:
    """A lane that must wait: until a moment, or (None) until a turn of its bin closes."""

    lane: LaneSeen
    until: dt.datetime | None


def plan_turns(
    *, bins: Iterable[BinSeen], lanes: Iterable[LaneSeen], workers: int, now: dt.datetime
) -> tuple[list[TurnPlan], list[NoPlace]]:
    """
    Return the turns that can be given now, and the lanes for which there is no place.

    The place goes by job priority, then to the lane that was served longest ago; turns come in this order, since
    there may not be room for all of them.
    """
    by_bin: dict[int, list[LaneSeen]] = {}
    for lane in sorted(lanes, key=_rank):
        by_bin.setdefault(lane.bin_id, []).append(lane)
    turns: list[TurnPlan] = []
    waiting: list[NoPlace] = []
    bin_of = {seen.id: seen for seen in bins}
    for bin_id, queue in by_bin.items():
        seen = bin_of.get(bin_id)
        if seen is None:
            continue
        opens_at = _opens_at(seen)
        if opens_at is not None and opens_at > now:
            waiting.extend(NoPlace(lane, opens_at) for lane in queue)
            continue
        if _rival_goes_first(seen, queue[0], now=now):
            waiting.extend(NoPlace(lane, now + COURTESY) for lane in queue)
            continue
        places = _places(seen, workers=workers)
        # Where the worker of a turn may not have what is next in line, that turn ends: the place is free then.
        served = [
            TurnPlan(lane, documents, requests, seen.gap, follows)
            for index, (documents, requests, follows) in enumerate(places)
            if (lane := queue[index % len(queue)]).may_follow(follows)
        ]
        turns.extend(served)
        having = {plan.lane.id for plan in served}
        waiting.extend(NoPlace(lane, None) for lane in queue if lane.id not in having)
    return turns, waiting


def _rank(lane: LaneSeen) -> tuple[int, float, int]:
    return (lane.priority, lane.served_at.timestamp() if lane.served_at else -math.inf, lane.id)


def _opens_at(seen: BinSeen) -> dt.datetime | None:
    """
    The earliest moment of a next turn; None when at once.

    The turn's worker keeps `not_before` to the millisecond, so a turn may leave a little ahead of it.
    """
    moments = [moment for moment in (seen.back_off_until, seen.not_before and seen.not_before - _LEAD) if moment]
    return max(moments, default=None)


def _rival_goes_first(seen: BinSeen, mine: LaneSeen, *, now: dt.datetime) -> bool:
    if not seen.has_rival or (seen.closed_at is not None and now >= seen.closed_at + COURTESY):
        return False
    theirs = (seen.rival_priority, seen.rival_served_at.timestamp() if seen.rival_served_at else -math.inf)
    return theirs < _rank(mine)[:2]


def _places(seen: BinSeen, *, workers: int) -> list[tuple[int, int, OpenTurn | None]]:
    """Each place as (documents, requests, the turn to follow)."""
    if not seen.is_known:
        # The first turn of an unknown host is one document, behind its robots.txt.
        return [] if seen.turns else [(1, 1, None)]
    # A follower inherits what was given under an older limit: where that is too much now, turns have to end.
    may_be_followed = seen.open_requests <= seen.requests
    followed = [turn for turn in seen.turns if may_be_followed and turn.worker is not None and not turn.has_follower]
    if seen.gap > 0:
        documents = max(1, min(DOCUMENTS_A_TURN, int(LONGEST_TURN.total_seconds() / seen.gap)))
        if not seen.turns:
            return [(documents, seen.requests, None)]
        return [(documents, 0, followed[0])] if len(seen.turns) == 1 and followed else []
    share = max(1, seen.requests // max(1, workers))
    free = seen.requests - seen.open_requests
    places: list[tuple[int, int, OpenTurn | None]] = [(DOCUMENTS_A_TURN, 0, turn) for turn in followed]
    while free > 0:
        requests = min(share, free)
        places.append((DOCUMENTS_A_TURN, requests, None))
        free -= requests
    return places
