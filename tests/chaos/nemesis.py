"""
The nemesis: which fault happens when, as a seed says, from one at a time to three.

It deals from a deck of all faults and shuffles when that is used up, so each happens as often as any other. It
takes no thread: `advance` is called some times a second, and every fault is a generator of pauses.
"""

import time
from dataclasses import dataclass, field

from tests.chaos.checkers import Blow
from tests.chaos.cluster import TIMEOUT
from tests.chaos.faults import FAULTS, Fault


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

    def advance(self, *, may_begin):
        """Go on with what is under way, and begin something new when it is time."""
        now = time.monotonic()
        for happening in [one for one in self._under_way if one.next_at <= now]:
            self._step(happening)
        if may_begin and now >= self._rests_until and len(self._under_way) < self.most_at_once:
            self._begin()

    @property
    def is_quiet(self):
        return not self._under_way

    def _begin(self):
        if not self._deck:
            self._deck = self.dice.sample(FAULTS, len(FAULTS))
        if self._under_way and (self._deck[-1].takes_all or any(one.fault.takes_all for one in self._under_way)):
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
        try:
            happening.next_at = time.monotonic() + next(happening.steps)
        except StopIteration:
            happening.until = time.time()
            self._under_way.remove(happening)
            # Long enough for most to be over it, mostly.
            self._rests_until = time.monotonic() + self.dice.choice([0.5, 1.0, 2 * TIMEOUT])

    def blows(self):
        """
        The mains that fell while nothing else was wrong: what a takeover is measured by.

        What follows such a blow may not come before the takeover either, so that is looked at as well.
        """
        found = []
        for happening in self.happened:
            if happening.hit is None:
                continue
            main, at = happening.hit
            others = (other for other in self.happened if other is not happening)
            if not any(other.since < at + 4 * TIMEOUT and other.until > at - 2 * TIMEOUT for other in others):
                found.append(Blow(main, at, happening.words))
        return found
