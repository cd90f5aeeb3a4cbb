"""The connection of a process to a server: messages that are late, lost or duplicated, and outages."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nodes.membership.fences import FenceRefused
from tests.simulation.scheduler import Scheduler
from tests.simulation.store import MustWait, NodeTaken

# Longest time of a request and its answer without a fault (seconds).
_USUAL = 0.04
# Seconds between two tries of a request that has to wait.
_INTERVAL = 0.1
# Seconds until a client learns that no server listens.
_REFUSED = 0.01
# Errors by which the database refuses a request.
REFUSALS = (FenceRefused, NodeTaken)


class Unreachable(Exception):
    """The database gave no answer. It is unknown whether it executed the request."""


Request = Callable[[], Any]
Answer = Callable[[Any, Exception | None], None]


@dataclass(slots=True)
class ServerFaults:
    """The faults of a server, which affect all processes."""

    refuses: bool = False
    hangs: bool = False
    slowness: float = 0.0


@dataclass(slots=True)
class Connection:
    """The connection of one process to a server. It is dead after `silence` seconds without a message."""

    scheduler: Scheduler
    server_faults: ServerFaults
    silence: float
    carries_requests: bool = True
    carries_answers: bool = True
    # Share of messages with a fault: late by up to `lateness`, lost, or duplicated.
    flakiness: float = 0.0
    lateness: float = 0.0

    def send(self, request: Request, answer: Answer, *, wait_at_most: float) -> None:
        """
        Send a request to the server. `answer` is called once, with the result or with the error.

        `wait_at_most` is the limit in seconds for a server that accepts the request and does not answer.
        """
        going = self._delay()
        if not self.carries_requests or self._is_lost():
            self._after(self.silence, lambda: answer(None, Unreachable()))
            return
        if going > self.silence:
            # The sender has given up when the request arrives, and the database still executes it.
            self._after(self.silence, lambda: answer(None, Unreachable()))
            self._after(going, lambda: self._arrive(request, _no_receiver, wait_at_most))
            return
        if self.flakiness and self.scheduler.random.random() < self.flakiness:
            self._after(going + self._delay(), lambda: self._arrive(request, _no_receiver, wait_at_most))
        self._after(going, lambda: self._arrive(request, answer, wait_at_most))

    def _arrive(self, request: Request, answer: Answer, wait_at_most: float) -> None:
        if self.server_faults.refuses:
            self._after(_REFUSED, lambda: answer(None, Unreachable()))
            return
        if self.server_faults.hangs:
            self._wait(request, answer, wait_at_most)
            return
        result: Any = None
        error: Exception | None = None
        try:
            result = request()
        except MustWait:
            self._wait(request, answer, wait_at_most)
            return
        except REFUSALS as refusal:
            error = refusal
        if self.carries_answers and not self.flakiness and not self.server_faults.slowness:
            answer(result, error)
            return
        coming = self._delay()
        if not self.carries_answers or self._is_lost() or coming > self.silence:
            result, error, coming = None, Unreachable(), self.silence
        self._after(coming, lambda: answer(result, error))

    def _wait(self, request: Request, answer: Answer, wait_at_most: float) -> None:
        """
        Repeat the request until the database can execute it. After `wait_at_most` seconds the client gets
        `Unreachable`, and the request is still executed.
        """
        if wait_at_most < 0 and answer is not _no_receiver:
            answer(None, Unreachable())
            answer = _no_receiver
        self._after(_INTERVAL, lambda: self._arrive(request, answer, wait_at_most - _INTERVAL))

    def _delay(self) -> float:
        random = self.scheduler.random
        if self.flakiness and random.random() < self.flakiness:
            return random.random() * self.lateness
        return random.random() * _USUAL + self.server_faults.slowness

    def _is_lost(self) -> bool:
        return self.flakiness > 0 and self.scheduler.random.random() < self.flakiness

    def _after(self, seconds: float, action: Callable[[], object]) -> None:
        self.scheduler.after(seconds, action)


def _no_receiver(_result: Any, _error: Exception | None) -> None:
    pass
