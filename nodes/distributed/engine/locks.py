"""
The locks of the items that a node runs: taken before a run, extended during it, released after it.

A lock is extended when a third of its lease has passed. That fails if the store does not answer or another node has the
lock. Then the run is told to stop: immediately if another node has the lock, else a sixth of the lease before its end,
so that the run can end in time. A separate thread watches for that moment. It never calls the store, which may hang.
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
from nodes.distributed.engine.observer import ObserverGroup, Work

logger = logging.getLogger(__name__)

# Fractions of a lease: the remaining time at which it is extended, the remaining time at which a run must stop, and the
# check interval.
_PROLONGED_AT: Final = 2 / 3
_ENDED_AT: Final = 1 / 6
_CHECKED_EVERY: Final = 1 / 12
# Largest number of locks in one call to the store.
_AT_ONCE: Final = 200


@dataclass(slots=True)
class _Held:
    lock: ItemLock
    stop: Callable[[], None]
    is_notified: bool = False


class HeldLocks:
    """The locks of one node. Any thread may take and release."""

    def __init__(
        self, coordination: Coordination, *, lease: Callable[[], dt.timedelta], observer: ObserverGroup
    ) -> None:
        self._coordination = coordination
        self._lease = lease
        self._observer = observer
        self._lock = threading.Lock()
        self._held: dict[UUID, _Held] = {}
        # Locks to release again, because the store did not answer. No other node can take them before their lease ends.
        self._unreleased: dict[UUID, ItemLock] = {}
        self._closing = threading.Event()
        self._threads = [
            threading.Thread(target=turn, name=f"{name} of {coordination.node}", daemon=True)
            for turn, name in ((self._prolong_periodically, "prolonging"), (self._watch_leases, "leases"))
        ]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def close(self) -> None:
        """
        Stop extending locks. Locks of running items stay until the end of their lease, because a run may still be
        working.
        """
        self._closing.set()
        for thread in self._threads:
            thread.join()
        self._release_again()
        with self._lock:
            left = sorted(held.lock.item for held in self._held.values())
        for item in left:
            logger.warning("item %s/%s is still claimed: it stays locked until its lease ends", item.job, item.item)

    def take(
        self, items: Collection[WorkItem], *, wanted: Callable[[], bool], stop: Callable[[], None]
    ) -> "RunLocks | LockSeen | None":
        """
        Take the locks of all these items. If another node has one of them, take none, and return the first such lock.

        `stop` is called if one of them cannot be held any longer. Return None if `wanted` turns false meanwhile.

        Raises:
            CoordinationError: the store does not answer, or refuses the connection.
        """
        run_locks = RunLocks(self)
        try:
            in_order = sorted(items)
            for first in range(0, len(in_order), _AT_ONCE):
                if not wanted():
                    run_locks.let_go()
                    return None
                taken = self._coordination.acquire_all(in_order[first : first + _AT_ONCE], lease=self._lease())
                if isinstance(taken, LockSeen):
                    run_locks.let_go()
                    return taken
                with self._lock:
                    self._held.update({lock.token: _Held(lock, stop) for lock in taken})
                run_locks.tokens += [lock.token for lock in taken]
        except BaseException:
            run_locks.let_go()
            raise
        return run_locks

    def remaining(self, tokens: Collection[UUID]) -> dt.timedelta:
        """Return the time for which all of these locks are certainly held."""
        with self._lock:
            locks = [self._held[token].lock if token in self._held else None for token in tokens]
        return min((dt.timedelta() if lock is None else lock.remaining() for lock in locks), default=dt.timedelta())

    def paced_from(self, tokens: Collection[UUID]) -> dict[str, float]:
        """Return, by item, the moment from which the time to its next run counts, without items that have not run."""
        with self._lock:
            locks = [self._held[token].lock for token in tokens if token in self._held]
        return {lock.item.item: lock.paced_from for lock in locks if lock.paced_from is not None}

    def pace_from(self, tokens: Collection[UUID], moment: float) -> None:
        """
        Store the moment from which the time to the next run of these items counts. The next node that locks an item
        gets this moment.
        """
        with self._lock:
            for token in tokens:
                if token in self._held:
                    held = self._held[token]
                    held.lock = replace(held.lock, paced_from=moment)

    def give_back(self, tokens: Collection[UUID]) -> None:
        """Release these locks. If the store does not answer, release them as soon as it does."""
        with self._lock:
            for token in tokens:
                held = self._held.pop(token, None)
                if held is not None:
                    self._unreleased[token] = held.lock
        self._release_again(tokens)

    def _release_again(self, tokens: Collection[UUID] | None = None) -> None:
        """Release all pending locks, or these. Stop if the store does not answer."""
        with self._lock:
            tokens_to_release = [token for token in self._unreleased if tokens is None or token in tokens]
        for first in range(0, len(tokens_to_release), _AT_ONCE):
            part = tokens_to_release[first : first + _AT_ONCE]
            with self._lock:
                locks = [lock for token in part if (lock := self._unreleased.pop(token, None)) is not None]
            try:
                released = self._coordination.release_all(locks) if locks else ()
            except CoordinationError:
                with self._lock:
                    self._unreleased.update({lock.token: lock for lock in locks if lock.remaining()})
                return
            for lock, was_held in zip(locks, released, strict=True):
                if not was_held:
                    name = f"{lock.item.job}/{lock.item.item}"
                    logger.warning("item %s was returned too late: its lock had expired", name)

    # --- Threads ---------------------------------------------------------------------------------

    def _prolong_periodically(self) -> None:
        while not self._closing.wait(self._lease().total_seconds() * _CHECKED_EVERY):
            try:
                self._release_again()
                self._prolong()
            except CoordinationError as error:
                logger.warning("node %s cannot renew its locks: %s", self._coordination.node, error)

    def _prolong(self) -> None:
        with self._lock:
            held = list(self._held.values())
        due = [one for one in held if one.lock.remaining() < self._lease() * _PROLONGED_AT]
        if not due:
            return
        with self._observer.work(Work.PROLONG_LOCKS):
            for first in range(0, len(due), _AT_ONCE):
                part = due[first : first + _AT_ONCE]
                extended = self._coordination.prolong_all([one.lock for one in part], lease=self._lease())
                for one, longer in zip(part, extended, strict=True):
                    if longer is not None:
                        with self._lock:
                            one.lock = replace(longer, paced_from=one.lock.paced_from)
                    elif self._is_held(one):
                        self._stop_run(one)

    def _watch_leases(self) -> None:
        while not self._closing.wait(self._lease().total_seconds() * _CHECKED_EVERY / 2):
            with self._lock:
                held = list(self._held.values())
            for one in held:
                if one.lock.remaining() < self._lease() * _ENDED_AT and self._is_held(one):
                    self._stop_run(one)

    def _is_held(self, one: _Held) -> bool:
        with self._lock:
            return self._held.get(one.lock.token) is one

    def _stop_run(self, one: _Held) -> None:
        with self._lock:
            was_notified, one.is_notified = one.is_notified, True
        if not was_notified:
            item = one.lock.item
            logger.warning("the lock of item %s/%s is lost: its run has to stop", item.job, item.item)
            self._observer.lock_lost(item)
            one.stop()


class RunLocks:
    """The locks of one run."""

    def __init__(self, locks: HeldLocks) -> None:
        self._locks = locks
        self.tokens: list[UUID] = []

    def remaining(self) -> dt.timedelta:
        """Return the time for which all locks of the run are certainly held."""
        return self._locks.remaining(self.tokens)

    def paced_from(self) -> dict[str, float]:
        """Return, by item, the moment from which the time to its next run counts, without items that have not run."""
        return self._locks.paced_from(self.tokens)

    def pace_from(self, moment: float) -> None:
        """Let the time to the next run of the items count from this moment."""
        self._locks.pace_from(self.tokens, moment)

    def let_go(self) -> None:
        self._locks.give_back(self.tokens)
