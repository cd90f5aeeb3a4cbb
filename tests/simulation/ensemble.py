"""
A coordination store in addition to the database, like ZooKeeper. It knows its members, and the chosen member.

A member is forgotten after the silence of its session, with its place in the queue of candidates. The use of a real
ZooKeeper by `nodes.coordination.membership_session` is tested in `tests/integration/coordination`.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID


@dataclass(frozen=True, slots=True)
class StoreAnswer:
    """The answer to a member's sign of life. `present` is given only to the chosen member."""

    is_chosen: bool
    present: frozenset[UUID] | None


@dataclass(slots=True)
class Ensemble:
    """The store. `clock` returns its seconds."""

    clock: Callable[[], float]
    _renewed_at: dict[UUID, float] = field(default_factory=dict)
    _sessions: dict[UUID, float] = field(default_factory=dict)
    _candidates: list[UUID] = field(default_factory=list)

    def attend(self, *, node_id: UUID, session: float, is_candidate: bool) -> StoreAnswer:
        self._renewed_at[node_id], self._sessions[node_id] = self.clock(), session
        self._forget_who_is_silent()
        if is_candidate and node_id not in self._candidates:
            self._candidates.append(node_id)
        is_chosen = self._candidates[:1] == [node_id]
        return StoreAnswer(is_chosen=is_chosen, present=frozenset(self._renewed_at) if is_chosen else None)

    def step_aside(self, *, node_id: UUID) -> None:
        self._candidates = [other for other in self._candidates if other != node_id]

    def wipe(self) -> None:
        """Forget everything."""
        self._renewed_at.clear()
        self._candidates.clear()

    def _forget_who_is_silent(self) -> None:
        now = self.clock()
        for node_id in [one for one, renewed_at in self._renewed_at.items() if now - renewed_at > self._sessions[one]]:
            del self._renewed_at[node_id]
            self.step_aside(node_id=node_id)
