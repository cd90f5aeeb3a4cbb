"""
The nemesis: chooses by a seed which faults happen when, first one at a time and later up to three.

It deals from a deck of all faults and shuffles when the deck is used up, so all faults are equally frequent. It has no
thread: `advance` is called some times a second, and every fault is a generator of pauses.
"""

import time
from dataclasses import dataclass, field

from tests.chaos.checkers import Blow
from tests.chaos.cluster import TIMEOUT
from tests.chaos.faults import Fault, plan_for


@dataclass(eq=False)
class Happening:
    """A fault that is or was active. `hit` is the main manager it ended, if any, with the moment (wall clock)."""

    fault: Fault
    since: float
    words: str = ""
    hit: tuple[str, float] | None = None
    steps: object = None
    next_at: float = 0.0
    until: float = float("inf")


@dataclass
class Nemesis:
    cluster: object
    dice: object
    most_at_once: int = 1
    happened: list[Happening] = field(default_factory=list)
    _deck: list[Fault] = field(default_factory=list)
    _under_way: list[Happening] = field(default_factory=list)
    _rests_until: float = 0.0
    _ended_at: float = float("-inf")

    def advance(self, *, may_begin):
        """Step the active faults, and begin a new fault when it is time."""
        now = time.monotonic()
        for happening in self._under_way.copy():
            # A step that waits for the database also advances the other faults, so this one may have ended.
            if happening.next_at <= now and happening in self._under_way:
                self._step(happening)
        if may_begin and now >= self._rests_until and len(self._under_way) < self.most_at_once:
            self._begin()

    @property
    def is_quiet(self):
        return not self._under_way

    def _begin(self):
        if not self._deck:
            plan = plan_for(self.cluster)
            self._deck = self.dice.sample(plan, len(plan))
            # Faults of main managers come first, so that a short run measures takeovers, too.
            self._deck.sort(key=lambda fault: fault.hits_main)
        if self._under_way and (self._deck[-1].takes_all or any(one.fault.takes_all for one in self._under_way)):
            return
        if self.most_at_once == 1 and self._deck[-1].hits_main and time.monotonic() < self._ended_at + 2 * TIMEOUT:
            # The effect of an earlier fault must not disturb the measurement of a takeover.
            return
        happening = Happening(self._deck.pop(), time.time())

        def report(words, blow=None):
            happening.words, happening.hit = words, blow
            self.cluster.say(f"{happening.fault.plan:<4}{words}")

        happening.steps = happening.fault.happen(self.cluster, self.dice, report)
        self.happened.append(happening)
        self._under_way.append(happening)
        self._step(happening)

    def _step(self, happening):
        happening.next_at = float("inf")
        try:
            happening.next_at = time.monotonic() + next(happening.steps)
        except StopIteration:
            happening.until = time.time()
            self._ended_at = time.monotonic()
            self._under_way.remove(happening)
            # The pause is mostly long enough for a recovery. After the loss of a main manager it is longer than the
            # next election.
            rests = [2 * TIMEOUT] if happening.hit else [0.5, 1.0, TIMEOUT]
            self._rests_until = time.monotonic() + self.dice.choice(rests)

    def blows(self):
        """Return the main managers that were ended, each with the moment (wall clock) and the cause."""
        return [Blow(*happening.hit, happening.words) for happening in self.happened if happening.hit is not None]

    def was_alone(self, blow, *, until):
        """
        True if no other fault was active from shortly before the blow until that moment. Else the figure measures that
        fault, too.
        """
        others = [one for one in self.happened if one.hit != (blow.main, blow.at)]
        return not any(other.since < until and other.until > blow.at - TIMEOUT for other in others)
