"""
Processes, each with a heartbeat thread and a work loop like those of the daemons, over a connection to the database.

A loop is a generator. It yields seconds, to sleep by its machine's clock, or a request, to send to the database. It
continues with the answer, with `Unreachable`, or with the database's refusal. A frozen process later continues with its
old beliefs. In a stuck process only the work loop stands still.
"""

import datetime as dt
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Protocol
from uuid import UUID

from nodes.coordination.membership_session import session_timeout
from nodes.decisions.allocate import Give, allocate, rebalance
from nodes.decisions.elect import Elect, Resign, elect
from nodes.decisions.hand_over import Release, TakeBack, let_go
from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen
from nodes.decisions.judge import judge
from nodes.decisions.snapshot import ClusterSeen
from nodes.life.heartbeat_timing import HeartbeatTiming
from nodes.life.trust_window import TrustWindow
from nodes.lifecycle import NodeKind
from nodes.membership.fences import FenceRefused, TermHeld
from tests.simulation.checker import Checker
from tests.simulation.connection import REFUSALS, Connection, Request, Unreachable
from tests.simulation.ensemble import Ensemble, StoreAnswer
from tests.simulation.rules import Rules
from tests.simulation.scheduler import DriftingClock, Scheduler
from tests.simulation.store import NodeTaken, Store, Write

BEAT = dt.timedelta(seconds=2)
# Seconds between two passes of an idle manager's loop, which reads its cluster twice in an interval of heartbeats.
_PASS = 1.0
# Longest time by which a sleep is too long (seconds).
_LONGEST_OVERSLEEP = 0.01
# Longest time of a write without a fault (seconds).
_STATEMENT = 0.2
# Seconds between a worker's checks of its permission to begin requests.
_CHECK_INTERVAL = 0.8
_FIRST_RETRY = 0.1
# Number of signs of life that a member sends in the length of a session. Time for which a chosen member may do nothing
# as main manager (in timeouts).
_BEATS_A_SESSION = 6
_IDLE = 2
# Number of passes for which a draining manager waits for the move of its groups. After them it leaves anyway.
_DRAINING_PASSES = 4

Steps = Generator[float | Request, Any, Any]


class Ended(Exception):
    """The process has no more work."""


@dataclass(slots=True, eq=False)
class Machine:
    """A machine with its clock. A process notices when another process of the same machine no longer exists."""

    number: int
    clock: DriftingClock


class Environment(Protocol):
    """The parts of a world that a process uses."""

    scheduler: Scheduler
    store: Store
    # The coordination store in addition to the database, if there is one.
    ensemble: Ensemble | None
    checker: Checker
    rules: Rules
    # Probability of a pause between a decision and its write.
    hesitation: float
    # Probability that a write takes long.
    long_statements: float

    def is_process_gone(self, node_id: UUID, *, seen_from: Machine) -> bool: ...
    def has_ended(self, process: "Process") -> None: ...


