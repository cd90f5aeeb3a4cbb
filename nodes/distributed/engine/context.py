"""The context of a run: its items, the signal to stop, and the time for which its items are locked."""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection

logger = logging.getLogger(__name__)

Listener = Callable[[], None]


def _without_limit() -> dt.timedelta:
    return dt.timedelta.max


class JobContext:
    """
    One run of a job. Any thread may use it.

    A test of a job constructs one directly: `JobContext({"item-1"})`.
    """

    def __init__(
        self, work_share: Collection[str], *, remaining: Callable[[], dt.timedelta] = _without_limit, job: str = ""
    ) -> None:
        self.work_share = frozenset(work_share)
        self._job = job
        self._remaining = remaining
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Listener] = []

    @property
    def should_stop(self) -> bool:
        """True if the run should end as soon as it can: its items move, its locks expire, or the process ends."""
        return self._stopping.is_set()

    def wait(self, timeout: dt.timedelta) -> bool:
        """Wait for this time, or until the run should stop. Return True if it should."""
        return self._stopping.wait(timeout.total_seconds())

    def remaining(self) -> dt.timedelta:
        """Return the time for which no other node can have any of the items. Check it before an irreversible action."""
        return self._remaining()

    def add_shutdown_listener(self, listener: Listener) -> None:
        """
        Register a function that is called once when the run should stop; immediately if it should stop already.

        An exception of one listener is logged, and the others are still called.
        """
        with self._lock:
            if not self.should_stop:
                self._listeners.append(listener)
                return
        self._call([listener])

    def remove_shutdown_listener(self, listener: Listener) -> None:
        """Unregister a listener. An unknown listener is ignored."""
        with self._lock:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def stop(self) -> None:
        """Signal that the run should stop. Return without waiting for the listeners."""
        with self._lock:
            self._stopping.set()
            listeners, self._listeners = self._listeners, []
        if listeners:
            threading.Thread(target=self._call, args=(listeners,), name=f"end of {self._job}", daemon=True).start()

    def _call(self, listeners: Collection[Listener]) -> None:
        for listener in listeners:
            try:
                listener()
            except (Exception, SystemExit):
                logger.exception("a shutdown listener of job %s failed", self._job)
