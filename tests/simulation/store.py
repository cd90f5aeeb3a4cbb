"""
The tables of a cluster in memory, with the guarded writes of `nodes.membership` and `jobs.duties.groups`.

Each method is one transaction and happens at one moment, except for writes of the crawl (`begin_write` and `commit`):
these take a while, and hold their fences meanwhile. A method that would wait for a lock in the database raises
`MustWait` here, and its caller tries again. The code is written for clarity:
`tests/integration/test_simulated_store.py` compares its answers with those of PostgreSQL.
"""

import datetime as dt
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from uuid import UUID

from nodes.decisions.allocate import Give
from nodes.decisions.hand_over import LetGo, Release, TakeBack
from nodes.decisions.items import ItemSeen, ItemState, item_sources_of
from nodes.decisions.judge import REQUIRED_SILENCE, FailureCause, MarkFailed
from nodes.decisions.snapshot import ClusterSeen, NodeSeen, TermSeen
from nodes.lifecycle import FINAL_STATUSES, LIVE_STATUSES, WORKING_STATUSES, NodeKind, NodeStatus, sources_of
from nodes.membership.fences import FenceRefused, TermHeld
from nodes.membership.members import Beat
from tests.simulation.checker import Checker
from tests.simulation.rules import Rules

_EPOCH = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)


class MustWait(Exception):
    """Another transaction holds a lock that is needed. Nothing was changed."""


@dataclass(slots=True, kw_only=True)
class NodeRow:
    id: UUID
    kind: NodeKind
    scope: str
    started_at: dt.datetime
    heartbeat_at: float
    timeout: dt.timedelta
    status: NodeStatus = NodeStatus.STARTING


@dataclass(slots=True, kw_only=True)
class TermRow:
    since: float
    term: int = 0
    main_id: UUID | None = None
    resigned: bool = False


# Possible weights of a group.
WEIGHTS = (1.0, 1.0, 2.0, 5.0, 10.0)


@dataclass(slots=True, kw_only=True)
class GroupRow:
    id: int
    owner: UUID | None = None
    epoch: int = 0
    state: ItemState = ItemState.FREE
    destination: UUID | None = None
    releasing_since: float = 0.0
    weight: float = 1.0


@dataclass(slots=True, kw_only=True, eq=False)
class Write:
    """An open transaction of the crawl, with the fences that it holds."""

    node_id: UUID
    term: TermHeld | None = None
    group: int | None = None
    is_open: bool = True


class NodeTaken(Exception):
    """A node of this id exists or existed."""