@dataclass(slots=True, eq=False)
class Process:
    """One run of one manager or worker."""

    id: UUID
    kind: NodeKind
    scope: str
    machine: Machine
    timeout: dt.timedelta
    world: Environment
    connection: Connection
    # The connection of the process to the ensemble.
    ensemble_connection: Connection
    # True if the process lives and never takes leadership.
    never_acts: bool = False
    is_over: bool = False
    is_frozen: bool = False
    is_stuck: bool = False
    is_leaving: bool = False
    # True if the fault of the process never ends.
    is_lost: bool = False
    # Fault to inject at the next decision of the process.
    at_next_decision: Callable[[], None] | None = None
    last_request_at: float = float("-inf")
    open_requests: int = 0
    timing: HeartbeatTiming = field(init=False)
    term: TermHeld | None = field(init=False, default=None)
    _heartbeats: "Loop" = field(init=False)
    _work: "Loop" = field(init=False)
    _requests: "Loop" = field(init=False)
    _membership: "Loop" = field(init=False)
    _membership_trust: TrustWindow = field(init=False)
    _store_answer: StoreAnswer = field(init=False, default=StoreAnswer(is_chosen=False, present=None))
    _was_candidate: bool = False
    _idle_since: float = 0.0
    _troubles: int = 0
    _trouble_ended_at: float = float("-inf")
    _hesitates: bool = False
    _draining_passes: int = 0
    _stuffed: int = 0

    def __post_init__(self) -> None:
        give_up = self.timeout * 6
        self.timing = HeartbeatTiming(interval=BEAT, timeout=self.timeout, give_up=give_up, clock=self.machine.clock)
        wait_at_most = 3 * self.timeout_seconds
        self._heartbeats = Loop(self, self._beats(), wait_at_most=self.timeout_seconds / 2)
        self._work = Loop(self, self._life(), wait_at_most=wait_at_most, is_work=True)
        self._requests = Loop(self, self._request(), wait_at_most=wait_at_most, is_work=True)
        session = session_timeout(self.timeout)
        self._membership_trust = TrustWindow(timeout=session, clock=self.machine.clock)
        self._membership = Loop(
            self,
            self._stay_in_ensemble(session.total_seconds()),
            wait_at_most=session.total_seconds(),
            connection=self.ensemble_connection,
        )

    def start(self) -> None:
        self._work.resume()

    def end(self) -> None:
        """End the process visibly to its machine. Work that the database has begun for it continues."""
        if not self.is_over:
            self.is_over = True
            self.world.has_ended(self)

    def thaw(self) -> None:
        """Thaw the process, or free it if stuck. It continues with its old beliefs."""
        if self.is_lost:
            return
        self.is_frozen = self.is_stuck = False
        self._heartbeats.go_on()
        self._work.go_on()
        self._requests.go_on()
        self._membership.go_on()

    # --- Facts for the checker -------------------------------------------------------------------

    @property
    def timeout_seconds(self) -> float:
        return self.timeout.total_seconds()

    @property
    def is_held_up(self) -> bool:
        return self.is_frozen or self.is_stuck

    def begin_trouble(self) -> None:
        self._troubles += 1

    def end_trouble(self) -> None:
        self._troubles -= 1
        self._trouble_ended_at = self.world.scheduler.now

    def was_in_trouble(self, *, since: float) -> bool:
        return self.is_over or self._troubles > 0 or self._trouble_ended_at >= since

    # --- The heartbeat thread -------------------------------------------------------------------------------

    def _beats(self) -> Steps:
        timing, clock = self.timing, self.machine.clock
        ask = partial(self.world.store.beat, node_id=self.id)
        while True:
            # A process that waits for the database, or for its next pass, counts as working.
            if not self.is_stuck and not self._hesitates:
                timing.progress()
            if timing.is_work_stuck:
                yield timing.skipped()
                continue
            began_at = clock()
            try:
                beat = yield ask
            except Unreachable:
                pause = timing.missed()
            else:
                if not beat.is_fit:
                    timing.ended()
                    raise Ended
                pause = timing.counted(began_at=began_at)
            yield pause

    # --- The membership session ------------------------------------------------------------------

    def _stay_in_ensemble(self, session: float) -> Steps:
        """Be a member of the ensemble, and stand for election there, while the process trusts itself."""
        ensemble, clock = self.world.ensemble, self.machine.clock
        assert ensemble is not None
        while True:
            is_candidate = self.kind == NodeKind.MANAGER and not self.is_leaving and self.timing.trust.may_begin
            with suppress(Unreachable):
                if self._was_candidate and (not is_candidate or self._is_idle()):
                    self._was_candidate = False
                    self._store_answer = StoreAnswer(is_chosen=False, present=None)
                    yield partial(ensemble.step_aside, node_id=self.id)
                if self.timing.trust.may_begin:
                    self._was_candidate = is_candidate
                    began_at, was_chosen = clock(), self.is_chosen
                    self._store_answer = yield partial(
                        ensemble.attend, node_id=self.id, session=session, is_candidate=is_candidate
                    )
                    self._membership_trust.renew(began_at=began_at)
                    self._idle_since = self._idle_since if was_chosen else clock()
            yield session / _BEATS_A_SESSION

    @property
    def is_chosen(self) -> bool | None:
        if self.world.ensemble is None:
            return None
        return self._store_answer.is_chosen and self._membership_trust.may_begin

    def _is_idle(self) -> bool:
        return bool(self.is_chosen) and self.machine.clock() - self._idle_since > _IDLE * self.timeout_seconds

    # --- The work --------------------------------------------------------------------------------

    def _life(self) -> Steps:
        yield from self._until_answered(self._join)
        self._heartbeats.resume()
        if self.kind == NodeKind.WORKER:
            self._requests.resume()
        if self.world.ensemble is not None:
            self._membership.resume()
        one_pass = self._manage if self.kind == NodeKind.MANAGER else self._flush
        while True:
            try:
                yield from self._until_answered(one_pass)
            except FenceRefused as refused:
                if refused.fence == "node":
                    raise Ended from refused
                self.term = None
            yield _PASS

    def _join(self) -> Steps:
        store = self.world.store
        with suppress(NodeTaken):
            yield partial(store.register, node_id=self.id, kind=self.kind, scope=self.scope, timeout=self.timeout)
        yield partial(store.begin_work, node_id=self.id)

    def _until_answered(self, work: Callable[[], Steps]) -> Steps:
        """Repeat the work from its start until the database answers, as daemons do."""
        pause = _FIRST_RETRY
        while True:
            try:
                yield from work()
            except Unreachable:
                if self.timing.has_given_up:
                    raise Ended from None
            else:
                return
            yield pause
            pause = min(2 * pause, BEAT.total_seconds())

    def _decide(self) -> Steps:
        """Wait between a decision and its write. In this moment a process may pause or be frozen."""
        random = self.world.scheduler.random
        if self.at_next_decision is not None and random.random() < 0.5:
            fault, self.at_next_decision = self.at_next_decision, None
            fault()
            yield 0.0
        if self.world.hesitation and random.random() < self.world.hesitation:
            self._hesitates = True
            self.begin_trouble()
            yield random.random() * self.timeout_seconds
            self.end_trouble()
            self._hesitates = False

    def _write(self, begin: Callable[[], Write]) -> Steps:
        """
        Make a transaction that takes a while.

        Half of them are one statement, which commits even if its process ends. The others wait for the process to
        continue, and the database ends them after a while.
        """
        store, scheduler = self.world.store, self.world.scheduler
        random = scheduler.random
        if random.random() < 0.5:
            write = yield lambda: _begin(begin, then=store.commit, after=self._statement(), scheduler=scheduler)
            yield from self._decide()
            yield _STATEMENT
            while write.is_open:
                yield _PASS
        else:
            write = yield lambda: _begin(begin, then=store.end, after=self.timeout_seconds / 2, scheduler=scheduler)
            yield random.random() * _STATEMENT
            yield from self._decide()
            yield lambda: store.commit(write)

    def _statement(self) -> float:
        """Return the duration of a statement that begins now."""
        random = self.world.scheduler.random
        is_long = self.world.long_statements and random.random() < self.world.long_statements
        return random.random() * (3 * self.timeout_seconds if is_long else _STATEMENT)

    # --- A manager -------------------------------------------------------------------------------

    def _manage(self) -> Steps:
        cluster, items = yield self._read
        yield from self._decide()
        yield from self._keep_main_role(cluster)
        if not self.trusts_itself:
            return
        yield from self._manage_groups(cluster, items)
        if self.is_leaving:
            yield from self._leave()

    def _read(self) -> tuple[ClusterSeen, tuple[ItemSeen, ...]]:
        is_gone = partial(self.world.is_process_gone, seen_from=self.machine)
        store = self.world.store
        present = self._store_answer.present if self.is_chosen else None
        cluster = store.read_scope(scope=self.scope, me=self.id, is_process_gone=is_gone, present=present)
        return cluster, store.items()

    def _keep_main_role(self, cluster: ClusterSeen) -> Steps:
        store = self.world.store
        decision = elect(cluster, beat=BEAT, is_steady=self._is_steady, is_chosen=self.is_chosen)
        match decision:
            case Elect() if self._acts_on(cluster):
                yield from self._decide()
                self.term = yield partial(
                    store.elect,
                    node_id=self.id,
                    scope=decision.scope,
                    seen_term=decision.seen_term,
                    replaces=decision.replaces,
                )
            case Resign():
                leadership = TermHeld(scope=decision.scope, term=decision.term, main_id=self.id)
                yield partial(store.resign, term=leadership)
                self.term = None
            case _:
                leadership = TermHeld(scope=cluster.scope, term=cluster.term.term, main_id=self.id)
                self.term = leadership if cluster.i_am_main else None
        if self.term is not None:
            self._idle_since = self.machine.clock()
            for verdict in judge(cluster, is_steady=self._is_steady):
                yield from self._decide()
                yield partial(store.mark_failed, verdict=verdict, term=self.term)

    def _acts_on(self, cluster: ClusterSeen) -> bool:
        if self.never_acts:
            return False
        if self.world.rules.rank_wait or self.world.ensemble is not None:
            return True
        managers = sorted(cluster.live_managers, key=lambda node: node.seniority)
        return managers[0].id == self.id or managers[0].id == cluster.term.main_id

    def _is_steady(self, duration: dt.timedelta) -> bool:
        return self.timing.is_steady(duration) or not self.world.rules.steadiness

    @property
    def trusts_itself(self) -> bool:
        return self.timing.trust.may_begin or not self.world.rules.trust_window

    def _manage_groups(self, cluster: ClusterSeen, items: tuple[ItemSeen, ...]) -> Steps:
        store = self.world.store
        managers = managers_seen(cluster)
        if self.term is not None and self.trusts_itself and self.is_chosen is not False:
            yield from self._allocate(items, managers, leadership=self.term)
        for action in let_go(items=items, managers=managers, me=self.id):
            yield partial(store.let_go, action=action)
        mine = [item for item in items if item.owner == self.id and item.state == ItemState.OWNED]
        if mine and self.trusts_itself:
            self._stuffed += 1
            yield from self._stuff(mine[self._stuffed % len(mine)])

    def _allocate(
        self, items: tuple[ItemSeen, ...], managers: tuple[ManagerSeen, ...], *, leadership: TermHeld
    ) -> Steps:
        store = self.world.store
        yield from self._decide()
        actions = allocate(items=items, managers=managers, strategy=self.world.strategy, timeout=self.timeout)
        if self.world.wants_rebalance and not actions:
            self.world.wants_rebalance = False
            actions = rebalance(items=items, managers=managers, strategy=self.world.strategy)
        for action in actions:
            match action:
                case Give():
                    yield partial(store.give, action=action, term=leadership)
                case Release():
                    yield partial(store.release, action=action, term=leadership)
                case TakeBack():
                    yield partial(store.take_back, action=action, term=leadership)
        yield from self._write(partial(store.begin_write_as_main, term=leadership))

    def _stuff(self, item: ItemSeen) -> Steps:
        begin = partial(self.world.store.begin_stuffing, node_id=self.id, group=item.id, epoch=item.epoch)
        try:
            yield from self._write(begin)
        except FenceRefused as refused:
            # The manager lost the group meanwhile, which ends only the work for this group.
            if refused.fence != "group":
                raise

    def _leave(self) -> Steps:
        store = self.world.store
        yield partial(store.begin_draining, node_id=self.id)
        items = yield store.items
        self._draining_passes += 1
        if all(item.owner != self.id for item in items) or self._draining_passes > _DRAINING_PASSES:
            yield partial(store.stop, node_id=self.id)
            raise Ended

    # --- A worker --------------------------------------------------------------------------------

    def _request(self) -> Steps:
        """
        Run a loop next to the work loop: begin requests while that is allowed, and close them when that is required.
        """
        while True:
            if self.trusts_itself and not self.is_leaving:
                self.last_request_at = self.world.scheduler.now
                self.open_requests += 1
                self.world.checker.began_request(self.id)
            elif self.timing.trust.must_close:
                self.open_requests = 0
            yield _CHECK_INTERVAL

    def _flush(self) -> Steps:
        yield from self._write(partial(self.world.store.begin_write, node_id=self.id))
        if self.is_leaving:
            self.open_requests = 0
            yield partial(self.world.store.stop, node_id=self.id)
            raise Ended


