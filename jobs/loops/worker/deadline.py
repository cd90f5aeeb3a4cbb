"""A deadline for work. If several deadlines are requested, the earliest one applies."""

import asyncio

from jobs.loops.worker.timer import Timer


class Deadline:
    """
    The moment of requested work. Once the moment has come, `is_over` is true and the event is set, until `clear`.

    Belongs to the event loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        self._loop, self._event = loop, event
        self._timer: Timer | None = None
        self.is_over = False

    def now(self) -> None:
        self.is_over = True
        self._event.set()

    def within(self, seconds: float) -> None:
        """Make the work due in at most this many seconds."""
        at = self._loop.time() + seconds
        if self.is_over or (self._timer is not None and self._timer.at <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = Timer(self._loop, at, self.now)

    @property
    def is_requested(self) -> bool:
        """True if work was requested: its moment is known, or has come."""
        return self.is_over or self._timer is not None

    def comes_within(self, seconds: float) -> bool:
        """True if the moment is known and comes within these seconds."""
        return self._timer is not None and self._timer.at <= self._loop.time() + seconds

    def clear(self) -> None:
        """Reset at the beginning of the work, so that a later request makes the work due again."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.is_over = False
