"""
The turns that a bin can give now, computed from the rows that stuffing has locked and read. No I/O.

A *limited* bin (it has a gap, or a limit of bytes) has one open turn and at most one successor. The same worker takes
the successor ahead and starts it when the first turn ends. A bin with only a limit of open requests may have several
turns, whose requests sum to the limit, each with at most one successor of its own. A successor has no requests until
the turn before it closes and passes on its requests.

A bin may have *parents*, whose limits apply too: the address of its host, all bins of a policy together, all bins of
the cluster. A turn takes its number of requests both from its bin and from each parent. All turns below a limited
parent are at one worker, which keeps the parent's pace and counts the parent's open requests. They have no successors:
when a turn ends, its place goes to the lane that has waited longest under the parent.
"""

import datetime as dt
import math
import uuid
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jobs.throttling.limits import Limits
from jobs.throttling.next_start import opens_at
from jobs.throttling.pace import EXPECTED_BYTES

# Longest planned work of a turn and its successor together. After an edit or a failure, the earlier pace applies for at
# most this time.
LONGEST_PLAN: Final = dt.timedelta(seconds=10)
_LONGEST_TURN: Final = LONGEST_PLAN.total_seconds() / 2
# Seconds of work in one turn: enough until its successor arrives. Not more, so that the claims of a worker are spread
# over many bins.
TURN_SECONDS: Final = 2.0
# Number of documents of a turn if the answers of its bin were never timed.
DOCUMENTS_A_TURN: Final = 64
# Largest number of documents of a turn.
MOST_A_TURN: Final = 1024
# Least number of open requests of a turn, if the limits of its bin allow as many. With smaller turns, a host with two
# requests would go to two workers, with twice as many turns and still two connections.
_LEAST_SHARE: Final = 2
# Number of turns of the largest size that fit into the claims of one worker.
_LARGEST_A_WORKER: Final = 8
# Time before its first start at which a turn may be handed out.
_LEAD: Final = dt.timedelta(seconds=1)
# Time for which a manager leaves a free place to a lane of another manager that has waited longer.
COURTESY: Final = dt.timedelta(seconds=2)
# Longest sleep of a lane whose bin has no place. The closing turn wakes it earlier, unless that wake-up is lost.
LOST_PLACE: Final = dt.timedelta(seconds=2)
# Time between the wake-ups of two lanes that wait for one parent, so that not all lanes are checked for each free
# place.
_IN_LINE: Final = dt.timedelta(milliseconds=20)
# Number of requests of a turn of a denied bin. None is sent: its documents end without a request.
_DENIED_REQUESTS: Final = 8


@dataclass(frozen=True, slots=True)
class OpenTurn:
    """A turn that is handed out and not closed. `worker` is None while its batch is only offered."""

    id: int
    worker: uuid.UUID | None
    has_follower: bool


@dataclass(frozen=True, slots=True)
class BinSeen:
    """
    A bin under its lock. `limits` are the strictest limits of the policies of running jobs and of the demands of the
    source.

    `back_off_level` counts its 429 and 503 answers. If a lane of another group is also ready, `rival_served_at` is the
    time at which that lane was last served; otherwise None. `answer_seconds` is the time of one document, and
    `page_bytes` its size; None if not measured.
    """

    id: int
    limits: Limits
    not_before: dt.datetime | None
    back_off_until: dt.datetime | None
    closed_at: dt.datetime | None
    is_known: bool
    open_requests: int
    turns: Sequence[OpenTurn]
    back_off_level: int = 0
    parent: int | None = None
    has_rival: bool = False
    rival_priority: int = 0
    rival_served_at: dt.datetime | None = None
    answer_seconds: float | None = None
    page_bytes: float | None = None


@dataclass(frozen=True, slots=True)
class ParentSeen:
    """
    A parent under its lock: its open requests and documents over all its bins.

    `workers` are the workers of its open turns; None represents turns that are offered and not taken. A parent of the
    `whole_group` limits every lane of this pass.
    """

    id: int
    limits: Limits
    not_before: dt.datetime | None
    back_off_until: dt.datetime | None
    open_requests: int
    open_documents: int
    workers: frozenset[uuid.UUID | None]
    whole_group: bool = False


@dataclass(frozen=True, slots=True)
class LaneSeen:
    """
    A lane under its lock. `workers` are the only workers that may have it, by its `tag`; None means any worker.
    `is_ahead` is True if an earlier pass examined the lane, and its bin had no place for all of its documents.
    """

    id: int
    bin_id: int
    job_id: int
    priority: int
    served_at: dt.datetime | None
    tag: str = ""
    workers: frozenset[uuid.UUID] | None = None
    is_ahead: bool = False

    def may_go_to(self, worker: uuid.UUID | None) -> bool:
        """True if this worker may get the lane's documents. None means any worker."""
        return worker is None or self.workers is None or worker in self.workers


