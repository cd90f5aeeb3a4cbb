"""What lies between a process and the database: messages that are late, lost, or come twice, and outages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodes.fences import FenceRefused
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import MustWait, NodeTaken

# How long a question and its answer take when nothing is wrong, at most; in seconds.
_USUAL = 0.04
# How often a question that has to wait is looked at again.
_LOOK = 0.1
# How long it takes to hear that nobody listens.
_REFUSED = 0.01
# What the database says no with.
REFUSALS = (FenceRefused, NodeTaken)


class Unreachable(Exception):
    """The database gave no answer. Whether it did what it was asked for, nobody knows."""


Question = Callable[[], Any]
Answer = Callable[[Any, Exception | None], None]


@dataclass(slots=True)
class Weather:
    """What befalls the database, and thereby everybody."""

    refuses: bool = False
    hangs: bool = False
    slowness: float = 0.0


@dataclass(slots=True)
class Line:
    """The line of one process. It is taken for dead when nothing came over it for `silence` seconds."""

    scheduler: Scheduler
    weather: Weather
    silence: float
    carries_questions: bool = True
    carries_answers: bool = True
    # Of so many messages in one something goes wrong: late by up to `lateness`, lost, or asked twice.
    flakiness: float = 0.0
    lateness: float = 0.0

    def ask(self, question: Question, answer: Answer, *, patience: float) -> None:
        """
        Ask the database; `answer` is called once, with what it said or with what went wrong.

        `patience` is for a server that is there and says nothing.
        """
        going = self._delay()
        if not self.carries_questions or self._is_lost():
            self._after(self.silence, lambda: answer(None, Unreachable()))
            return
        if going > self.silence:
            # Nobody waits for it any more when it arrives. That does not stop it.
            self._after(self.silence, lambda: answer(None, Unreachable()))
            self._after(going, lambda: self._arrive(question, _nobody, patience))
            return
        if self.flakiness and self.scheduler.random.random() < self.flakiness:
            self._after(going + self._delay(), lambda: self._arrive(question, _nobody, patience))
        self._after(going, lambda: self._arrive(question, answer, patience))

    def _arrive(self, question: Question, answer: Answer, patience: float) -> None:
        if self.weather.refuses:
            self._after(_REFUSED, lambda: answer(None, Unreachable()))
            return
        if self.weather.hangs:
            self._wait(question, answer, patience)
            return
        said: Any = None
        error: Exception | None = None
        try:
            said = question()
        except MustWait:
            self._wait(question, answer, patience)
            return
        except REFUSALS as refusal:
            error = refusal
        if self.carries_answers and not self.flakiness and not self.weather.slowness:
            answer(said, error)
            return
        coming = self._delay()
        if not self.carries_answers or self._is_lost() or coming > self.silence:
            said, error, coming = None, Unreachable(), self.silence
        self._after(coming, lambda: answer(said, error))

    def _wait(self, question: Question, answer: Answer, patience: float) -> None:
        """Who waits in vain goes; what he asked for is done all the same, once it can be."""
        if patience < 0 and answer is not _nobody:
            answer(None, Unreachable())
            answer = _nobody
        self._after(_LOOK, lambda: self._arrive(question, answer, patience - _LOOK))

    def _delay(self) -> float:
        random = self.scheduler.random
        if self.flakiness and random.random() < self.flakiness:
            return random.random() * self.lateness
        return random.random() * _USUAL + self.weather.slowness

    def _is_lost(self) -> bool:
        return self.flakiness > 0 and self.scheduler.random.random() < self.flakiness

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self.scheduler.after(seconds, action)


def _nobody(_said: Any, _error: Exception | None) -> None:
    pass
