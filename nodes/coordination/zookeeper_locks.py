"""
Locks of items in ZooKeeper: their data, and how they are taken, within one session.

The lease of a lock runs from the server's time of its last change to the server's present time. A node that requests
the lock of another gets that time by a write to the root. The clocks of an ensemble's servers must agree within a
fraction of a lease. The clocks of nodes need not agree.

If a node of the tree is deleted and created again, its versions restart, so a stale version could match. A released
lock therefore stays: empty, or with the seconds from the moment `paced_from` of its item to the release. A removal of
locks increments the version of `locks`, which every other write checks.
"""

import datetime as dt
import json
import socket
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from nodes.assignment.pools import WorkItem
from nodes.coordination.participant import lock_held
from nodes.coordination.paths import MARK, Tree, item_of_lock
from nodes.coordination.port import ClusterState, ItemLock, LockSeen
from nodes.coordination.zookeeper_session import (
    UNREADABLE,
    Absent,
    Check,
    Conflict,
    Create,
    Delete,
    Operation,
    Session,
    Set,
    Stat,
)
from nodes.life.trust_window import Clock

# Upper limits of a valid lease (seconds) and moment (milliseconds). A lock beyond them is garbage.
_LONGEST: Final = 10 * 365 * 24 * 3600
_LATEST: Final = 200_000_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lease:
    """
    The data of a lock: the fields of DJM under DJM's names, and fields of our own. A released lock has no lease.

    `since` is the server's time in milliseconds. It is unknown before the first write of the lock.
    """

    token: str
    node: str
    seconds: float
    note: str = ""
    host: str = ""
    since: int | None = None

    @classmethod
    def parse(cls, data: bytes) -> "_Lease | None":
        """Return the lease in the data, or None if the data is not a lock of ours."""
        with suppress(*UNREADABLE):
            content = json.loads(data)
            lease = cls(
                token=str(content["uuid"]),
                node=str(content["node"]),
                seconds=float(content["lease"]),
                note=str(content["metadata"]),
                host=str(content["hostname"]),
                since=None if content["since"] is None else int(content["since"]),
            )
            is_possible = 0 <= lease.seconds < _LONGEST and 0 <= (lease.since or 0) < _LATEST
            return lease if is_possible else None
        return None

    @classmethod
    def is_of(cls, token: UUID, data: bytes) -> bool:
        """True if the data was written under this token."""
        lease = cls.parse(data)
        return lease is not None and lease.token == token.hex

    def data(self) -> bytes:
        expires_at = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self.seconds)
        content = {
            "uuid": self.token,
            # Only people read this time, which is by this node's clock.
            "expirationTimestamp": int(expires_at.timestamp() * 1000),
            "metadata": self.note,
            "hostname": self.host,
            "node": self.node,
            "lease": self.seconds,
            "since": self.since,
        }
        return json.dumps(content).encode()


def _given_back(paced_ago: dt.timedelta | None) -> bytes:
    """Return the data of a released lock."""
    return b"" if paced_ago is None else json.dumps({"pacedAgo": paced_ago.total_seconds()}).encode()


def _is_given_back(data: bytes) -> bool:
    return not data or _paced_ago(data) is not None


def _paced_ago(data: bytes) -> float | None:
    """
    Return the seconds from the moment `paced_from` of an item to the release of its lock; None if the lock does not
    hold them.
    """
    with suppress(*UNREADABLE):
        seconds = float(json.loads(data)["pacedAgo"])
        return seconds if 0 <= seconds < _LONGEST else None
    return None


def _paced_from(data: bytes, stat: Stat) -> float | None:
    """
    Return the moment from which the time to an item's next run counts, by its lock (the server's time, seconds); None
    if the item has not run.
    """
    if (ago := _paced_ago(data)) is not None:
        return stat.changed_at / 1000 - ago
    # The lock still has a lease, so its holder died during a run.
    lease = _Lease.parse(data)
    return None if lease is None else (stat.changed_at if lease.since is None else lease.since) / 1000


