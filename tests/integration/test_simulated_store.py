"""
Proves that the simulator's store answers as PostgreSQL does.

The test draws actions at random and sends each to both stores. Answers, refusals and visible rows must be the same. So
for actions one after another, a history proved on one store also holds on the other store. Concurrent actions that wait
for each other are in `test_cluster_fences.py`.
"""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import UUID

import psycopg
from django.utils import timezone

from jobs.duties.groups import ClusterView, begin_moves, give, hand_over
from jobs.lifecycle.job import Phase
from jobs.models import Seed, ThrottleGroup
from jobs.queue.offering.hold import GroupHeld, hold
from jobs.queue.sql.rows import named_rows
from nodes.assignment.evenly import evenly
from nodes.decisions.allocate import Give
from nodes.decisions.hand_over import LetGo, Release, TakeBack
from nodes.decisions.judge import FailureCause, MarkFailed
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import NodeKind
from nodes.membership import leadership, members, snapshot
from nodes.membership.fences import FenceRefused, TermHeld, hold_node, hold_term
from tests.simulation.checker import Checker
from tests.simulation.store import GroupRow, NodeTaken, Store
from tests.support.cluster import ELSEWHERE, seconds
from tests.support.factories import make_job

# A timeout that no test reaches, and a silence that is longer than the timeout (seconds).
TIMEOUT, SILENCE = seconds(1800), 3600.0
REFUSED, TAKEN = "refused by the fence of ", "there is one of this id"
SIGHT = ClusterView(items=(), managers=(), names={}, strategy=evenly)

Action = tuple[str, dict[str, Any]]


class InMemory:
    """The simulator's store, with a clock that stands still."""

    def __init__(self, groups: list[int]) -> None:
        self._now = 0.0
        checker = Checker(now=lambda: self._now, beat=2.0, processes=_FaultlessProcesses())
        self._store = Store(clock=lambda: self._now, checker=checker)
        self._store.groups = {group: GroupRow(id=group) for group in groups}

    def fall_silent(self, *, node_id: UUID) -> None:
        self._store.nodes[node_id].heartbeat_at -= SILENCE
        self._store.checker.heartbeat_at.pop(node_id, None)

    def beat(self, *, node_id: UUID) -> object:
        beat = self._store.beat(node_id=node_id)
        return beat.status, beat.term, beat.main_id

    def read_scope(self, *, scope: str) -> object:
        seen = self._store.read_scope(scope=scope, me=UUID(int=0))
        return _summary(seen, [(row.owner, row.epoch, row.state.value, row.destination) for row in self._groups])

    def stuff(self, *, node_id: UUID, group: int, epoch: int) -> None:
        self._store.end(self._store.begin_stuffing(node_id=node_id, group=group, epoch=epoch))

    @property
    def _groups(self) -> list[GroupRow]:
        return [self._store.groups[group] for group in sorted(self._store.groups)]

    def __getattr__(self, name: str) -> Callable[..., object]:
        return getattr(self._store, name)