@dataclass(frozen=True, slots=True)
class TurnPlan:
    """
    A turn that may be handed out from a lane: at most `documents`, at the pace of `limits`, and of its parents.

    If `worker` is set, only this worker may take it. Plans with the same `together` are for the same worker. A
    `preferred` worker has the first chance.
    """

    lane: LaneSeen
    documents: int
    requests: int
    limits: Limits
    follows: OpenTurn | None = None
    parents: tuple[ParentSeen, ...] = ()
    worker: uuid.UUID | None = None
    together: int | None = None
    preferred: uuid.UUID | None = None
    # True if the bin of the turn backs off: a good answer lowers the level.
    is_trial: bool = False


@dataclass(frozen=True, slots=True)
class NoPlace:
    """A lane that must wait `until` a moment; if that is None, until a turn of its bin closes."""

    lane: LaneSeen
    until: dt.datetime | None


@dataclass(frozen=True, slots=True)
class _Place:
    """Room for a turn in its bin. A successor has no requests until the turn before it closes."""

    documents: int
    requests: int
    follows: OpenTurn | None = None

    @property
    def worker(self) -> uuid.UUID | None:
        return self.follows.worker if self.follows else None


@dataclass(slots=True)
class _Room:
    """
    The room that a parent has left in this pass: requests for each turn if it is limited, otherwise for all turns
    together.
    """

    seen: ParentSeen
    requests: int
    documents: int
    waiting: int = 0
    # Largest number of documents that each bin may take from a limited parent.
    share: int = DOCUMENTS_A_TURN
    # The worker that keeps the pace of a limited parent. `is_taken` is true if no further turn may be given, because a
    # batch is not taken yet or several workers have turns.
    holder: uuid.UUID | None = None
    is_taken: bool = False
    # The tag of the first chosen lane, which the worker of this pass must have; None before a lane was chosen.
    tag: str | None = None

    @classmethod
    def of(cls, seen: ParentSeen) -> "_Room":
        room = cls(seen, seen.limits.requests - seen.open_requests, DOCUMENTS_A_TURN * seen.limits.requests)
        if is_limited(seen.limits):
            room.requests = seen.limits.requests
            room.documents = documents_below(seen.limits) - seen.open_documents
            room.holder = next(iter(seen.workers), None)
            room.is_taken = None in seen.workers or len(seen.workers) > 1
            if not seen.workers:
                # All documents below this parent go into one batch.
                room.documents = min(room.documents, DOCUMENTS_A_TURN)
        return room

    def has_place(self, lane: LaneSeen, *, now: dt.datetime) -> bool:
        """True if this parent allows a turn of the lane now."""
        may_leave_at = _turn_may_leave_at(self.seen)
        is_open = may_leave_at is None or may_leave_at <= now
        if not is_open or min(self.requests, self.documents) < 1:
            return False
        if not is_limited(self.seen.limits):
            return True
        return not self.is_taken and lane.may_go_to(self.holder) and self.tag in {None, lane.tag}

    def next_look(self, *, now: dt.datetime) -> dt.datetime:
        """Return the moment at which to check the next lane that waits for this parent."""
        self.waiting += 1
        return max(now + LOST_PLACE, _turn_may_leave_at(self.seen) or now) + self.waiting * _IN_LINE


@dataclass(slots=True)
class _Plan:
    """Turns that can be given, lanes without a place, and the room that parents have left."""

    now: dt.datetime
    workers: int
    largest: int
    rooms: dict[int, _Room]
    turns: list[TurnPlan] = field(default_factory=list)
    waiting: list[NoPlace] = field(default_factory=list)


def is_limited(limits: Limits) -> bool:
    """True if a bin with these limits has one turn at a time."""
    return not limits.denied and (limits.gap > 0 or limits.bytes_per_second is not None)


