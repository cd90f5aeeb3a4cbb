"""Something that is to be done at a moment: the earliest that anybody asked for."""

import asyncio


class Due:
    """
    A wish with a moment. `is_over` once the moment has come, and then the event is set, until `clear`.

    Belongs to the event loop's thread.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, event: asyncio.Event) -> None:
        self._loop, self._event = loop, event
        self._timer: asyncio.TimerHandle | None = None
        self.is_over = False

    def now(self) -> None:
        self.is_over = True
        self._event.set()

    def within(self, seconds: float) -> None:
        """Be over so many seconds from now at the latest."""
        at = self._loop.time() + seconds
        if self.is_over or (self._timer is not None and self._timer.when() <= at):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(at, self.now)

    @property
    def is_asked_for(self) -> bool:
        """Whether its moment is known, or has come."""
        return self.is_over or self._timer is not None

    def comes_within(self, seconds: float) -> bool:
        """Whether its moment is known, and so near."""
        return self._timer is not None and self._timer.when() <= self._loop.time() + seconds

    def clear(self) -> None:
        """It is being done: what is asked for from here on is another wish."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.is_over = False
