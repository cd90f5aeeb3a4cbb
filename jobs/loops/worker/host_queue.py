"""
One bin at a worker: its documents, and the paces of its requests.

The worker that has the bin's turn keeps the pace, to the accuracy of its event loop's clock. Each turn has a limit of
open requests. When a turn ends, its successor inherits its open requests.
"""

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jobs.queue.pace.close import ClosedTurn, Pace, Use
from jobs.queue.take import Claimed, PaceTaken, TurnTaken
from jobs.throttling.limits import Limits
from jobs.throttling.pace import Cadence

# Number of closed turns that are remembered, because their successors may still arrive. A bin never has more open
# turns.
_FOLLOWERS_ON_THE_WAY: Final = 16


@dataclass(slots=True, eq=False)
class PacedBin:
    """
    The pace of a bin, or of a parent of many bins, at one worker. Moments are on the event loop's clock, in seconds.

    A request that was admitted and has not left yet delays the next ones, because the gap begins when a request leaves.
    """

    bin_id: int
    cadence: Cadence = field(default_factory=Cadence)
    # Moment at which the last request was admitted or sent, and the number of admitted requests that are not sent yet.
    asked_at: float = float("-inf")
    leaving: int = 0
    # Number of begun documents that have not ended, over all bins and turns at this worker, and the limit of this
    # number.
    open: int = 0
    most_open: float = math.inf
    # The gap that the source requested since the last turn came (seconds).
    asked_gap: float = 0.0
    # Numbers of requests, bytes and ended documents, and the seconds of these documents, since a closed turn last
    # reported them.
    starts: int = 0
    bytes_read: int = 0
    ended: int = 0
    seconds: float = 0.0

    def take_up(self, pace: PaceTaken, *, now: float) -> None:
        """Apply the pace of a new turn."""
        self.asked_gap = 0.0
        self.most_open = pace.requests or math.inf
        self.cadence.change(gap=pace.gap, bytes_per_second=pace.bytes_per_second)
        used_at = None if pace.used_before is None else now - pace.used_before
        self.cadence.take_over(opens_at=now + pace.wait, used_at=used_at, page_bytes=pace.page_bytes)

    def apply_limits(self, limits: Limits) -> bool:
        """
        Apply these limits, and the gap that the source requested; return True if the gap or the byte rate is stricter
        than before.
        """
        gap, rate = self.cadence.gap, self.cadence.bytes_per_second
        self.most_open = limits.requests
        self.cadence.change(gap=max(limits.gap, self.asked_gap), bytes_per_second=limits.bytes_per_second)
        return self.cadence.gap > gap or (limits.bytes_per_second or math.inf) < (rate or math.inf)

    def apply_crawl_delay(self, gap: float) -> None:
        """Apply a gap that the source requests, and that the limits of the turn may not contain yet."""
        self.asked_gap = gap
        self.cadence.lengthen_gap(gap=gap)

    @property
    def has_pace(self) -> bool:
        """True if requests of this bin may delay other requests."""
        return self.cadence.gap > 0 or self.cadence.bytes_per_second is not None

    @property
    def is_held(self) -> bool:
        return self.cadence.gap > 0 and self.leaving > 0

    def wait(self, *, now: float, has_turn: bool) -> float:
        """
        Return the seconds until a request may be admitted, or until the caller must call again; 0 or less if the request
        may be admitted now.

        `has_turn` is true for the first request of a document: it was counted when the document began, so only requests
        that left since then delay it.
        """
        if self.is_held:
            return self.cadence.gap
        return (self.asked_at + self.cadence.gap if has_turn else self.cadence.next_start) - now

    def count_request(self, *, now: float, has_turn: bool) -> None:
        """
        Count an admitted request; the next one may follow after the gap. The pace counted the first request of a
        document (`has_turn`) when the document began.
        """
        self.asked_at = now
        self.starts += 1
        if has_turn:
            self.cadence.restart(now=now)
        else:
            self.cadence.start(now=now)

    def count_bytes(self, size: int, *, paid: float, now: float) -> None:
        """Count `size` bytes of a request that has ended and had `paid` for some in advance."""
        self.bytes_read += size
        self.cadence.read(size, paid=paid, now=now)

    def take_usage(self) -> Use:
        """Return the requests, bytes and documents of the bin at this worker since the last call."""
        use = Use(self.starts, self.bytes_read, self.ended, self.seconds)
        self.starts = self.bytes_read = self.ended = 0
        self.seconds = 0.0
        return use

    def count_ended(self, seconds: float) -> None:
        """Count a document of the bin that ended after these seconds and was not cancelled."""
        self.ended += 1
        self.seconds += seconds

    def note_left(self, *, now: float) -> None:
        """Record that an admitted request has left."""
        self.leaving -= 1
        self.asked_at = now
        self.cadence.restart(now=now)


