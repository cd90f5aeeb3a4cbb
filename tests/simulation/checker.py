"""
The checker of a history. It sees every commit, keeps its own records, and reports each violation.

It trusts neither the fences nor the rows. It knows only the order of the commits and the true actions of the processes.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from nodes.decisions.judge import REQUIRED_SILENCE, FailureCause, MarkFailed
from nodes.lifecycle import FINAL_STATUSES, NodeStatus
from nodes.membership.fences import TermHeld

# Least ratio of true time to the database's time. The database's clock may be a little fast.
_CLOCKS_AGREE = 0.95


class Violation(Exception):
    """An event that must never happen."""


class TrueActions(Protocol):
    """The true actions of a process, which no row shows. Moments are of the true time."""

    is_over: bool
    last_request_at: float
    open_requests: int

    @property
    def timeout_seconds(self) -> float: ...

    @property
    def is_held_up(self) -> bool:
        """True if the process is frozen or stuck, so that it cannot even close open requests."""

    def was_in_trouble(self, *, since: float) -> bool:
        """
        True if a fault affected this process alone. Faults of the database do not count, since they affect all
        processes.
        """


def _let_pass(_line: str) -> None:
    pass


@dataclass(slots=True, kw_only=True)
class Checker:
    """The checker of a history. `now` is the true time; `log` takes a line for the history."""

    now: Callable[[], float]
    beat: float
    processes: Mapping[UUID, TrueActions]
    log: Callable[[str], None] = _let_pass
    # The last term of each scope, and its main manager until that manager loses its leadership.
    terms: dict[str, int] = field(default_factory=dict)
    mains: dict[str, UUID | None] = field(default_factory=dict)
    main_acted_at: dict[str, float] = field(default_factory=dict)
    ended: set[UUID] = field(default_factory=set)
    heartbeat_at: dict[UUID, float] = field(default_factory=dict)
    owners: dict[int, UUID | None] = field(default_factory=dict)
    stuffed_at: dict[int, float] = field(default_factory=dict)
    moves: int = 0
    marks: int = 0

    def became(self, node_id: UUID, *, before: NodeStatus, now: NodeStatus, verdict: MarkFailed | None = None) -> None:
        self.log(f"{_short(node_id)} is {now}" + (f": {verdict.reason}" if verdict else ""))
        if before in FINAL_STATUSES:
            raise Violation(f"{_short(node_id)} had {before} and is {now}")
        if now in FINAL_STATUSES:
            self.ended.add(node_id)
            for scope, main in self.mains.items():
                if main == node_id:
                    self.mains[scope] = None
        if verdict is not None:
            self.marks += 1
            self._was_failed(node_id, verdict)

    def beats(self, node_id: UUID) -> None:
        self.heartbeat_at[node_id] = self.now()

    def elected(self, node_id: UUID, *, scope: str, term: int) -> None:
        self.log(f"{_short(node_id)} is main manager of {scope} in term {term}")
        if term <= self.terms.get(scope, 0):
            raise Violation(f"term {term} of {scope} comes after term {self.terms[scope]}")
        if (present_main := self.mains.get(scope)) is not None:
            raise Violation(f"{_short(node_id)} is main manager while {_short(present_main)} is")
        if node_id in self.ended:
            raise Violation(f"{_short(node_id)} has ended, and became main manager")
        self.terms[scope], self.mains[scope] = term, node_id

    def resigned(self, leadership: TermHeld) -> None:
        self.log(f"{_short(leadership.main_id)} resigns in term {leadership.term}")
        self.mains[leadership.scope] = None

    def wrote(self, node_id: UUID, *, term: TermHeld | None, group: int | None) -> None:
        if node_id in self.ended:
            raise Violation(f"{_short(node_id)} has ended, and wrote")
        if term is not None:
            self.acted(term)
        if group is not None:
            if self.owners.get(group) != node_id:
                raise Violation(f"{_short(node_id)} stuffed group {group}, which is not its own")
            self.stuffed_at[group] = self.now()

    def acted(self, term: TermHeld) -> None:
        """Record a write that only the main manager may make."""
        if (self.terms[term.scope], self.mains[term.scope]) != (term.term, term.main_id):
            raise Violation(f"{_short(term.main_id)} acted as main manager in term {term.term}, and is not main")
        self.main_acted_at[term.scope] = self.now()

    def moved(self, group: int, *, owner: UUID | None, is_owned: bool) -> None:
        whose = "nobody's" if owner is None else f"{_short(owner)}'s"
        self.log(f"group {group} is {whose}" + ("" if is_owned or owner is None else ", which is to release it"))
        self.owners[group] = owner if is_owned else None
        self.moves += is_owned

    def began_request(self, node_id: UUID) -> None:
        if node_id in self.ended:
            raise Violation(f"{_short(node_id)} has ended, and began a request")

    def _was_failed(self, node_id: UUID, verdict: MarkFailed) -> None:
        process = self.processes[node_id]
        if verdict.cause == FailureCause.PROCESS_GONE:
            if not process.is_over:
                raise Violation(f"the process of {_short(node_id)} still runs, but was marked failed as ended")
            return
        timeout = process.timeout_seconds
        silent_for = self.now() - self.heartbeat_at.get(node_id, float("-inf"))
        if silent_for < REQUIRED_SILENCE[verdict.cause] * timeout * _CLOCKS_AGREE:
            raise Violation(f"{_short(node_id)} was failed {silent_for:.2f} s after its last heartbeat")
        # Look back over two timeouts, because a stuck process continues to send heartbeats for a whole timeout.
        if not process.was_in_trouble(since=self.now() - 2 * timeout - 2 * self.beat):
            raise Violation(f"{_short(node_id)} was marked failed, although only the database had an outage")
        quiet_for = self.now() - process.last_request_at
        if quiet_for < timeout / 6:
            raise Violation(f"{_short(node_id)} was failed {quiet_for:.2f} s after it began a request")
        if process.open_requests and not process.is_held_up and not process.is_over:
            raise Violation(f"{_short(node_id)} was failed while its requests were open")


def _short(node_id: UUID) -> str:
    """Return the node's name in a history."""
    return f"n{node_id.int}"