@dataclass(slots=True, kw_only=True)
class Store:
    """The one database of a history. `clock` returns its seconds; `checker` sees every commit."""

    clock: Callable[[], float]
    checker: Checker
    rules: Rules = field(default_factory=Rules)
    # True if marking a node as failed may end its sessions. Otherwise the mark waits for them.
    ends_sessions: bool = True
    nodes: dict[UUID, NodeRow] = field(default_factory=dict)
    terms: dict[str, TermRow] = field(default_factory=dict)
    groups: dict[int, GroupRow] = field(default_factory=dict)
    refused: int = 0
    _under_way: list[Write] = field(default_factory=list)

    # --- One node's own life ---------------------------------------------------------------------

    def register(self, *, node_id: UUID, kind: NodeKind, scope: str, timeout: dt.timedelta) -> None:
        now = self.clock()
        if node_id in self.nodes:
            raise NodeTaken(node_id)
        self.terms.setdefault(scope, TermRow(since=now))
        self.nodes[node_id] = NodeRow(
            id=node_id, kind=kind, scope=scope, started_at=_moment(now), heartbeat_at=now, timeout=timeout
        )

    def beat(self, *, node_id: UUID) -> Beat:
        node = self.nodes.get(node_id)
        if node is None:
            return Beat(at=_moment(self.clock()), status=None, term=0, main_id=None)
        if not self.rules.terminal_rule and node.status in FINAL_STATUSES:
            self._set_status(node, NodeStatus.RUNNING)
        if node.status in LIVE_STATUSES:
            node.heartbeat_at = self.clock()
            self.checker.beats(node_id)
        term = self.terms[node.scope]
        main_id = None if term.resigned else term.main_id
        return Beat(at=_moment(self.clock()), status=node.status, term=term.term, main_id=main_id)

    def begin_work(self, *, node_id: UUID) -> bool:
        return self._move(node_id, "begin_work", NodeStatus.RUNNING)

    def begin_draining(self, *, node_id: UUID) -> bool:
        return self._move(node_id, "begin_draining", NodeStatus.DRAINING)

    def stop(self, *, node_id: UUID) -> bool:
        leaderships = self._leaderships_of(node_id)
        self._wait_for_writes(self._writes_under(leaderships))
        node = self._lock_node(node_id)
        if node is None or node.status not in sources_of("stop"):
            return False
        for leadership in leaderships:
            self._give_up(leadership)
        self._set_status(node, NodeStatus.STOPPED)
        return True

    def _move(self, node_id: UUID, cause: str, target: NodeStatus) -> bool:
        node = self.nodes.get(node_id)
        if node is None or (self.rules.terminal_rule and node.status not in sources_of(cause)):
            return False
        self._set_status(node, target)
        return True

    # --- The main manager and its term -----------------------------------------------------------

    def elect(
        self, *, node_id: UUID, scope: str, seen_term: int, replaces: MarkFailed | None = None
    ) -> TermHeld | None:
        if replaces is not None:
            self._end_sessions(replaces, scope=scope, term=seen_term)
        row = self.terms.get(scope)
        if row is None:
            return None
        if self.rules.term_lock:
            self._wait_for_writes(write for write in self._under_way if write.term and write.term.scope == scope)
        if row.term != seen_term:
            return None
        has_main = row.main_id is not None and not row.resigned
        if has_main and not self._can_go(row.main_id, verdict=replaces):
            return None
        # A node that would have to mark itself as failed is refused, too: in the database, the transaction with its
        # mark is rolled back.
        if has_main and row.main_id == node_id:
            raise self._refusal(FenceRefused("node", node=node_id))
        self.hold_node(node_id)
        if has_main:
            self._remove(row.main_id, verdict=replaces)
        row.main_id, row.term, row.since, row.resigned = node_id, row.term + 1, self.clock(), False
        self.checker.elected(node_id, scope=scope, term=row.term)
        return TermHeld(scope=scope, term=row.term, main_id=node_id)

    def resign(self, *, term: TermHeld) -> bool:
        self._wait_for_writes(self._writes_under([term]))
        return self._give_up(term)

    def mark_failed(self, *, verdict: MarkFailed, term: TermHeld) -> bool:
        self._end_sessions(verdict, scope=term.scope, term=term.term)
        self.hold_term(term)
        self._lock_node(verdict.node_id)
        self.checker.acted(term)
        return self._fail(verdict)

    def _can_go(self, main_id: UUID, *, verdict: MarkFailed | None) -> bool:
        node = self._lock_node(main_id)
        if node is None or node.status not in LIVE_STATUSES:
            return True
        return verdict is not None and verdict.node_id == main_id and self._is_guilty(node, verdict)

    def _remove(self, main_id: UUID, *, verdict: MarkFailed | None) -> None:
        node = self.nodes.get(main_id)
        if node is not None and node.status in LIVE_STATUSES:
            assert verdict is not None
            self._fail(verdict)

    def _fail(self, verdict: MarkFailed) -> bool:
        leaderships = self._leaderships_of(verdict.node_id)
        node = self._lock_node(verdict.node_id)
        if node is None or node.status not in sources_of("mark_failed") or not self._is_guilty(node, verdict):
            return False
        for leadership in leaderships:
            row = self.terms[leadership.scope]
            row.main_id, row.since = None, self.clock()
        self._set_status(node, NodeStatus.FAILED, verdict=verdict)
        return True

    def _is_guilty(self, node: NodeRow, verdict: MarkFailed) -> bool:
        if verdict.cause == FailureCause.PROCESS_GONE or not self.rules.second_check:
            return True
        return self._age(node) > REQUIRED_SILENCE[verdict.cause] * node.timeout

    # --- Groups, and their moves -----------------------------------------------------------------

    def items(self) -> tuple[ItemSeen, ...]:
        now = self.clock()
        return tuple(
            ItemSeen(
                id=row.id,
                owner=row.owner,
                epoch=row.epoch,
                state=row.state,
                destination=row.destination,
                weight=row.weight,
                releasing_for=dt.timedelta(
                    seconds=now - row.releasing_since if row.state == ItemState.RELEASING else 0
                ),
            )
            for row in self.groups.values()
        )

    def give(self, *, action: Give, term: TermHeld) -> bool:
        self.hold_term(term)
        row = self._lock_group(action.item)
        self.checker.acted(term)
        if not _is_as_seen(row, action.epoch, cause="give"):
            return False
        return self._hand_to(row, action.to)

    def release(self, *, action: Release, term: TermHeld) -> bool:
        self.hold_term(term)
        row = self._lock_group(action.item)
        self.checker.acted(term)
        if not _is_as_seen(row, action.epoch, cause="release"):
            return False
        row.state, row.destination, row.releasing_since = ItemState.RELEASING, action.to, self.clock()
        self.checker.moved(row.id, owner=row.owner, is_owned=False)
        return True

    def take_back(self, *, action: TakeBack, term: TermHeld) -> bool:
        self.hold_term(term)
        row = self._lock_group(action.item)
        self.checker.acted(term)
        if not _is_as_seen(row, action.epoch, cause="take_back"):
            return False
        return self._hand_to(row, action.to)

    def let_go(self, *, action: LetGo) -> bool:
        self.hold_node(action.owner)
        row = self._lock_group(action.item)
        if not _is_as_seen(row, action.epoch, cause="hand_over"):
            return False
        return self._hand_to(row, action.to)

    def _lock_group(self, group: int) -> GroupRow:
        if self.rules.group_lock:
            self._wait_for_writes(write for write in self._under_way if write.group == group)
        return self.groups[group]

    def _hand_to(self, row: GroupRow, to: UUID | None) -> bool:
        row.owner, row.epoch, row.destination = to, row.epoch + 1, None
        row.state = ItemState.FREE if to is None else ItemState.OWNED
        self.checker.moved(row.id, owner=to, is_owned=to is not None)
        return True

    # --- Fences, and the writes that hold them ---------------------------------------------------

    def hold_node(self, node_id: UUID) -> None:
        node = self.nodes.get(node_id)
        if node is None or node.status not in WORKING_STATUSES:
            raise self._refusal(FenceRefused("node", node=node_id))

    def hold_term(self, term: TermHeld) -> None:
        row = self.terms.get(term.scope)
        holds = row is not None and (row.term, row.main_id, row.resigned) == (term.term, term.main_id, False)
        if not holds and self.rules.term_check:
            raise self._refusal(term.refused())

    def begin_write_as_main(self, *, term: TermHeld) -> Write:
        self.hold_term(term)
        return self._begin(Write(node_id=term.main_id, term=term))

    def begin_write(self, *, node_id: UUID) -> Write:
        """Begin a write of the crawl, such as a worker's flush."""
        self.hold_node(node_id)
        return self._begin(Write(node_id=node_id))

    def begin_stuffing(self, *, node_id: UUID, group: int, epoch: int) -> Write:
        self.hold_node(node_id)
        row = self.groups[group]
        if self.rules.group_fence and (row.owner, row.epoch, row.state) != (node_id, epoch, ItemState.OWNED):
            raise self._refusal(FenceRefused("group", group=group, epoch=epoch, node=node_id))
        return self._begin(Write(node_id=node_id, group=group))

    def _begin(self, write: Write) -> Write:
        self._under_way.append(write)
        return write

    def commit(self, write: Write) -> None:
        """Commit the write, unless the database has ended it."""
        if not write.is_open:
            return
        self.end(write)
        self.checker.wrote(write.node_id, term=write.term, group=write.group)

    def end_all(self) -> None:
        """End all open writes."""
        for write in list(self._under_way):
            self.end(write)

    def end(self, write: Write) -> None:
        """Release the fences. A write that was not committed is lost."""
        if write.is_open:
            write.is_open = False
            self._under_way.remove(write)

    # --- Snapshots -------------------------------------------------------------------------------

    def read_scope(
        self,
        *,
        scope: str,
        me: UUID,
        is_process_gone: Callable[[UUID], bool] = lambda _node_id: False,
        present: Collection[UUID] | None = None,
    ) -> ClusterSeen:
        now = self.clock()
        row = self.terms.get(scope)
        if row is None:
            return ClusterSeen(
                read_at=_moment(now),
                me=me,
                scope=scope,
                term=TermSeen(term=0, main_id=None, since=_moment(now)),
                nodes=(),
            )
        nodes = tuple(
            self._seen(node, is_gone=is_process_gone(node.id), is_absent=present is not None and node.id not in present)
            for node in self.nodes.values()
            if (node.scope == scope and node.status in LIVE_STATUSES) or node.id == row.main_id
        )
        term = TermSeen(term=row.term, main_id=row.main_id, since=_moment(row.since), resigned=row.resigned)
        return ClusterSeen(read_at=_moment(now), me=me, scope=scope, term=term, nodes=nodes)

    def _seen(self, node: NodeRow, *, is_gone: bool, is_absent: bool) -> NodeSeen:
        return NodeSeen(
            id=node.id,
            kind=node.kind,
            scope=node.scope,
            status=node.status,
            started_at=node.started_at,
            heartbeat_age=self._age(node),
            timeout=node.timeout,
            same_machine_process_gone=is_gone,
            is_absent=is_absent,
        )

    # --- Steps that several of the above share ---------------------------------------------------

    def _refusal(self, refused: FenceRefused) -> FenceRefused:
        self.refused += 1
        return refused

    def _age(self, node: NodeRow) -> dt.timedelta:
        return dt.timedelta(seconds=self.clock() - node.heartbeat_at)

    def _leaderships_of(self, node_id: UUID) -> list[TermHeld]:
        return [
            TermHeld(scope=scope, term=row.term, main_id=node_id)
            for scope, row in sorted(self.terms.items())
            if row.main_id == node_id and not row.resigned
        ]

    def _give_up(self, leadership: TermHeld) -> bool:
        row = self.terms.get(leadership.scope)
        if row is None or (row.term, row.main_id, row.resigned) != (leadership.term, leadership.main_id, False):
            return False
        row.resigned, row.since = True, self.clock()
        self.checker.resigned(leadership)
        return True

    def _lock_node(self, node_id: UUID) -> NodeRow | None:
        """Lock the node FOR UPDATE. A holder of the node's fence must end first."""
        if self.rules.node_lock:
            self._wait_for_writes(w for w in self._under_way if w.node_id == node_id and w.term is None)
        return self.nodes.get(node_id)

    def _end_sessions(self, verdict: MarkFailed, *, scope: str, term: int) -> None:
        row, node = self.terms.get(scope), self.nodes.get(verdict.node_id)
        is_meant = row is not None and row.term == term and node is not None and node.status in LIVE_STATUSES
        if not self.ends_sessions or not is_meant or not self._is_guilty(node, verdict):
            return
        for write in [write for write in self._under_way if write.node_id == verdict.node_id]:
            self.end(write)

    def _writes_under(self, leaderships: Iterable[TermHeld]) -> list[Write]:
        held = list(leaderships)
        return [write for write in self._under_way if write.term in held]

    def _wait_for_writes(self, writes: Iterable[Write]) -> None:
        if any(True for _ in writes):
            raise MustWait

    def _set_status(self, node: NodeRow, status: NodeStatus, *, verdict: MarkFailed | None = None) -> None:
        before, node.status = node.status, status
        self.checker.became(node.id, before=before, now=status, verdict=verdict)


def _is_as_seen(row: GroupRow, epoch: int, *, cause: str) -> bool:
    return row.epoch == epoch and row.state in item_sources_of(cause)


def _moment(seconds: float) -> dt.datetime:
    return _EPOCH + dt.timedelta(seconds=seconds)