@dataclass(slots=True, eq=False)
class OpenTurn:
    """
    An open turn of this worker: `left` of its `documents` have not begun, and `open` ones have not ended.

    A closed turn may have a `successor`, which counts the turn's open requests from then on.
    """

    id: int
    follows: int | None
    requests: int
    documents: int
    left: int
    open: int = 0
    successor: "OpenTurn | None" = None
    parents: tuple[PacedBin, ...] = ()
    is_trial: bool = False
    wants_address: bool = False


@dataclass(slots=True)
class BinQueue:
    """One bin: its pace, its open turns, and their waiting documents."""

    paced: PacedBin
    in_flight: int = 0
    waiting: deque[tuple[OpenTurn, Claimed]] = field(default_factory=deque)
    turns: list[OpenTurn] = field(default_factory=list)
    # The number of requests of each turn that closed here before its successor arrived, by the id of the turn.
    left_behind: dict[int, int] = field(default_factory=dict)
    # True if the bin was stopped, or denied, after its turns were given.
    is_denied: bool = False

    @property
    def bin_id(self) -> int:
        return self.paced.bin_id

    @property
    def last_start(self) -> float | None:
        return self.paced.cadence.last_start

    @property
    def is_idle(self) -> bool:
        """True if the bin has neither a turn nor an open request."""
        return not self.turns and not self.in_flight

    def add(self, taken: TurnTaken, *, parents: tuple[PacedBin, ...] = (), now: float) -> list[Claimed]:
        """
        Take over a turn. The successor of a turn of this worker inherits its requests.

        Return the documents that this worker cannot serve: all documents of a successor, if this worker does not have
        the turn before it, which would hand over requests.
        """
        behind = 0 if taken.follows is None else self.left_behind.pop(taken.follows, 0)
        turn = OpenTurn(
            taken.id,
            taken.follows,
            taken.requests or behind,
            documents=len(taken.documents),
            left=len(taken.documents),
            parents=parents,
            is_trial=taken.is_trial,
            wants_address=taken.wants_address,
        )
        self.turns.append(turn)
        self.is_denied = taken.is_denied
        self.paced.take_up(taken.pace, now=now)
        if not turn.requests and all(other.id != turn.follows for other in self.turns):
            turn.left = 0
            return list(taken.documents)
        self.waiting.extend((turn, claimed) for claimed in taken.documents)
        return []

    @property
    def may_begin(self) -> bool:
        """
        True if a document waits and may begin. False while an admitted request has not left yet, because its gap begins
        when it leaves.
        """
        return (
            bool(self.waiting)
            and not any(paced.is_held or paced.open >= paced.most_open for paced in self._next_paces)
            and self.in_flight < sum(turn.requests for turn in self.turns)
        )

    @property
    def awaited(self) -> int:
        """
        Return the room that the worker keeps for a coming turn.

        A bin with a pace needs a second turn before the first one ends, because otherwise it is idle between two turns.
        After a turn with a single document, the worker expects no further turn of the host.
        """
        if not self.turns or not self.paced.cadence.gap:
            return 0
        usual = self.turns[-1].documents
        planned = sum(turn.left + turn.open for turn in self.turns)
        return min(usual, max(0, 2 * usual - planned)) if usual > 1 else 0

    @property
    def next_start(self) -> float:
        """Return the moment at which the next document may begin, for the bin and its parents."""
        return max(paced.cadence.next_start for paced in self._next_paces)

    @property
    def _next_paces(self) -> tuple[PacedBin, ...]:
        """Return the paces of the bin and of the parents of the next turn."""
        return self.paces_of(self.waiting[0][0]) if self.waiting else (self.paced,)

    @property
    def paces(self) -> set[PacedBin]:
        """Return the paces of the bin and of all parents of its turns."""
        return {self.paced, *(paced for turn in self.turns for paced in turn.parents)}

    def paces_of(self, turn: OpenTurn) -> tuple[PacedBin, ...]:
        """Return the paces of the bin and of this turn's parents."""
        return (self.paced, *turn.parents) if turn.parents else (self.paced,)

    def begin(self, *, now: float) -> tuple[OpenTurn, Claimed]:
        """Begin the next document now. Its first request counts from this moment."""
        turn, claimed = self.waiting.popleft()
        for paced in self.paces_of(turn):
            paced.cadence.start(now=now)
            paced.open += 1
        turn.left -= 1
        turn.open += 1
        self.in_flight += 1
        return turn, claimed

    def end(self, turn: OpenTurn, *, after: float | None = None) -> None:
        """End a document of this turn: `after` seconds of processing, None if the processing was cancelled."""
        self.in_flight -= 1
        if after is not None:
            self.paced.count_ended(after)
        for paced in self.paces_of(turn):
            paced.open -= 1
        while turn.successor is not None:
            turn = turn.successor
        turn.open -= 1

    def drop_waiting(self, is_dropped: Callable[[Claimed], bool]) -> list[Claimed]:
        """Remove and return waiting documents for which `is_dropped` is true."""
        dropped: list[Claimed] = []
        kept: deque[tuple[OpenTurn, Claimed]] = deque()
        for turn, claimed in self.waiting:
            if is_dropped(claimed):
                dropped.append(claimed)
                turn.left -= 1
            else:
                kept.append((turn, claimed))
        self.waiting = kept
        return dropped

    def drop_next(self) -> Claimed:
        """Remove and return the next waiting document."""
        turn, claimed = self.waiting.popleft()
        turn.left -= 1
        return claimed

    def close_ended(self) -> list[ClosedTurn]:
        """
        Close and return the completed turns: all their requests have ended, or their successor is at this worker.

        In the second case the successor inherits the requests that are still open.
        """
        closed: list[ClosedTurn] = []
        for turn in [turn for turn in self.turns if not turn.left]:
            successor = next((other for other in self.turns if other.follows == turn.id), None)
            # A turn whose documents were dropped may have a predecessor: it has to inherit the requests of that turn
            # first.
            waits_for_requests = any(other.id == turn.follows for other in self.turns)
            if waits_for_requests or (turn.open and successor is None):
                continue
            if successor is not None:
                successor.requests += turn.requests
                successor.open += turn.open
                turn.successor = successor
            elif turn.requests:
                self._leave_behind(turn)
            self.turns.remove(turn)
            parents = {paced.bin_id: _pace_of(paced) for paced in turn.parents}
            closed.append(
                ClosedTurn(
                    turn.id,
                    _pace_of(self.paced),
                    follows=turn.follows,
                    parents=parents,
                    use=self.paced.take_usage(),
                    uses_above={paced.bin_id: paced.take_usage() for paced in turn.parents},
                )
            )
        return closed

    def _leave_behind(self, turn: OpenTurn) -> None:
        self.left_behind[turn.id] = turn.requests
        if len(self.left_behind) > _FOLLOWERS_ON_THE_WAY:
            del self.left_behind[next(iter(self.left_behind))]


def _pace_of(paced: PacedBin) -> Pace | None:
    """
    Return the pace at which the next worker of the bin must continue; None if this worker sent no request to the bin.
    """
    cadence = paced.cadence
    if cadence.last_start is None:
        return None
    return Pace(cadence.last_start, cadence.paid_until, cadence.bytes_per_second)
