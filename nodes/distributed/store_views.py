"""
Views of the coordination store for processes that are not members of the cluster.

In ZooKeeper each node of the tree needs a separate read: a view of some hundred items costs a tenth of a second of
processor time. So concurrent readers share one view. A view that took longer is reused for longer. PostgreSQL
answers in a few statements, and is read each time.
"""

import datetime as dt
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from django.conf import settings

from nodes.coordination.opening import ZOOKEEPER, open_coordination
from nodes.coordination.port import ClusterState, CoordinationError, LockSeen

# Longest wait of a reader for a store that does not answer.
READ_TIMEOUT: Final = dt.timedelta(seconds=5)
# Time for which a view is reused: in multiples of the time that its reading took, and at most (seconds). So readings of
# up to half a second take at most a twentieth of the time, for any number of readers.
_GOOD_FOR: Final = 20.0
_LONGEST: Final = 10.0

StoreView = tuple[ClusterState, tuple[LockSeen, ...]]


def uses_zookeeper() -> bool:
    return str(settings.CRAWLCTL_COORDINATION) == ZOOKEEPER


def read_view(cluster: str, *, dsn: str) -> StoreView:
    """
    Read a cluster and its locks, as a process that is not a member.

    Raises:
        BadName, CoordinationError: the name or the address is invalid, or the store does not answer.
    """
    store = open_coordination(
        settings.CRAWLCTL_COORDINATION,
        dsn=dsn,
        cluster=cluster,
        node=f"watcher-{os.getpid()}",
        timeout=READ_TIMEOUT,
        zookeeper=settings.CRAWLCTL_ZOOKEEPER,
        credentials=settings.CRAWLCTL_ZOOKEEPER_CREDENTIALS,
        read_only=True,
    )
    try:
        return store.read_state(), store.locks()
    finally:
        store.close()


@dataclass(slots=True)
class _Latest:
    """The last view of one cluster, or the error instead of it; the reading thread holds the lock."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    good_until: float = float("-inf")
    found: StoreView | CoordinationError | None = None


class SharedViews:
    """The views of one process; safe to use from several threads."""

    def __init__(
        self, read: Callable[..., StoreView] = read_view, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._read, self._clock = read, clock
        self._lock = threading.Lock()
        self._latest: dict[tuple[str, str], _Latest] = {}

    def read(self, cluster: str, *, dsn: str) -> StoreView:
        """
        Return the same as the function `read_view`. For ZooKeeper, the view may be one that another thread has just read.
        """
        if not uses_zookeeper():
            return self._read(cluster, dsn=dsn)
        latest = self._of(settings.CRAWLCTL_ZOOKEEPER, cluster)
        with latest.lock:
            began = self._clock()
            if latest.found is None or began >= latest.good_until:
                try:
                    latest.found = self._read(cluster, dsn=dsn)
                except CoordinationError as error:
                    latest.found = error
                ended = self._clock()
                latest.good_until = ended + min(_LONGEST, _GOOD_FOR * (ended - began))
            if isinstance(latest.found, CoordinationError):
                raise latest.found.with_traceback(None)
            return latest.found

    def _of(self, address: str, cluster: str) -> _Latest:
        now = self._clock()
        with self._lock:
            # Names are typed by people, so entries of arbitrary names must not accumulate.
            for key, latest in list(self._latest.items()):
                if latest.good_until < now - _LONGEST and not latest.lock.locked():
                    del self._latest[key]
            return self._latest.setdefault((address, cluster), _Latest())


read_shared_view: Final = SharedViews().read
