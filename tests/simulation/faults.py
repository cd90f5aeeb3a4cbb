"""The faults of a history: kinds of faults, each with its end, and a plan of them."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from nodes.lifecycle import NodeKind
from tests.simulation.process import BEAT, Process
from tests.simulation.store import WEIGHTS

if TYPE_CHECKING:
    from tests.simulation.world import World

_BEAT = BEAT.total_seconds()
_QUIET_START = 2 * _BEAT


class Faults:
    """
    The faults of one history. Each history has only some kinds, so a kind that is rare among ten is frequent in some.
    """

    def __init__(self, world: "World") -> None:
        self._world = world
        self._random = world.scheduler.random
        self._ends: list[Callable[[], None]] = []
        kinds: tuple[Callable[[], None], ...] = (
            self._crash, self._freeze, self._stick, self._cut, self._make_flaky,
            self._refuse, self._hang, self._slow_down, self._ask_to_leave, self._join,
            self._inject_at_decision, self._freeze_without_end, self._stick_without_end, self._shift_load,
        )  # fmt: skip
        if world.ensemble is not None:
            kinds += (self._lose_ensemble, self._wipe_ensemble, self._cut_off_ensemble, self._cut_off_ensemble)
        self._kinds = self._random.sample(kinds, k=self._random.randint(1, 5))
        # Fences matter in the moment between a decision and its write, so faults at that moment are more frequent.
        if self._random.random() < 0.5:
            self._kinds += 2 * [self._inject_at_decision]

    def plan(self) -> float:
        """Schedule faults from now on, and return the seconds until they end."""
        world = self._world
        if self._random.random() < 0.3:
            world.hesitation = self._random.uniform(0.05, 0.4)
            self._log("they pause between a read and the following action")
        if self._random.random() < 0.3:
            world.long_statements = self._random.uniform(0.05, 0.4)
            self._log("some statements take long")
        if self._random.random() < 0.3:
            for process in world.alive:
                is_spare = process.kind == NodeKind.MANAGER and world.may_be_lost(process)
                process.never_acts = is_spare and self._random.random() < 0.5
                if process.never_acts:
                    self._log(f"n{process.id.int} will never take the leadership")
        lasts = self._random.uniform(8, 22) * _BEAT
        for _ in range(self._random.randint(2, 8)):
            fault = self._random.choice(self._kinds)
            self._world.scheduler.after(self._random.uniform(_QUIET_START, lasts), fault)
        return lasts

    def end(self) -> None:
        """End all faults that have not ended by themselves."""
        for end in self._ends:
            end()
        self._world.hesitation = self._world.long_statements = 0.0
        self._world.store.end_all()
        for process in self._world.alive:
            process.at_next_decision = None

    # --- Faults of one process -------------------------------------------------------------------

    def _crash(self, process: Process | None = None) -> None:
        process = process or self._pick()
        self._log(f"n{process.id.int} crashes")
        process.begin_trouble()
        process.end()

    def _freeze(self, process: Process | None = None) -> None:
        process = process or self._pick()
        self._log(f"n{process.id.int} freezes")
        process.is_frozen = True
        self._trouble(process, until=lambda: (self._log(f"n{process.id.int} wakes"), process.thaw()))

    def _inject_at_decision(self) -> None:
        process = self._pick()
        fault = self._random.choice((self._freeze, self._crash))
        process.at_next_decision = lambda: fault(process)

    def _stick(self) -> None:
        process = self._pick()
        self._log(f"the work of n{process.id.int} is stuck")
        process.is_stuck = True
        self._trouble(process, until=lambda: (self._log(f"the work of n{process.id.int} goes on"), process.thaw()))

    def _freeze_without_end(self) -> None:
        process = self._pick()
        if self._world.may_be_lost(process):
            self._log(f"n{process.id.int} freezes without end")
            process.is_frozen = process.is_lost = True
            process.begin_trouble()

    def _stick_without_end(self) -> None:
        process = self._pick()
        if self._world.may_be_lost(process):
            self._log(f"the work of n{process.id.int} is stuck without end")
            process.is_stuck = process.is_lost = True
            process.begin_trouble()

    def _cut(self) -> None:
        process, connection = (process := self._pick()), process.connection
        connection.carries_requests, connection.carries_answers = self._random.choice(
            ((False, False), (True, False), (False, True))
        )
        self._log(
            f"the connection of n{process.id.int} is cut (to, from: {connection.carries_requests}, {connection.carries_answers})"
        )

        def repair() -> None:
            connection.carries_requests = connection.carries_answers = True

        self._trouble(process, until=repair)

    def _cut_off_ensemble(self) -> None:
        process, connection = (process := self._pick()), process.ensemble_connection
        self._log(f"the connection of n{process.id.int} to the ensemble is cut")
        connection.carries_requests = connection.carries_answers = False

        def repair() -> None:
            connection.carries_requests = connection.carries_answers = True

        # This fault is not recorded as trouble, because it must not cause the failure of the node.
        self._later(repair)

    def _make_flaky(self) -> None:
        process, connection = (process := self._pick()), process.connection
        connection.flakiness, connection.lateness = (
            self._random.uniform(0.05, 0.5),
            self._random.uniform(0.1, 4) * _BEAT,
        )
        self._log(f"the connection of n{process.id.int} is flaky")

        def repair() -> None:
            connection.flakiness = 0.0

        self._trouble(process, until=repair)

    def _ask_to_leave(self) -> None:
        process = self._pick()
        self._log(f"n{process.id.int} is asked to stop")
        process.is_leaving = True

    def _join(self) -> None:
        if len(self._world.alive) < 10:
            self._world.start(self._random.choice(tuple(NodeKind)))

    def _shift_load(self) -> None:
        """Change the weight of a group, and request a rebalance."""
        group = self._random.choice(tuple(self._world.store.groups.values()))
        group.weight = self._random.choice(WEIGHTS)
        self._log(f"group {group.id} weighs {group.weight:g} now, and a rebalance is asked for")
        self._world.wants_rebalance = True

    # --- Faults of all processes -----------------------------------------------------------------

    def _refuse(self) -> None:
        faults = self._world.database_faults
        self._log("the database is down")
        faults.refuses = True
        self._later(lambda: (self._log("the database is up"), setattr(faults, "refuses", False)))

    def _hang(self) -> None:
        faults = self._world.database_faults
        self._log("the database hangs")
        faults.hangs = True
        self._later(lambda: (self._log("the database goes on"), setattr(faults, "hangs", False)))

    def _slow_down(self) -> None:
        faults = self._world.database_faults
        faults.slowness = self._random.uniform(0.05, 0.5) * _BEAT
        self._log("the database is slow")
        self._later(lambda: setattr(faults, "slowness", 0.0))

    def _lose_ensemble(self) -> None:
        faults = self._world.ensemble_faults
        self._log("the ensemble is down")
        faults.refuses = True
        self._later(lambda: (self._log("the ensemble is up"), setattr(faults, "refuses", False)))

    def _wipe_ensemble(self) -> None:
        self._log("the ensemble is wiped")
        assert self._world.ensemble is not None
        self._world.ensemble.wipe()

    # --- Steps that several of the above share ---------------------------------------------------

    def _pick(self) -> Process:
        """Return a live process. Half of the time it is the main manager, whose faults matter most."""
        main = self._world.main
        if main is not None and not main.is_over and self._random.random() < 0.5:
            return main
        return self._random.choice(self._world.alive)

    def _trouble(self, process: Process, *, until: Callable[[], object]) -> None:
        process.begin_trouble()

        def end() -> None:
            until()
            process.end_trouble()

        self._later(end)

    def _later(self, end: Callable[[], object]) -> None:
        """End a fault after a while that is mostly short and rarely long, at the latest when all faults end."""
        ended = False

        def end_once() -> None:
            nonlocal ended
            if not ended:
                ended = True
                end()

        self._ends.append(end_once)
        # Half of the faults last about a timeout, because races happen there.
        lasts = self._random.uniform(2, 10) if self._random.random() < 0.5 else self._random.expovariate(1 / 6)
        self._world.scheduler.after(lasts * _BEAT, end_once)

    def _log(self, line: str) -> None:
        self._world.log(line)
