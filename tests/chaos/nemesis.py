"""
The nemesis (the name that Jepsen uses): injects faults by a seed, first one at a time and later up to three.

The nemesis deals from a shuffled deck of all faults, and shuffles again when the deck is used up. So all faults are
equally frequent. The nemesis has no thread: `advance` is called some times a second, and every fault is a generator of
pauses.
"""

import time
from dataclasses import dataclass, field

from tests.chaos.checkers import MainLoss
from tests.chaos.cluster import TIMEOUT
from tests.chaos.faults import Fault, plan_for


@dataclass(eq=False)
class InjectedFault:
    """A fault that is or was active. `main_loss` is the main manager that it ended, with the moment (wall clock), or None."""

    fault: Fault
    since: float
    description: str = ""
    main_loss: tuple[str, float] | None = None
    steps: object = None
    next_at: float = 0.0
    until: float = float("inf")


@dataclass
class Nemesis:
    cluster: object
    rng: object
    max_concurrent: int = 1
    history: list[InjectedFault] = field(default_factory=list)
    _deck: list[Fault] = field(default_factory=list)
    _active: list[InjectedFault] = field(default_factory=list)
    _pauses_until: float = 0.0
    _ended_at: float = float("-inf")

    def advance(self, *, may_begin):
        """Step the active faults, and begin a new fault when it is time."""
        now = time.monotonic()
        for injected in self._active.copy():
            # A step that waits for the database also advances the other faults, so `injected` may have ended.
            if injected.next_at <= now and injected in self._active:
                self._step(injected)
        if may_begin and now >= self._pauses_until and len(self._active) < self.max_concurrent:
            self._begin()

    @property
    def is_idle(self):
        return not self._active

    def _begin(self):
        if not self._deck:
            plan = plan_for(self.cluster)
            self._deck = self.rng.sample(plan, len(plan))
            # Faults of main managers come first, so that a short run measures takeovers, too.
            self._deck.sort(key=lambda fault: fault.hits_main)
        if self._active and (self._deck[-1].takes_all or any(one.fault.takes_all for one in self._active)):
            return
        if self.max_concurrent == 1 and self._deck[-1].hits_main and time.monotonic() < self._ended_at + 2 * TIMEOUT:
            # The effect of an earlier fault must not disturb the measurement of a takeover.
            return
        injected = InjectedFault(self._deck.pop(), time.time())

        def report(description, loss=None):
            injected.description, injected.main_loss = description, loss
            self.cluster.write_line(f"{injected.fault.plan:<4}{description}")

        injected.steps = injected.fault.inject(self.cluster, self.rng, report)
        self.history.append(injected)
        self._active.append(injected)
        self._step(injected)

    def _step(self, injected):
        injected.next_at = float("inf")
        try:
            injected.next_at = time.monotonic() + next(injected.steps)
        except StopIteration:
            injected.until = time.time()
            self._ended_at = time.monotonic()
            self._active.remove(injected)
            # The pause is mostly long enough for a recovery. After the loss of a main manager it is longer than the
            # next election.
            pauses = [2 * TIMEOUT] if injected.main_loss else [0.5, 1.0, TIMEOUT]
            self._pauses_until = time.monotonic() + self.rng.choice(pauses)

    def main_losses(self):
        """Return the main managers that were ended, each with the moment (wall clock) and the cause."""
        return [
            MainLoss(*injected.main_loss, injected.description)
            for injected in self.history
            if injected.main_loss is not None
        ]

    def was_alone(self, loss, *, until):
        """
        True if no other fault was active from shortly before the loss until that moment. Otherwise the time of the takeover
        would also depend on the other fault.
        """
        others = [one for one in self.history if one.main_loss != (loss.main, loss.at)]
        return not any(other.since < until and other.until > loss.at - TIMEOUT for other in others)
