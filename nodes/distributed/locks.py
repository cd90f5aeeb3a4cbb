"""
The locks of the items that a node has in hand: taken before a run, prolonged while it lasts, given back after it.

A lock is prolonged when a third of its lease is gone. Where that fails, because the store does not answer or the lock is
another's, the run is told to stop: at once if it is another's, and a sixth of the lease before its end where nobody answers, so
that the run can end in time. That moment is watched for by a thread that never asks the store, which may hang.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final
from uuid import UUID

from nodes.assignment.pools import WorkItem
from nodes.coordination.port import Coordination, CoordinationError, ItemLock, LockSeen
from nodes.distributed.observer import Telling, Work

logger = logging.getLogger(__name__)

# Parts of a lease: what is left when it is prolonged, when a run has to stop, and how often it is looked at.
_PROLONGED_AT: Final = 2 / 3
_ENDED_AT: Final = 1 / 6
_LOOKED_AT: Final = 1 / 12


@dataclass(slots=True)
class _Held:
    lock: ItemLock
    stop: Callable[[], None]
    is_told: bool = False


class HeldLocks:
    """What one node holds. Any thread may take and give back."""

    def __init__(self, coordination: Coordination, *, lease: Callable[[], dt.timedelta], observer: Telling) -> None:
        self._coordination = coordination
        self._lease = lease
        self._observer = observer
        self._lock = threading.Lock()
        self._held: dict[UUID, _Held] = {}
        # Those whose giving back was not answered: nobody would have them before their lease is over.
        self._owed: dict[UUID, ItemLock] = {}
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=turn, name=f"{name} of {coordination.node}", daemon=True)
            for turn, name in ((self._prolong_again_and_again, "prolonging"), (self._watch_leases, "leases"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """Prolong nothing any more. What is still held stays locked until its lease is over: somebody may be at it."""
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._give_back_what_is_owed()
        with self._lock:
            left = sorted(held.lock.item for held in self._held.values())
        for item in left:
            logger.warning("item %s/%s is still in hand: it stays locked until its lease is over", item.job, item.item)

    def take(
        self, items: Collection[WorkItem], *, wanted: Callable[[], bool], stop: Callable[[], None]
    ) -> "Grip | LockSeen | None":
        """
        Take the locks of all these items, or of none: then whose the first is that cannot be had.

        `stop` is called if one of them cannot be held any longer. None where they are `wanted` no more.

        Raises:
            CoordinationError: the store does not answer, or will not have us.
        """
        grip = Grip(self)
        try:
            for item in sorted(items):
                if not wanted():
                    grip.let_go()
                    return None
                taken = self._coordination.acquire(item, lease=self._lease())
                if isinstance(taken, LockSeen):
                    grip.let_go()
                    return taken
                with self._lock:
                    self._held[taken.token] = _Held(taken, stop)
                grip.tokens.append(taken.token)
        except BaseException:
            grip.let_go()
            raise
        return grip

    def remaining(self, tokens: Collection[UUID]) -> dt.timedelta:
        """For how long all of these are held for certain."""
        with self._lock:
            locks = [self._held[token].lock if token in self._held else None for token in tokens]
        return min((dt.timedelta() if lock is None else lock.remaining() for lock in locks), default=dt.timedelta())

    def paced_from(self, tokens: Collection[UUID]) -> dict[str, float]:
        """Return by item the moment from which its pace counts, of those items of these that have run."""
        with self._lock:
            locks = [self._held[token].lock for token in tokens if token in self._held]
        return {lock.item.item: lock.paced_from for lock in locks if lock.paced_from is not None}

    def pace_from(self, tokens: Collection[UUID], moment: float) -> None:
        """Have the pace of these items count from this moment, for the node that takes them next."""
        with self._lock:
            for token in tokens:
                if token in self._held:
                    held = self._held[token]
                    held.lock = replace(held.lock, paced_from=moment)

    def give_back(self, tokens: Collection[UUID]) -> None:
        """Give these back; where the store does not answer, as soon as it does."""
        with self._lock:
            for token in tokens:
                held = self._held.pop(token, None)
                if held is not None:
                    self._owed[token] = held.lock
        self._give_back_what_is_owed(tokens)

    def _give_back_what_is_owed(self, tokens: Collection[UUID] | None = None) -> None:
        """All of it, or of these; the first that is not answered ends it."""
        with self._lock:
            owed = [token for token in self._owed if tokens is None or token in tokens]
        for token in owed:
            with self._lock:
                lock = self._owed.pop(token, None)
            if lock is None:
                continue
            try:
                if not self._coordination.release(lock):
                    name = f"{lock.item.job}/{lock.item.item}"
                    logger.warning("item %s was given back too late: its lock was over", name)
            except CoordinationError:
                if lock.remaining():
                    with self._lock:
                        self._owed[token] = lock
                    return

    # --- Threads ---------------------------------------------------------------------------------

    def _prolong_again_and_again(self) -> None:
        while not self._closing.wait(self._lease().total_seconds() * _LOOKED_AT):
            try:
                self._give_back_what_is_owed()
                self._prolong()
            except CoordinationError as error:
                logger.warning("node %s cannot prolong its locks: %s", self._coordination.node, error)

    def _prolong(self) -> None:
        with self._lock:
            held = list(self._held.values())
        due = [one for one in held if one.lock.remaining() < self._lease() * _PROLONGED_AT]
        if not due:
            return
        with self._observer.work(Work.PROLONG_LOCKS):
            for one in due:
                longer = self._coordination.prolong(one.lock, lease=self._lease())
                if longer is not None:
                    with self._lock:
                        one.lock = replace(longer, paced_from=one.lock.paced_from)
                elif self._is_held(one):
                    self._tell(one)

    def _watch_leases(self) -> None:
        while not self._closing.wait(self._lease().total_seconds() * _LOOKED_AT / 2):
            with self._lock:
                held = list(self._held.values())
            for one in held:
                if one.lock.remaining() < self._lease() * _ENDED_AT and self._is_held(one):
                    self._tell(one)

    def _is_held(self, one: _Held) -> bool:
        with self._lock:
            return self._held.get(one.lock.token) is one

    def _tell(self, one: _Held) -> None:
        with self._lock:
            was_told, one.is_told = one.is_told, True
        if not was_told:
            item = one.lock.item
            logger.warning("the lock of item %s/%s is lost: its run has to stop", item.job, item.item)
            self._observer.lock_lost(item)
            one.stop()


class Grip:
    """The locks of one run."""

    def __init__(self, locks: HeldLocks) -> None:
        self._locks = locks
        self.tokens: list[UUID] = []

    def remaining(self) -> dt.timedelta:
        """For how long all of it is held for certain."""
        return self._locks.remaining(self.tokens)

    def paced_from(self) -> dict[str, float]:
        """Return by item the moment from which its pace counts, of those of its items that have run."""
        return self._locks.paced_from(self.tokens)

    def pace_from(self, moment: float) -> None:
        """Have the pace of its items count from this moment."""
        self._locks.pace_from(self.tokens, moment)

    def let_go(self) -> None:
        self._locks.give_back(self.tokens)
