"""An event that wakes one thread. Wake-ups during its work count as one."""

import threading


class WakeUp:
    """A wake-up that any thread may send. One thread waits for it."""

    def __init__(self) -> None:
        self._event = threading.Event()
        self._closing = False

    def wake(self) -> None:
        self._event.set()

    def close(self) -> None:
        """End all waits."""
        self._closing = True
        self._event.set()

    @property
    def is_closing(self) -> bool:
        return self._closing

    def wait(self, seconds: float) -> bool:
        """
        Wait for a wake-up, at most this time. Return True if there was one. An earlier wake-up that was not consumed
        counts as well.
        """
        was_woken = self._event.wait(max(0.0, seconds))
        if was_woken and not self._closing:
            self._event.clear()
        return was_woken
