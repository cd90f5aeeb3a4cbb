"""
Deadlines of many requests, checked by one timer.

Each request has a deadline, which moves while its body arrives. Almost no request reaches it. A timer for each request
would cost more than a check of all open requests some times a second.
"""

import asyncio
from types import TracebackType
from typing import Final, Self

# Longest time by which a deadline is late (seconds).
_TICK: Final = 0.05


class Deadlines:
    """The deadlines of one process, for use in the thread of its event loop."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._open: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def at(self, when: float) -> "Deadline":
        """Return a deadline at a moment of the loop's clock, to be entered by the task that it ends."""
        return Deadline(self, when)

    def add(self, deadline: "Deadline") -> None:
        """Watch a deadline until it is discarded."""
        self._open.add(deadline)
        if self._timer is None:
            self._timer = self._loop.call_later(_TICK, self._look)

    def discard(self, deadline: "Deadline") -> None:
        self._open.discard(deadline)

    def _look(self) -> None:
        self._timer = None
        now = self._loop.time()
        for deadline in [one for one in self._open if one.when is not None and one.when <= now]:
            deadline.expire()
        if self._open:
            self._timer = self._loop.call_later(_TICK, self._look)


class Deadline:
    """
    A context manager that ends its block at a deadline, like `asyncio.timeout_at`.

    `when` may change at any time; None means no deadline.

    Raises:
        TimeoutError: the block had not ended by then, and was cancelled.
    """

    __slots__ = ("_deadlines", "_requests_before", "_task", "has_expired", "when")

    def __init__(self, deadlines: Deadlines, when: float | None) -> None:
        self._deadlines = deadlines
        self.when = when
        self.has_expired = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._requests_before = task, task.cancelling()
        self._deadlines.add(self)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._deadlines.discard(self)
        # If other code has also cancelled the task, the caller must see the CancelledError.
        if self.has_expired and self._task.uncancel() <= self._requests_before and kind is asyncio.CancelledError:
            raise TimeoutError from error

    def expire(self) -> None:
        """Cancel the block."""
        self.has_expired = True
        self._deadlines.discard(self)
        self._task.cancel()
