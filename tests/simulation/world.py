"""One history: a cluster under faults, all drawn from a seed, with checks during it and at its end."""

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from nodes.assignment.evenly import evenly
from nodes.assignment.strategy import Strategy
from nodes.assignment.weighted import weighted
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from tests.simulation.checker import Checker, Violation
from tests.simulation.connection import Connection, ServerFaults
from tests.simulation.ensemble import Ensemble
from tests.simulation.faults import Faults
from tests.simulation.process import BEAT, Machine, Process
from tests.simulation.rules import Rules
from tests.simulation.scheduler import DriftingClock, Scheduler
from tests.simulation.store import WEIGHTS, GroupRow, Store

_BEAT = BEAT.total_seconds()
_HOURS = 10 * 3600.0
# Maximum drift of a machine's clock, a hundred times that of real ones.
_DRIFT = 0.02
_MOST_NODES = 10
# One history in this number continues until nothing changes any more. The others end as soon as all groups are served.
_AWAITS_REST = 5
# Seconds without a change at the end, while each group is stuffed.
_REST = 5 * _BEAT
# One history in this number has a coordination store in addition to its database.
_HAS_ENSEMBLE = 4
# Timeouts of nodes (in intervals of heartbeats). The second is the default.
_TIMEOUTS = (3, 5, 6)