class InPostgres:
    """PostgreSQL, with the methods of `InMemory`."""

    def __init__(self, connection: psycopg.Connection[Any], groups: list[int]) -> None:
        self._connection, self._groups = connection, groups

    def register(self, *, node_id: UUID, kind: NodeKind, scope: str, timeout: dt.timedelta) -> None:
        identity = NodeIdentity(id=node_id, kind=kind, scope=scope, name="n", timeout=timeout, **ELSEWHERE)
        try:
            members.register(self._connection, identity=identity)
        except psycopg.errors.UniqueViolation:
            raise NodeTaken(node_id) from None

    def beat(self, *, node_id: UUID) -> object:
        beat = members.beat(self._connection, node_id=node_id, progress={})
        return beat.status, beat.term, beat.main_id

    def begin_work(self, *, node_id: UUID) -> object:
        return members.begin_work(self._connection, node_id=node_id)

    def begin_draining(self, *, node_id: UUID) -> object:
        return members.begin_draining(self._connection, node_id=node_id, reason="")

    def stop(self, *, node_id: UUID) -> object:
        return members.stop(self._connection, node_id=node_id, reason="")

    def fall_silent(self, *, node_id: UUID) -> None:
        self._connection.execute(
            "UPDATE nodes_node SET heartbeat_at = heartbeat_at - %s * interval '1 second' WHERE id = %s",
            (SILENCE, node_id),
        )

    def elect(self, **facts: Any) -> object:
        return leadership.elect(self._connection, **facts)

    def resign(self, *, term: TermHeld) -> object:
        return leadership.resign(self._connection, term=term)

    def mark_failed(self, *, verdict: MarkFailed, term: TermHeld) -> object:
        return leadership.mark_failed(self._connection, verdict=verdict, term=term)

    def hold_node(self, node_id: UUID) -> None:
        with self._connection.transaction():
            hold_node(self._connection, node_id)

    def hold_term(self, term: TermHeld) -> None:
        with self._connection.transaction():
            hold_term(self._connection, term)

    def give(self, *, action: Give, term: TermHeld) -> bool:
        with self._connection.transaction():
            hold_term(self._connection, term)
            return bool(give(self._connection, [action], cluster_view=SIGHT, scope=term.scope))

    def take_back(self, *, action: TakeBack, term: TermHeld) -> bool:
        with self._connection.transaction():
            hold_term(self._connection, term)
            return bool(give(self._connection, [action], cluster_view=SIGHT, scope=term.scope))

    def release(self, *, action: Release, term: TermHeld) -> bool:
        with self._connection.transaction():
            hold_term(self._connection, term)
            now = timezone.now()
            return bool(begin_moves(self._connection, [action], cluster_view=SIGHT, scope=term.scope, now=now))

    def let_go(self, *, action: LetGo) -> bool:
        with self._connection.transaction():
            hold_node(self._connection, action.owner)
            return bool(hand_over(self._connection, [action], cluster_view=SIGHT, scope=""))

    def stuff(self, *, node_id: UUID, group: int, epoch: int) -> None:
        held = GroupHeld(group, epoch)
        with self._connection.transaction(), named_rows(self._connection) as cursor:
            hold(cursor, manager=node_id, group=held, phases=[Phase.ACTIVE], now=timezone.now())

    def read_scope(self, *, scope: str) -> object:
        me = NodeIdentity(
            id=UUID(int=0),
            kind=NodeKind.MANAGER,
            scope=scope,
            name="n",
            timeout=TIMEOUT,
            **{**ELSEWHERE, "boot_id": ""},
        )
        groups = self._connection.execute(
            "SELECT owner_id, epoch, state, destination_id FROM jobs_throttlegroup WHERE id = ANY(%s) ORDER BY id",
            (self._groups,),
        ).fetchall()
        return _summary(snapshot.read_scope(self._connection, scope=scope, me=me), groups)


class _FaultlessProcesses(dict[UUID, Any]):
    """Processes in which the checker finds no violation, because this test compares only answers."""

    def __missing__(self, _node_id: UUID) -> "_TrueActions":
        return _TrueActions()


@dataclass
class _TrueActions:
    timeout_seconds: float = 0.0
    is_over: bool = True
    is_held_up: bool = True
    last_request_at: float = float("-inf")
    open_requests: int = 0

    def was_in_trouble(self, *, since: float) -> bool:
        return True