def largest_turn(claims: int) -> int:
    """Return the largest number of documents in a turn if the smallest worker claims at most `claims` documents."""
    return max(1, min(MOST_A_TURN, claims // _LARGEST_A_WORKER))


def plan_turns(
    *,
    bins: Iterable[BinSeen],
    parents: Iterable[ParentSeen] = (),
    lanes: Iterable[LaneSeen],
    workers: int,
    largest: int = MOST_A_TURN,
    now: dt.datetime,
) -> tuple[list[TurnPlan], list[NoPlace]]:
    """
    Return the turns that can be given now, and the lanes without a place.

    No turn has more than `largest` documents. Places are given by job priority, then to the lane that was served
    longest ago. Turns are returned in this order, because there may not be room for all of them. Among lanes of one
    priority, lanes that are ahead alternate with others. Lanes that wait for a parent of their whole group are in
    neither result.
    """
    by_bin: dict[int, list[LaneSeen]] = {}
    for lane in sorted(lanes, key=_rank):
        by_bin.setdefault(lane.bin_id, []).append(lane)
    plan = _Plan(now, workers, largest, {seen.id: _Room.of(seen) for seen in parents})
    group = [room for room in plan.rooms.values() if room.seen.whole_group]
    bin_of = {seen.id: seen for seen in bins}
    for room in plan.rooms.values():
        below = [seen for seen in bin_of.values() if room.seen.whole_group or seen.parent == room.seen.id]
        room.share = max(1, math.ceil(room.documents / max(1, len(below))))
    for bin_id, queue in by_bin.items():
        if (seen := bin_of.get(bin_id)) is not None:
            above = [*group, plan.rooms[seen.parent]] if seen.parent in plan.rooms else group
            _plan_bin(plan, seen, queue, [] if seen.limits.denied else above)
    return _alternating(plan.turns), plan.waiting


def _alternating(turns: Iterable[TurnPlan]) -> list[TurnPlan]:
    """
    Return the turns by priority. Within each, lanes that are ahead alternate with others.

    If lanes that are ahead came last, their bins could not keep their pace. If they came first, other lanes would never
    be served.
    """
    places: Counter[tuple[int, bool]] = Counter()
    ranked: list[tuple[int, int, bool, TurnPlan]] = []
    for turn in turns:
        kind = turn.lane.priority, turn.lane.is_ahead
        ranked.append((turn.lane.priority, places[kind], not turn.lane.is_ahead, turn))
        places[kind] += 1
    return [turn for *_, turn in sorted(ranked, key=lambda rank: rank[:3])]


def _plan_bin(plan: _Plan, seen: BinSeen, queue: list[LaneSeen], above: list[_Room]) -> None:
    may_leave_at = None if seen.limits.denied else _turn_may_leave_at(seen)
    if may_leave_at is not None and may_leave_at > plan.now:
        plan.waiting.extend(NoPlace(lane, may_leave_at) for lane in queue)
        return
    if _rival_goes_first(seen, queue[0], now=plan.now):
        plan.waiting.extend(NoPlace(lane, plan.now + COURTESY) for lane in queue)
        return
    one_worker = any(is_limited(room.seen.limits) for room in above)
    places = _places(seen, workers=1 if one_worker else plan.workers, largest=plan.largest, has_parents=bool(above))
    if above:
        _plan_under_parents(plan, seen, queue, [place for place in places if place.follows is None], above)
        return
    # If the worker of an open turn may not have the next lane, that turn gets no successor. Its place becomes free.
    served = [
        TurnPlan(
            lane,
            place.documents,
            place.requests,
            seen.limits,
            place.follows,
            worker=place.worker,
            is_trial=seen.back_off_level > 0,
        )
        for index, place in enumerate(places)
        if (lane := queue[index % len(queue)]).may_go_to(place.worker)
    ]
    plan.turns.extend(served)
    having = {given.lane.id for given in served}
    plan.waiting.extend(NoPlace(lane, None) for lane in queue if lane.id not in having)


def _plan_under_parents(
    plan: _Plan, seen: BinSeen, queue: list[LaneSeen], places: Sequence[_Place], above: list[_Room]
) -> None:
    """Plan the places of a bin for which its parents have room, each within that room."""
    blocked: _Room | None = None
    given: set[int] = set()
    for index, place in enumerate(places):
        lane = queue[index % len(queue)]
        blocked = next((room for room in above if not room.has_place(lane, now=plan.now)), None)
        holders = {room.holder for room in above if room.holder is not None}
        if blocked is not None or len(holders) > 1:
            blocked = blocked or above[-1]
            break
        documents = min(place.documents, *(min(room.documents, room.share) for room in above))
        requests = min(place.requests, *(room.requests for room in above))
        worker = next(iter(holders), None)
        limited = [room.seen.id for room in above if is_limited(room.seen.limits)]
        plan.turns.append(
            TurnPlan(
                lane,
                documents,
                requests,
                seen.limits,
                parents=tuple(room.seen for room in above),
                worker=worker,
                together=limited[0] if limited and worker is None else None,
                is_trial=seen.back_off_level > 0,
            )
        )
        given.add(lane.id)
        for room in above:
            if not is_limited(room.seen.limits):
                room.requests -= requests
            room.documents -= documents
            room.tag = lane.tag if room.holder is None else None
    left = [lane for lane in queue if lane.id not in given]
    if blocked is None:
        plan.waiting.extend(NoPlace(lane, None) for lane in left)
    elif not blocked.seen.whole_group:
        plan.waiting.extend(NoPlace(lane, blocked.next_look(now=plan.now)) for lane in left)


def _rank(lane: LaneSeen) -> tuple[int, float, int]:
    return (lane.priority, lane.served_at.timestamp() if lane.served_at else -math.inf, lane.id)


def _turn_may_leave_at(seen: BinSeen | ParentSeen) -> dt.datetime | None:
    """
    Return the earliest moment at which the next turn may be handed out; None if it may be now.

    A turn may be handed out a little too early, because its worker waits for `not_before` with the accuracy of a
    millisecond.
    """
    ahead = seen.not_before and seen.not_before - _LEAD
    return opens_at(ahead, back_off_until=seen.back_off_until, closed_until=seen.limits.closed_until)


def _rival_goes_first(seen: BinSeen, mine: LaneSeen, *, now: dt.datetime) -> bool:
    if not seen.has_rival or (seen.closed_at is not None and now >= seen.closed_at + COURTESY):
        return False
    theirs = (seen.rival_priority, seen.rival_served_at.timestamp() if seen.rival_served_at else -math.inf)
    return theirs < _rank(mine)[:2]


def documents_below(limits: Limits) -> int:
    """
    Return the largest number of documents that the open turns below a limited parent have together: as many as one turn
    of the largest length and its successor.
    """
    half = int(_LONGEST_TURN * _starts_a_second(limits, page_bytes=EXPECTED_BYTES))
    return 2 * max(1, min(DOCUMENTS_A_TURN, half))


def _starts_a_second(limits: Limits, *, page_bytes: float) -> float:
    """Return the documents a second that the gap and the bytes of these limits allow."""
    by_gap = 1 / limits.gap if limits.gap > 0 else math.inf
    by_bytes = math.inf if limits.bytes_per_second is None else limits.bytes_per_second / page_bytes
    return min(by_gap, by_bytes, float(MOST_A_TURN))


def _documents_per_turn(seen: BinSeen, *, requests: int, largest: int, seconds: float = TURN_SECONDS) -> int:
    """
    Return the number of documents that `requests` open requests read in these seconds.

    By Little's law, open requests divided by the time of one answer are answers a second. A turn has a document for
    each of its requests, unless the pace allows fewer.
    """
    if seen.limits.denied:
        return min(DOCUMENTS_A_TURN, largest)
    page_bytes = EXPECTED_BYTES if seen.page_bytes is None else max(1.0, seen.page_bytes)
    by_pace = int(seconds * _starts_a_second(seen.limits, page_bytes=page_bytes))
    if seen.answer_seconds is None:
        by_answers = DOCUMENTS_A_TURN
    else:
        by_answers = max(requests, math.ceil(seconds * requests / max(seen.answer_seconds, 1e-3)))
    return max(1, min(by_pace, by_answers, largest))


def _places(seen: BinSeen, *, workers: int, largest: int, has_parents: bool) -> list[_Place]:
    limits = seen.limits
    most = _DENIED_REQUESTS if limits.denied else limits.requests
    if not limits.denied and (not seen.is_known or seen.back_off_level > 0):
        # The first turn of an unknown host has one document, which waits for its robots.txt. So does each turn that
        # tests whether a host has recovered from its back-off.
        return [] if seen.turns else [_Place(1, 1)]
    # A successor inherits requests that an older limit allowed. If they are too many now, turns have to end.
    may_be_followed = seen.open_requests <= most
    followed = [turn for turn in seen.turns if may_be_followed and turn.worker is not None and not turn.has_follower]
    share = max(min(most, _LEAST_SHARE), most // max(1, workers))
    if is_limited(limits):
        # Below a parent, a turn has no successor. So a longer turn leaves less of the pace unused between two turns.
        seconds = _LONGEST_TURN if has_parents else TURN_SECONDS
        documents = _documents_per_turn(seen, requests=most, largest=largest, seconds=seconds)
        if not seen.turns:
            return [_Place(documents, most)]
        # A successor is planned only if the work of both turns fits into the longest plan.
        fits = 2 * documents * limits.gap <= LONGEST_PLAN.total_seconds()
        return [_Place(documents, 0, followed[0])] if len(seen.turns) == 1 and followed and fits else []
    free = most - seen.open_requests
    places = [_Place(_documents_per_turn(seen, requests=share, largest=largest), 0, turn) for turn in followed]
    while free > 0:
        requests = min(share, free)
        places.append(_Place(_documents_per_turn(seen, requests=requests, largest=largest), requests))
        free -= requests
    return places
