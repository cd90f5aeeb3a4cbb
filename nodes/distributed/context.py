"""What a run is told: its items, whether it should stop, and for how long its items are its own."""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection

logger = logging.getLogger(__name__)

Listener = Callable[[], None]


def _for_ever() -> dt.timedelta:
    return dt.timedelta.max


class JobContext:
    """
    One run of a job. All of it may be asked from any thread.

    A test of a job makes one by itself: `JobContext({"item-1"})`.
    """

    def __init__(
        self, work_share: Collection[str], *, remaining: Callable[[], dt.timedelta] = _for_ever, job: str = ""
    ) -> None:
        self.work_share = frozenset(work_share)
        self._job = job
        self._remaining = remaining
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    @property
    def should_stop(self) -> bool:
        """Whether the run should end as soon as it can: its items go elsewhere, its locks end, or the process does."""
        return self._stopping.is_set()

    def wait(self, timeout: dt.timedelta) -> bool:
        """Wait for so long, or until the run should stop; returns whether it should."""
        return self._stopping.wait(timeout.total_seconds())

    def remaining(self) -> dt.timedelta:
        """For how long nobody else can have any of the items, for certain; to be asked before what cannot be undone."""
        return self._remaining()

    def add_shutdown_listener(self, listener: Listener) -> None:
        """
        Have this called once when the run should stop, at once if it should already.

        What one of them raises is logged, and keeps no other from being called.
        """
        with self._lock:
            if not self.should_stop:
                self._listeners.append(listener)
                return
        self._call([listener])

    def remove_shutdown_listener(self, listener: Listener) -> None:
        """Have it called no more; one that was never added is no mistake."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def stop(self) -> None:
        """Say that the run should stop. Returns at once, whatever listeners do."""
        with self._lock:
            self._stopping.set()
            listeners, self._listeners = self._listeners, []
        if listeners:
            threading.Thread(target=self._call, args=(listeners,), name=f"end of {self._job}", daemon=True).start()

    def _call(self, listeners: Collection[Listener]) -> None:
        for listener in listeners:
            try:
                listener()
            except Exception:
                logger.exception("a shutdown listener of job %s failed", self._job)