@dataclass
class DrawnActions:
    """Draws actions on few nodes, terms and groups, so that the actions often meet."""

    random: Random
    nodes: list[UUID]
    scopes: list[str]
    groups: list[int]
    registered: list[UUID] = field(default_factory=list)

    def draw(self) -> Action:
        if not self.registered or self.random.random() < 0.12:
            return "register", self._new()
        node_id = self._node()
        draws: list[Callable[[], Action]] = [
            lambda: ("begin_work", {"node_id": node_id}),
            lambda: ("begin_work", {"node_id": node_id}),
            lambda: ("begin_draining", {"node_id": node_id}),
            lambda: ("stop", {"node_id": node_id}),
            lambda: ("beat", {"node_id": node_id}),
            lambda: ("fall_silent", {"node_id": node_id}),
            lambda: ("elect", self._election(node_id)),
            lambda: ("elect", self._election(node_id)),
            lambda: ("resign", {"term": self._term()}),
            lambda: ("mark_failed", {"verdict": self._verdict(), "term": self._term()}),
            lambda: ("hold_node", {"node_id": node_id}),
            lambda: ("hold_term", {"term": self._term()}),
            lambda: ("give", {"action": Give(**self._item(), owner=None, to=node_id), "term": self._term()}),
            lambda: ("give", {"action": Give(**self._item(), owner=None, to=node_id), "term": self._term()}),
            lambda: ("release", {"action": Release(**self._item(), owner=node_id, to=node_id), "term": self._term()}),
            lambda: ("take_back", {"action": TakeBack(**self._item(), to=node_id), "term": self._term()}),
            lambda: ("let_go", {"action": LetGo(**self._item(), owner=node_id, to=self._node())}),
            lambda: ("stuff", {"node_id": node_id, "group": (item := self._item())["item"], "epoch": item["epoch"]}),
        ]
        return self.random.choice(draws)()

    def _new(self) -> dict[str, Any]:
        node_id = self.random.choice(self.nodes)
        if node_id not in self.registered:
            self.registered.append(node_id)
        scope = self.scopes[self.nodes.index(node_id) % 3 == 2]
        return {"node_id": node_id, "kind": NodeKind.MANAGER, "scope": scope, "timeout": TIMEOUT}

    def _node(self) -> UUID:
        return self.random.choice(self.registered)

    def _scope(self) -> str:
        return self.scopes[self.random.random() < 0.25]

    def _election(self, node_id: UUID) -> dict[str, Any]:
        replaces = self._verdict() if self.random.random() < 0.6 else None
        return {
            "node_id": node_id,
            "scope": self._scope(),
            "seen_term": self.random.randint(0, 2),
            "replaces": replaces,
        }

    def _verdict(self) -> MarkFailed:
        cause = self.random.choice(tuple(FailureCause))
        return MarkFailed(node_id=self._node(), scope=self.scopes[0], cause=cause, reason="in this test")

    def _term(self) -> TermHeld:
        return TermHeld(scope=self._scope(), term=self.random.randint(1, 2), main_id=self._node())

    def _item(self) -> dict[str, int]:
        return {"item": self.random.choice(self.groups), "epoch": self.random.randint(0, 2)}


def test_both_stores_answer_the_same_to_random_actions(connection):
    random = Random(0)
    (some_seed,) = make_job().seeds.all()
    for sequence in range(15):
        groups = [_make_group(some_seed, scope=f"{sequence}, {number}") for number in range(2)]
        nodes = [UUID(int=100 * sequence + number) for number in range(1, 5)]
        drawing = DrawnActions(random, nodes, [f"scope {sequence}", f"crawl:{sequence}"], groups)
        _compare(drawing, InMemory(groups), InPostgres(connection, groups))


def _compare(drawing: DrawnActions, in_memory: InMemory, in_postgres: InPostgres) -> None:
    done: list[str] = []
    for _ in range(50):
        name, facts = drawing.draw()
        answer = _ask(in_postgres, name, facts)
        done.append(f"{name}({facts}) -> {answer}")

        assert _ask(in_memory, name, facts) == answer, "\n".join(done)
        for scope in drawing.scopes:
            assert in_memory.read_scope(scope=scope) == in_postgres.read_scope(scope=scope), "\n".join(done)


def _ask(store: Any, name: str, facts: dict[str, Any]) -> object:
    try:
        return getattr(store, name)(**facts)
    except FenceRefused as refused:
        return REFUSED + refused.fence
    except NodeTaken:
        return TAKEN


def _make_group(seed: Seed, *, scope: str) -> int:
    return ThrottleGroup.objects.create(seed=seed, node_scope=scope).pk


def _summary(seen: Any, groups: list[tuple[Any, ...]]) -> object:
    nodes = {node.id: (node.status, node.is_silent, node.timeout) for node in seen.nodes}
    return (seen.term.term, seen.term.main_id, seen.term.resigned, nodes, groups)
