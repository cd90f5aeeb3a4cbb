"""
One bin as a worker serves it: the documents it has, and the pace at which they may be asked for.

Pace is kept here, by the worker that holds the bin's turn, to the accuracy of its event loop's clock.
Requests that may be open belong to turns; a turn that follows another inherits them when that ends.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from jobs.queue.close import ClosedTurn
from jobs.queue.take import Claimed, TurnTaken

# Closed turns whose followers may still arrive; more than a bin ever has open.
_FOLLOWERS_ON_THE_WAY: Final = 16


@dataclass(slots=True, eq=False)
class OpenTurn:
    """
    A turn that this worker has open. `left` documents have not been begun, `open` have not ended.

    Once closed it may have an `heir`, against which its open requests are counted from then on.
    """

    id: int
    follows: int | None
    requests: int
    left: int
    open: int = 0
    heir: "OpenTurn | None" = None


@dataclass(slots=True)
class BinQueue:
    """`next_start` is on the event loop's clock, in seconds; `gap` seconds between two starts."""

    bin_id: int
    gap: float = 0.0
    next_start: float = 0.0
    last_start: float | None = None
    # When the last request was let go or left, and how many have been let go that have not left.
    asked_at: float = float("-inf")
    leaving: int = 0
    in_flight: int = 0
    waiting: deque[tuple[OpenTurn, Claimed]] = field(default_factory=deque)
    turns: list[OpenTurn] = field(default_factory=list)
    # Requests of turns that closed here while their followers were still on the way.
    left_behind: dict[int, int] = field(default_factory=dict)

    def add(self, taken: TurnTaken, *, now: float) -> list[Claimed]:
        """
        Take over a turn. One that follows a turn of this worker inherits its requests.

        Returns the documents that cannot be served here: those of a turn that has no requests, and follows
        one that is not here to leave it some.
        """
        behind = 0 if taken.follows is None else self.left_behind.pop(taken.follows, 0)
        turn = OpenTurn(taken.id, taken.follows, taken.requests or behind, left=len(taken.documents))
        self.turns.append(turn)
        self.gap = taken.gap
        self.next_start = max(self.next_start, now + taken.wait)
        if not turn.requests and all(other.id != turn.follows for other in self.turns):
            turn.left = 0
            return list(taken.documents)
        self.waiting.extend((turn, claimed) for claimed in taken.documents)
        return []

    @property
    def may_begin(self) -> bool:
        """Whether a document waits and one more request may be open; behind one that is leaving its gap has not begun."""
        return bool(self.waiting) and not self._is_held and self.in_flight < sum(turn.requests for turn in self.turns)

    def begin(self, *, now: float) -> tuple[OpenTurn, Claimed]:
        """Start the next document now: its request counts from here."""
        turn, claimed = self.waiting.popleft()
        turn.left -= 1
        turn.open += 1
        self.in_flight += 1
        self.count_start(now=now)
        return turn, claimed

    def count_start(self, *, now: float) -> None:
        """A request starts; the next may follow after the gap."""
        self.last_start = now
        self.next_start = now + self.gap

    def count_request(self, *, now: float) -> None:
        """A request is let go, or leaves; the next may follow after the gap."""
        self.asked_at = now
        self.count_start(now=now)

    def wait(self, *, now: float, has_turn: bool) -> float:
        """
        Seconds until a request may be let go, or it is worth asking again; at once if none is left.

        One that `has_turn` was counted when its document began, so only requests that went out since keep it back.
        """
        if self._is_held:
            return self.gap
        return (self.asked_at + self.gap if has_turn else self.next_start) - now

    @property
    def _is_held(self) -> bool:
        return self.gap > 0 and self.leaving > 0

    def widen(self, gap: float) -> None:
        """The host asks for a wider gap: it counts from the last start on."""
        if gap > self.gap:
            self.gap = gap
            if self.last_start is not None:
                self.next_start = max(self.next_start, self.last_start + gap)

    def end(self, turn: OpenTurn) -> None:
        """A document that was begun in this turn has ended."""
        self.in_flight -= 1
        while turn.heir is not None:
            turn = turn.heir
        turn.open -= 1

    def drop_waiting(self, is_dropped: Callable[[Claimed], bool]) -> list[Claimed]:
        """Take out documents that have not begun."""
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

    def close_ended(self, *, now: float) -> list[ClosedTurn]:
        """
        Close the turns that are through: all their requests have ended, or their follower is here.

        In the second case the requests still open are counted against the follower, which inherits.
        """
        closed: list[ClosedTurn] = []
        for turn in list(self.turns):
            heir = next((other for other in self.turns if other.follows == turn.id), None)
            # One whose documents were dropped still stands between its neighbours: it has to inherit first.
            waits_to_inherit = any(other.id == turn.follows for other in self.turns)
            if turn.left or waits_to_inherit or (turn.open and heir is None):
                continue
            if heir is not None:
                heir.requests += turn.requests
                heir.open += turn.open
                turn.heir = heir
            elif turn.requests:
                self._leave_behind(turn)
            self.turns.remove(turn)
            since = None if self.last_start is None else now - self.last_start
            closed.append(ClosedTurn(turn.id, since, follows=turn.follows))
        return closed

    def _leave_behind(self, turn: OpenTurn) -> None:
        self.left_behind[turn.id] = turn.requests
        if len(self.left_behind) > _FOLLOWERS_ON_THE_WAY:
            del self.left_behind[next(iter(self.left_behind))]