@dataclass(slots=True)
class World:
    """A cluster with its time. `lines` are its history, kept if `keeps_lines`."""

    seed: int
    rules: Rules = field(default_factory=Rules)
    keeps_lines: bool = False
    lines: list[str] = field(default_factory=list)
    scheduler: Scheduler = field(init=False)
    database_faults: ServerFaults = field(init=False, default_factory=ServerFaults)
    ensemble_faults: ServerFaults = field(init=False, default_factory=ServerFaults)
    ensemble: Ensemble | None = field(init=False, default=None)
    checker: Checker = field(init=False)
    store: Store = field(init=False)
    faults: Faults = field(init=False)
    hesitation: float = field(init=False, default=0.0)
    long_statements: float = field(init=False, default=0.0)
    most_alive: int = field(init=False, default=0)
    strategy: Strategy = field(init=False)
    # True after a request for a rebalance.
    wants_rebalance: bool = field(init=False, default=False)
    processes: dict[UUID, Process] = field(init=False, default_factory=dict)
    _machines: list[Machine] = field(init=False)
    _timeouts: tuple[int, ...] = field(init=False)
    # Processes that are always restarted, so that some process is left at the end.
    _sturdy: set[Process] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        random = self.scheduler.random
        self.checker = Checker(now=lambda: self.scheduler.now, beat=_BEAT, processes=self.processes, log=self.log)
        self.store = Store(
            clock=self._make_clock(), checker=self.checker, rules=self.rules, ends_sessions=random.random() < 0.5
        )
        if self.seed % _HAS_ENSEMBLE == _HAS_ENSEMBLE - 1:
            self.ensemble = Ensemble(self._make_clock())
        self._timeouts = _TIMEOUTS if random.random() < 0.3 else (random.choice(_TIMEOUTS),)
        self._machines = [Machine(number, self._make_clock()) for number in range(random.randint(1, 4))]
        self.strategy = random.choice((evenly, weighted))
        self.store.groups = {
            number: GroupRow(id=number, weight=random.choice(WEIGHTS)) for number in range(1, random.randint(1, 4) + 1)
        }
        self.faults = Faults(self)
        managers = random.randint(1, 6)
        for _ in range(managers):
            self.start(NodeKind.MANAGER)
        for _ in range(random.randint(1, min(4, _MOST_NODES - managers))):
            self.start(NodeKind.WORKER)
        self._sturdy.add(next(iter(self.processes.values())))

    def run(self) -> None:
        """
        Run the history.

        Raises:
            Violation: an invariant was violated, or a promised event did not happen.
        """
        healed_at = self.faults.plan()
        self.scheduler.run(until=healed_at)
        self.faults.end()
        self.log("the faults have ended")
        main_by, groups_by = healed_at + self.patience_for_main, healed_at + self.patience_for_groups
        self._run_until(lambda: self._has_main(since=healed_at), by=main_by, otherwise="no node acts as main manager")
        self._run_until(lambda: self._is_at_work(since=healed_at), by=groups_by, otherwise="a group is not stuffed")
        if self.seed % _AWAITS_REST == 0:
            self.scheduler.run(until=groups_by)
            self._check_rest()

    def _has_main(self, *, since: float) -> bool:
        return self.checker.main_acted_at.get(CLUSTER_SCOPE, 0.0) > since

    def _is_at_work(self, *, since: float) -> bool:
        return all(self.checker.stuffed_at.get(group, 0.0) > since for group in self.store.groups)

    def _run_until(self, is_so: Callable[[], bool], *, by: float, otherwise: str) -> None:
        began_at = self.scheduler.now
        while not is_so():
            if self.scheduler.now >= by:
                raise Violation(f"{otherwise} {(by - began_at) / _BEAT:.0f} beats after the faults")
            self.scheduler.run(until=min(self.scheduler.now + _BEAT, by))

    def _check_rest(self) -> None:
        """Check that all groups are served and nothing changes any more."""
        began_at = self.scheduler.now
        term, moves = self.checker.terms[CLUSTER_SCOPE], self.checker.moves
        self.scheduler.run(until=began_at + _REST)
        if (self.checker.terms[CLUSTER_SCOPE], self.checker.moves) != (term, moves):
            raise Violation("it does not stop")
        if not self._has_main(since=began_at) or not self._is_at_work(since=began_at):
            raise Violation("it stops, and a node does not work")

    # --- Promised durations (docs/reliability.md) ------------------------------------------------

    @property
    def patience_for_main(self) -> float:
        """Return the seconds from the end of all faults until a main manager has acted."""
        living = [process for process in self.processes.values() if not process.is_over]
        timeout = max(process.timeout_seconds for process in self.processes.values())
        stuck = sum(process.is_stuck for process in living)
        idle = sum(process.never_acts for process in living)
        leaving = any(process.is_leaving for process in living)
        wait_at_most = timeout * (2 if stuck else 1) + (7 + stuck + idle + 3 * leaving) * _BEAT
        if self.ensemble is None:
            return wait_at_most
        # A chosen node that is frozen or stuck blocks the others for its session, and an idle one for two timeouts.
        return wait_at_most + timeout * (1 + 2 * idle)

    @property
    def patience_for_groups(self) -> float:
        """Return the seconds from the end of all faults until each group has an owner that stuffs it."""
        timeout = max(process.timeout_seconds for process in self.processes.values())
        return self.patience_for_main + timeout + 4 * _BEAT

    # --- Processes -------------------------------------------------------------------------------

    @property
    def alive(self) -> list[Process]:
        return [process for process in self.processes.values() if not process.is_over]

    @property
    def main(self) -> Process | None:
        main_id = self.checker.mains.get(CLUSTER_SCOPE)
        return None if main_id is None else self.processes[main_id]

    def may_be_lost(self, process: Process) -> bool:
        return process not in self._sturdy

    def start(self, kind: NodeKind, *, on: Machine | None = None) -> Process:
        random = self.scheduler.random
        node_id = UUID(int=len(self.processes) + 1)
        timeout = dt.timedelta(seconds=random.choice(self._timeouts) * _BEAT)
        process = Process(
            id=node_id,
            kind=kind,
            scope=CLUSTER_SCOPE,
            machine=on or random.choice(self._machines),
            timeout=timeout,
            world=self,
            connection=Connection(self.scheduler, self.database_faults, silence=timeout.total_seconds() / 2),
            ensemble_connection=Connection(self.scheduler, self.ensemble_faults, silence=timeout.total_seconds() / 2),
        )
        self.processes[node_id] = process
        self.most_alive = max(self.most_alive, len(self.alive))
        self.scheduler.after(random.random() * _BEAT, process.start)
        self.log(
            f"n{node_id.int}, a {kind} with a timeout of {timeout.total_seconds():g} s, on machine {process.machine.number}"
        )
        return process

    def has_ended(self, process: Process) -> None:
        self.log(f"the process of n{process.id.int} is over")
        random = self.scheduler.random
        is_sturdy = process in self._sturdy
        if not is_sturdy and random.random() < 0.3:
            return
        again = self.start(process.kind, on=process.machine)
        if is_sturdy:
            self._sturdy.add(again)

    def is_process_gone(self, node_id: UUID, *, seen_from: Machine) -> bool:
        process = self.processes[node_id]
        return process.is_over and process.machine is seen_from

    # --- The rest --------------------------------------------------------------------------------

    def log(self, line: str) -> None:
        if self.keeps_lines:
            self.lines.append(f"{self.scheduler.now:8.2f} s  {line}")

    def _make_clock(self) -> DriftingClock:
        random = self.scheduler.random
        return DriftingClock(self.scheduler, ahead=random.uniform(0, _HOURS), rate=1 + random.uniform(-_DRIFT, _DRIFT))
