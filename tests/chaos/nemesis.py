"""
The nemesis: which fault happens when, as a seed says, from one at a time to three.

It deals from a deck of all faults and shuffles when that is used up, so each happens as often as any other. It
takes no thread: `advance` is called some times a second, and every fault is a generator of pauses.
"""

import time
from dataclasses import dataclass, field

from tests.chaos.checkers import Blow
from tests.chaos.cluster import TIMEOUT
from tests.chaos.faults import Fault, plan_for


@dataclass(eq=False)
class Happening:
    """A fault under way, or that was. `hit` is the main that fell by it, with the moment (wall clock), if one did."""

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
        """Go on with what is under way, and begin something new when it is time."""
        now = time.monotonic()
        for happening in self._under_way.copy():
            # A step that waits for the database goes on with the others meanwhile.
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
            # Mains fall first: so a short run measures takeovers, too.
            self._deck.sort(key=lambda fault: fault.hits_main)
        if self._under_way and (self._deck[-1].takes_all or any(one.fault.takes_all for one in self._under_way)):
            return
        if self.most_at_once == 1 and self._deck[-1].hits_main and time.monotonic() < self._ended_at + 2 * TIMEOUT:
            # What it is measured by must not be what was wrong before.
            return
        happening = Happening(self._deck.pop(), time.time())

        def tell(words, blow=None):
            happening.words, happening.hit = words, blow
            self.cluster.say(f"{happening.fault.plan:<4}{words}")

        happening.steps = happening.fault.happen(self.cluster, self.dice, tell)
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
            # Long enough for most to be over it, mostly; after the fall of a main until there is another.
            rests = [2 * TIMEOUT] if happening.hit else [0.5, 1.0, TIMEOUT]
            self._rests_until = time.monotonic() + self.dice.choice(rests)

    def blows(self):
        """The mains that fell, each with when (wall clock) and by what."""
        return [Blow(*happening.hit, happening.words) for happening in self.happened if happening.hit is not None]

    def was_alone(self, blow, *, until):
        """Whether nothing else was wrong from shortly before a blow until a moment: else it measures that, too."""
        others = [one for one in self.happened if one.hit != (blow.main, blow.at)]
        return not any(other.since < until and other.until > blow.at - TIMEOUT for other in others)