class ZooKeeperLocks:
    """The locks of one cluster, as one node takes them. Repeat any call that raises Conflict or Absent."""

    def __init__(self, tree: Tree, *, node: str, clock: Clock, read_only: bool) -> None:
        """
        With `read_only` nothing is written, so the remaining time of a lease is computed by this machine's clock.
        """
        self._tree, self._node, self._clock, self._read_only = tree, node, clock, read_only

    def acquire(
        self, session: Session, item: WorkItem, token: UUID, *, lease: dt.timedelta, note: str
    ) -> ItemLock | LockSeen:
        """Take a lock that is free or has expired. Return it, or the lock of its present holder."""
        taken = self.acquire_all(session, [item], [token], lease=lease, note=note)
        return taken if isinstance(taken, LockSeen) else taken[0]

    def acquire_all(
        self,
        session: Session,
        items: Sequence[WorkItem],
        tokens: Sequence[UUID],
        *,
        lease: dt.timedelta,
        note: str = "",
    ) -> list[ItemLock] | LockSeen:
        """
        Take the locks of all these items. If another node has one of them, take none, and return the first such lock.
        """
        paths = [self._tree.lock(item) for item in items]
        whole, found = self._read(session, paths)
        operations: list[Operation] = []
        for item, token, path, there in zip(items, tokens, paths, found, strict=True):
            data = self._lease(token, lease=lease, note=note).data()
            if there is None:
                operations.append(Create(path, data))
                continue
            seen = None if _Lease.is_of(token, there[0]) else self._seen(session, item, *there)
            if seen is not None and not seen.has_expired:
                return seen
            operations.append(Set(path, there[1].version, data))
        began_at = self._clock()
        try:
            session.commit([whole, *operations])
        except Conflict:
            self._make_folders(session, items)
            raise
        locks: list[ItemLock] = []
        written = session.get_of(paths)
        for item, token, before, now in zip(items, tokens, found, written, strict=True):
            if now is None or not _Lease.is_of(token, now[0]):
                raise Conflict("another node took the lock over at the same moment")
            paced = None if before is None else _paced_from(*before)
            changed_at = now[1].changed_at
            locks.append(
                lock_held(
                    item,
                    token,
                    since=_moment(changed_at),
                    began_at=began_at,
                    lease=lease,
                    note=note,
                    paced_from=None if paced is None else self._clock() - (changed_at / 1000 - paced),
                )
            )
        return locks

    def prolong_all(self, session: Session, locks: Sequence[ItemLock], *, lease: dt.timedelta) -> list[ItemLock | None]:
        """
        Extend locks to a full lease from now. Return for each the extended lock, or None if this node has lost the
        lock.
        """
        began_at = self._clock()
        data = [self._lease(lock.token, lease=lease, note=lock.note, since=lock.since).data() for lock in locks]
        held = self._change(session, locks, data)
        return [
            lock_held(lock.item, lock.token, since=lock.since, began_at=began_at, lease=lease, note=lock.note)
            if is_held
            else None
            for lock, is_held in zip(locks, held, strict=True)
        ]

    def release_all(self, session: Session, locks: Sequence[ItemLock]) -> list[bool]:
        """Release locks. Return True for each lock that this node still held."""
        return self._change(session, locks, [_given_back(lock.paced_ago(clock=self._clock)) for lock in locks])

    def _change(self, session: Session, locks: Sequence[ItemLock], data: Sequence[bytes]) -> list[bool]:
        """Replace the data of locks. Return True for each lock that this node still held."""
        paths = [self._tree.lock(lock.item) for lock in locks]
        whole, found = self._read(session, paths)
        held = [
            there is not None and _Lease.is_of(lock.token, there[0]) for lock, there in zip(locks, found, strict=True)
        ]
        changes = [
            Set(path, there[1].version, new)
            for path, there, new, is_held in zip(paths, found, data, held, strict=True)
            if there is not None and is_held
        ]
        if changes:
            session.commit([whole, *changes])
        return held

    def _read(self, session: Session, paths: Sequence[str]) -> tuple[Check, list[tuple[bytes, Stat] | None]]:
        """Return the check that no lock was removed since, and the nodes of locks, all requested together."""
        whole, *found = session.get_of([self._tree.all_locks, *paths])
        if whole is None:
            raise Absent
        return Check(self._tree.all_locks, whole[1].version), found

    def _make_folders(self, session: Session, items: Iterable[WorkItem]) -> None:
        """Create the missing folders of the locks of these items."""
        for job in sorted({item.job for item in items}):
            if session.stat(self._tree.locks(job)) is None:
                with suppress(Conflict):
                    session.create(self._tree.locks(job))

    def _check_of_removals(self, session: Session) -> Check:
        """Return the check that no lock was removed between the following read and the write."""
        return Check(self._tree.all_locks, session.get(self._tree.all_locks)[1].version)

    def lock_of(self, session: Session, item: WorkItem) -> LockSeen | None:
        """Return the lock of an item; None if the item has no lock."""
        try:
            data, stat = session.get(self._tree.lock(item))
        except Absent:
            return None
        return self._seen(session, item, data, stat)

    def locks(self, session: Session) -> tuple[LockSeen, ...]:
        """Return all locks, sorted by item."""
        now, nodes = self._server_time(session), self._nodes(session)
        now = max([now, *(stat.changed_at for _item, _data, stat in nodes)])
        seen = [_lock_seen(item, data, stat, now=now) for item, data, stat in nodes]
        return tuple(sorted((lock for lock in seen if lock is not None), key=lambda lock: lock.item))

    def forget(self, session: Session, *, seen: ClusterState) -> None:
        """Remove the nodes of free locks whose items are no longer in any pool."""
        tree = self._tree
        counting = Set(tree.all_locks, session.get(tree.all_locks)[1].version)
        unknown = self._nodes(session, wanted=lambda item: item.item not in seen.pools.get(item.job, ()))
        if unknown:
            now = self._server_time(session)
            free = [
                Delete(tree.lock(item), stat.version)
                for item, data, stat in unknown
                if _is_free(item, data, stat, now=now)
            ]
            if free:
                # If another node takes one of these locks at the same time, the next call removes the remaining ones.
                with suppress(Conflict):
                    session.commit_in_parts([counting], free)

    def _nodes(
        self, session: Session, *, wanted: Callable[[WorkItem], bool] = lambda _item: True
    ) -> list[tuple[WorkItem, bytes, Stat]]:
        """Return the nodes of all wanted locks, including released ones."""
        tree = self._tree
        jobs = sorted(session.children(tree.all_locks))
        names = zip(jobs, session.children_of([tree.locks(job) for job in jobs]), strict=True)
        items = [
            WorkItem(job, item) for job, of_job in names for name in sorted(of_job) if (item := item_of_lock(name))
        ]
        asked = [item for item in items if wanted(item)]
        found = session.get_of([tree.lock(item) for item in asked])
        return [(item, *there) for item, there in zip(asked, found, strict=True) if there is not None]

    def _seen(self, session: Session, item: WorkItem, data: bytes, stat: Stat) -> LockSeen | None:
        """Return the lock in the data; None if it was released."""
        return _lock_seen(item, data, stat, now=self._server_time(session)) if not _is_given_back(data) else None

    def _lease(self, token: UUID, *, lease: dt.timedelta, note: str, since: dt.datetime | None = None) -> _Lease:
        return _Lease(
            token=token.hex,
            node=self._node,
            seconds=lease.total_seconds(),
            note=note,
            host=socket.gethostname(),
            since=None if since is None else round(since.timestamp() * 1000),
        )

    def _server_time(self, session: Session) -> int:
        """Return the server's time in milliseconds, which it reports with each write."""
        if self._read_only:
            return round(dt.datetime.now(dt.UTC).timestamp() * 1000)
        return session.set(self._tree.root, MARK).changed_at


def _lock_seen(item: WorkItem, data: bytes, stat: Stat, *, now: int) -> LockSeen | None:
    if _is_given_back(data):
        return None
    lease = _Lease.parse(data)
    if lease is None:
        return LockSeen(item=item, holder="", since=_moment(stat.changed_at), remaining=dt.timedelta())
    remaining = dt.timedelta(seconds=lease.seconds, milliseconds=stat.changed_at - now)
    return LockSeen(
        item=item,
        holder=lease.node,
        since=_moment(stat.changed_at if lease.since is None else lease.since),
        remaining=max(remaining, dt.timedelta()),
        note=lease.note,
        host=lease.host,
    )


def _is_free(item: WorkItem, data: bytes, stat: Stat, *, now: int) -> bool:
    lock = _lock_seen(item, data, stat, now=now)
    return lock is None or lock.has_expired


def _moment(milliseconds: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(milliseconds / 1000, tz=dt.UTC)
