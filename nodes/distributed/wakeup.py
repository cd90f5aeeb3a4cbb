"""A thread that is woken: wake-ups that come while it works are one."""

import threading


class WakeUp:
    """Any thread may wake; one waits."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._closing = False

    def wake(self) -> None:
        self._event.set()

    def close(self) -> None:
        """Nobody waits any more."""
        self._closing = True
        self._event.set()

    @property
    def is_closing(self) -> bool:
        return self._closing

    def wait(self, seconds: float) -> bool:
        """Wait for a wake-up, at most so long; returns whether there was one. What woke before counts as well."""
        was_woken = self._event.wait(max(0.0, seconds))
        if was_woken and not self._closing:
            self._event.clear()
        return was_woken