@dataclass(slots=True, eq=False)
class Loop:
    """A driver of a process' generator. Answers that arrive while the process is held up wait for it."""

    process: Process
    steps: Steps
    # Seconds for which the process waits for a server that does not answer.
    wait_at_most: float
    is_work: bool = False
    # Connection for the requests of the loop. None means the connection to the database.
    connection: Connection | None = None
    _held: list[tuple[Any, Exception | None]] = field(default_factory=list)

    def resume(self, result: Any = None, error: Exception | None = None) -> None:
        process = self.process
        if process.is_over:
            return
        if process.is_frozen or (self.is_work and process.is_stuck):
            self._held.append((result, error))
            return
        try:
            step = self.steps.send(result) if error is None else self.steps.throw(error)
        except (Ended, *REFUSALS):
            process.end()
            return
        if callable(step):
            (self.connection or process.connection).send(step, self.resume, wait_at_most=self.wait_at_most)
        else:
            scheduler = process.world.scheduler
            # Sleeps are never exact.
            overslept = scheduler.random.random() * _LONGEST_OVERSLEEP
            scheduler.after(process.machine.clock.true_duration(step) + overslept, self.resume)

    def go_on(self) -> None:
        held, self._held = self._held, []
        for result, error in held:
            self.resume(result, error)


def managers_seen(cluster: ClusterSeen) -> tuple[ManagerSeen, ...]:
    """Return the managers of a snapshot in the form that the allocation takes."""
    return tuple(
        ManagerSeen(id=node.id, status=node.status, is_silent=node.is_silent or node.same_machine_process_gone)
        for node in cluster.nodes
        if node.kind == NodeKind.MANAGER and not node.has_ended
    )


def _begin(begin: Callable[[], Write], *, then: Callable[[Write], None], after: float, scheduler: Scheduler) -> Write:
    """Begin a write that ends by itself, with a commit or without."""
    write = begin()
    scheduler.after(after, lambda: then(write))
    return write
