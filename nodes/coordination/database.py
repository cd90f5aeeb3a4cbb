"""
The store of coordination in PostgreSQL: the default.

Each change of the facts on which the main node decides locks the cluster's row, and increments a version there. A plan
is valid if these versions have not changed since it was made. Beats and item locks touch only their own rows. All times
are times of the database.

An outage of the database silences all nodes at the same time. So a node may consider another one lost only if it has
itself beaten without a gap for as long as the other's timeout.

Lock order: cluster, member, pools, shares. Item locks are single statements.
"""

import datetime as dt
import logging
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, NamedTuple
from uuid import UUID, uuid4

import psycopg
from psycopg.rows import namedtuple_row

from nodes.assignment.pools import Shares, WorkItem
from nodes.coordination.names import checked, checked_pools
from nodes.coordination.participant import Participant, lock_held
from nodes.coordination.port import (
    ClusterState,
    ItemLock,
    Leadership,
    LockSeen,
    NoCluster,
    NotMain,
    Outdated,
    Refused,
    Unreachable,
)
from nodes.database.connections import ConnectionWithTimeouts, Dsn, connect
from nodes.life.trust_window import Clock, seconds_since_boot

logger = logging.getLogger(__name__)

CHANNEL: Final = "coordination"

# Locks: the row of a new cluster.
_OPEN_CLUSTER = "INSERT INTO nodes_coordinationcluster (name) VALUES (%(cluster)s) ON CONFLICT (name) DO NOTHING"

# Locks: the cluster's row NO KEY UPDATE, before anything else.
_LOCK_CLUSTER = """
SELECT term, main, main_instance, pool_version, worker_version, assignment_version
  FROM nodes_coordinationcluster WHERE name = %(cluster)s FOR NO KEY UPDATE
"""

# Locks: held already by `_LOCK_CLUSTER`, as in all statements below that change the cluster's row.
_COUNT_UP = """
UPDATE nodes_coordinationcluster
   SET pool_version = pool_version + %(pools)s, worker_version = worker_version + %(workers)s,
       assignment_version = assignment_version + %(assignments)s
 WHERE name = %(cluster)s
"""

_SET_MAIN = """
UPDATE nodes_coordinationcluster SET term = %(term)s, main = %(node)s, main_instance = %(instance)s,
       since = clock_timestamp()
 WHERE name = %(cluster)s
"""

# Locks: the member's row NO KEY UPDATE.
_JOIN = """
INSERT INTO nodes_coordinationmember (cluster, node, instance, jobs, heartbeat_at, steady_since, timeout_seconds)
VALUES (%(cluster)s, %(node)s, %(instance)s, %(jobs)s, clock_timestamp(), clock_timestamp(), %(timeout)s)
ON CONFLICT (cluster, node) DO UPDATE
   SET instance = EXCLUDED.instance, jobs = EXCLUDED.jobs, heartbeat_at = EXCLUDED.heartbeat_at,
       steady_since = EXCLUDED.steady_since, timeout_seconds = EXCLUDED.timeout_seconds
"""

# Locks: the member's row NO KEY UPDATE, in a separate transaction.
_BEAT = """
UPDATE nodes_coordinationmember
   SET steady_since = CASE WHEN clock_timestamp() - heartbeat_at > make_interval(secs => timeout_seconds)
                           THEN clock_timestamp() ELSE steady_since END,
       heartbeat_at = clock_timestamp()
 WHERE cluster = %(cluster)s AND node = %(node)s AND instance = %(instance)s
"""

_LEAVE = (
    "DELETE FROM nodes_coordinationmember WHERE cluster = %(cluster)s AND node = %(node)s AND instance = %(instance)s"
)

_MY_JOBS = """
SELECT jobs FROM nodes_coordinationmember
 WHERE cluster = %(cluster)s AND node = %(node)s AND instance = %(instance)s
"""

_MY_SHARES = "SELECT job, item FROM nodes_workshare WHERE cluster = %(cluster)s AND node = %(node)s"

_DROP_MY_SHARES = "DELETE FROM nodes_workshare WHERE cluster = %(cluster)s AND node = %(node)s"

# Locks: rows of pools that differ, NO KEY UPDATE. Items are stored sorted, so equal pools are equal arrays.
_SET_POOL = """
INSERT INTO nodes_workpool AS pool (cluster, job, items) VALUES (%(cluster)s, %(job)s, %(items)s)
ON CONFLICT (cluster, job) DO UPDATE SET items = EXCLUDED.items WHERE pool.items <> EXCLUDED.items
"""

_POOL = "SELECT items FROM nodes_workpool WHERE cluster = %(cluster)s AND job = %(job)s"

# A member is lost if it is silent and the reader would have heard it (see the module). Silence is enough for a reader
# that is not a member.
_IS_GONE = """
clock_timestamp() - member.heartbeat_at > make_interval(secs => member.timeout_seconds)
AND coalesce((SELECT clock_timestamp() - me.steady_since >= make_interval(secs => member.timeout_seconds)
                FROM nodes_coordinationmember AS me
               WHERE me.cluster = %(cluster)s AND me.node = %(node)s AND me.instance = %(instance)s), true)
"""

_IS_MAIN_THERE = f"""
SELECT EXISTS (SELECT FROM nodes_coordinationcluster AS cluster
                 JOIN nodes_coordinationmember AS member
                   ON (member.cluster, member.node, member.instance) = (cluster.name, cluster.main, cluster.main_instance)
                WHERE cluster.name = %(cluster)s AND NOT ({_IS_GONE}))
"""

_LEADERSHIP = """
SELECT cluster.term, cluster.main, cluster.main_instance, cluster.pool_version, cluster.worker_version,
       cluster.assignment_version
  FROM nodes_coordinationcluster AS cluster WHERE cluster.name = %(cluster)s
"""

_MEMBERS = f"""
SELECT member.node, member.jobs, {_IS_GONE} AS is_gone
  FROM nodes_coordinationmember AS member WHERE member.cluster = %(cluster)s
"""

_POOLS = "SELECT job, items FROM nodes_workpool WHERE cluster = %(cluster)s"

_SHARES = "SELECT job, item, node FROM nodes_workshare WHERE cluster = %(cluster)s"

# Locks: the rows of lost members.
_FORGET_GONE = f"""
DELETE FROM nodes_coordinationmember AS member
 WHERE member.cluster = %(cluster)s AND member.node = ANY(%(gone)s) AND {_IS_GONE}
"""

# Locks: the shares that are dropped, or go to another node.
_DROP_SHARES = """
DELETE FROM nodes_workshare AS share USING unnest(%(jobs)s::text[], %(items)s::text[]) AS dropped (job, item)
 WHERE share.cluster = %(cluster)s AND share.job = dropped.job AND share.item = dropped.item
"""

_SET_SHARES = """
INSERT INTO nodes_workshare (cluster, job, item, node)
SELECT %(cluster)s, * FROM unnest(%(jobs)s::text[], %(items)s::text[], %(nodes)s::text[])
ON CONFLICT (cluster, job, item) DO UPDATE SET node = EXCLUDED.node
"""

_DROP_POOLS = "DELETE FROM nodes_workpool WHERE cluster = %(cluster)s AND job = ANY(%(jobs)s)"

# Locks: the lock's row. A second statement that waits for it checks the lease again afterwards. A released lock has no
# node, and keeps `paced_from`, from which the time to the item's next run counts. If the holder of the lock died, that
# time counts from the moment when it took the lock.
_ACQUIRE = """
INSERT INTO nodes_itemlock AS held (cluster, job, item, node, token, since, expires_at, note, host)
VALUES (%(cluster)s, %(job)s, %(item)s, %(node)s, %(token)s, clock_timestamp(), clock_timestamp() + %(lease)s, %(note)s,
        %(host)s)
ON CONFLICT (cluster, job, item) DO UPDATE
   SET node = EXCLUDED.node, token = EXCLUDED.token, since = EXCLUDED.since, note = EXCLUDED.note, host = EXCLUDED.host,
       expires_at = clock_timestamp() + %(lease)s,
       paced_from = CASE WHEN held.node = '' OR held.token = EXCLUDED.token THEN held.paced_from ELSE held.since END
 WHERE held.expires_at <= clock_timestamp() OR held.token = EXCLUDED.token
RETURNING since, clock_timestamp() - paced_from AS paced_ago
"""

_PROLONG = """
UPDATE nodes_itemlock SET expires_at = clock_timestamp() + %(lease)s
 WHERE cluster = %(cluster)s AND job = %(job)s AND item = %(item)s AND token = %(token)s
"""

_RELEASE = """
UPDATE nodes_itemlock
   SET node = '', token = '00000000-0000-0000-0000-000000000000', note = '', expires_at = clock_timestamp(),
       paced_from = coalesce(clock_timestamp() - %(paced_ago)s::interval, paced_from)
 WHERE cluster = %(cluster)s AND job = %(job)s AND item = %(item)s AND token = %(token)s
"""

# Locks: the rows of expired locks whose items no pool has.
_DROP_LOCKS = """
DELETE FROM nodes_itemlock AS lock
 WHERE lock.cluster = %(cluster)s AND lock.expires_at <= clock_timestamp()
   AND NOT EXISTS (SELECT FROM nodes_workpool AS pool
                    WHERE (pool.cluster, pool.job) = (lock.cluster, lock.job) AND lock.item = ANY(pool.items))
"""

_LOCKS = """
SELECT job, item, node, since, greatest(expires_at - clock_timestamp(), interval '0') AS remaining, note, host
  FROM nodes_itemlock WHERE cluster = %(cluster)s AND node <> '' AND (%(item)s::text IS NULL OR (job, item) = (%(job)s, %(item)s))
 ORDER BY job COLLATE "C", item COLLATE "C"
"""

# Longest wait for a notification, and pause before a new connection (seconds). A close waits at most for this time.
_LISTEN_TIMEOUT = 0.5


class _Versions(NamedTuple):
    pools: int
    workers: int
    assignments: int


class DatabaseCoordination(Participant):
    """The connection of one node to a cluster whose state is in PostgreSQL (the contract is `port.Coordination`)."""

    def __init__(
        self, *, dsn: Dsn, cluster: str, node: str, timeout: dt.timedelta, clock: Clock = seconds_since_boot
    ) -> None:
        """
        `timeout` is the silence after which other nodes consider this one lost.

        Raises:
            BadName: the name of the cluster or the node is invalid.
        """
        super().__init__(cluster=cluster, node=node, timeout=timeout, clock=clock)
        self._dsn = dsn
        self._who = {"cluster": cluster, "node": node, "instance": uuid4()}
        self._connection: ConnectionWithTimeouts[Any] | None = None
        self._closing = threading.Event()
        self._watching: threading.Thread | None = None

    def connect(self) -> None:
        with self._asking() as connection:
            connection.execute(_OPEN_CLUSTER, self._who)

    def close(self) -> None:
        self._closing.set()
        self._lose_membership()
        with self._lock:
            self._disconnect()
        if self._watching is not None:
            self._watching.join()

    # --- Membership ------------------------------------------------------------------------------

    def join(self, pools: Mapping[str, Collection[str]]) -> None:
        wanted = checked_pools(pools)
        began_at = self._clock()
        with self._asking() as connection, connection.transaction():
            connection.execute(_OPEN_CLUSTER, self._who)
            leadership = self._lock_cluster(connection)
            if leadership.main == self._node:
                connection.execute(_SET_MAIN, {**self._who, "term": leadership.term, "node": "", "instance": None})
            facts = {**self._who, "jobs": sorted(wanted), "timeout": self._timeout.total_seconds()}
            connection.execute(_JOIN, facts)
            connection.execute(_DROP_MY_SHARES, self._who)
            for job, items in sorted(wanted.items()):
                connection.execute(_SET_POOL, {**self._who, "job": job, "items": sorted(items)})
            self._count_up(connection, pools=1, workers=1)
        self._leadership = None
        self._trust.renew(began_at=began_at)

    def beat(self) -> None:
        began_at = self._clock()
        with self._asking() as connection:
            if connection.execute(_BEAT, self._who).rowcount == 0:
                raise self._not_a_member()
        self._trust.renew(began_at=began_at)

    def leave(self) -> None:
        self._lose_membership()
        with self._asking() as connection, connection.transaction():
            leadership = self._lock_cluster(connection)
            if connection.execute(_LEAVE, self._who).rowcount == 0:
                return
            connection.execute(_DROP_MY_SHARES, self._who)
            if leadership.main_instance == self._who["instance"]:
                connection.execute(_SET_MAIN, {**self._who, "term": leadership.term, "node": "", "instance": None})
            self._count_up(connection, workers=1)

    def change_pool(self, job: str, items: Collection[str]) -> bool:
        wanted = sorted(checked_pools({job: items})[job])
        with self._asking() as connection:
            if connection.execute(_POOL, {**self._who, "job": job}).fetchone() == (wanted,):
                return False
            with connection.transaction():
                self._lock_cluster(connection)
                mine = connection.execute(_MY_JOBS, self._who).fetchone()
                if mine is None or job not in mine.jobs:
                    raise self._not_a_member(job)
                changed = connection.execute(_SET_POOL, {**self._who, "job": job, "items": wanted}).rowcount > 0
                if changed:
                    self._count_up(connection, pools=1)
        return changed

    def mine(self) -> Mapping[str, frozenset[str]]:
        with self._asking() as connection, self._one_snapshot(connection):
            if connection.execute(_MY_JOBS, self._who).fetchone() is None:
                raise self._not_a_member()
            by_job: dict[str, set[str]] = {}
            for share in connection.execute(_MY_SHARES, self._who):
                by_job.setdefault(share.job, set()).add(share.item)
        return {job: frozenset(items) for job, items in by_job.items()}

    # --- The main node ---------------------------------------------------------------------------

    def campaign(self) -> Leadership | None:
        with self._asking() as connection:
            if connection.execute(_MY_JOBS, self._who).fetchone() is None:
                raise self._not_a_member()
            leadership = connection.execute(_LEADERSHIP, self._who).fetchone()
            if leadership is None or (
                leadership.main_instance != self._who["instance"] and not self._is_main_there(connection)
            ):
                with connection.transaction():
                    leadership = self._lock_cluster(connection)
                    if not self._is_main_there(connection):
                        leadership = leadership._replace(term=leadership.term + 1, main_instance=self._who["instance"])
                        connection.execute(_SET_MAIN, {**self._who, "term": leadership.term})
                        self._notify(connection)
        is_mine = leadership.main_instance == self._who["instance"]
        self._leadership = Leadership(main=self._node, term=leadership.term) if is_mine else None
        return self.leadership

    def resign(self) -> None:
        self._leadership = None
        with self._asking() as connection, connection.transaction():
            leadership = self._lock_cluster(connection)
            if leadership.main_instance == self._who["instance"]:
                connection.execute(_SET_MAIN, {**self._who, "term": leadership.term, "node": "", "instance": None})
                self._notify(connection)

    def read_state(self) -> ClusterState:
        with self._asking() as connection, self._one_snapshot(connection):
            leadership = connection.execute(_LEADERSHIP, self._who).fetchone()
            members = connection.execute(_MEMBERS, self._who).fetchall()
            pools = connection.execute(_POOLS, self._who).fetchall()
            shares = connection.execute(_SHARES, self._who).fetchall()
        if leadership is None:
            raise NoCluster(f"there is no cluster {self._who['cluster']!r} in this database")
        return ClusterState(
            members={member.node: frozenset(member.jobs) for member in members if not member.is_gone},
            gone=frozenset(member.node for member in members if member.is_gone),
            pools={pool.job: frozenset(pool.items) for pool in pools},
            shares={WorkItem(share.job, share.item): share.node for share in shares},
            main=leadership.main or None,
            term=leadership.term,
            versions=_versions(leadership),
        )

    def assign(self, shares: Shares, *, seen: ClusterState, leadership: Leadership) -> int:
        seen.refuse_nonmembers(shares)
        changed = {item: node for item, node in shares.items() if seen.shares.get(item) != node}
        dropped = seen.shares.keys() - shares.keys()
        if not changed and not dropped and not seen.gone:
            return 0
        with self._asking() as connection, connection.transaction():
            self._hold_leadership(connection, seen=seen, leadership=leadership)
            gone = {**self._who, "gone": sorted(seen.gone)}
            if connection.execute(_FORGET_GONE, gone).rowcount != len(seen.gone):
                raise Outdated("a silent member has sent a heartbeat again; nothing was written")
            connection.execute(_DROP_SHARES, {**self._who, **_columns(dropped)})
            connection.execute(_SET_SHARES, {**self._who, **_columns(changed), "nodes": list(changed.values())})
            self._count_up(connection, workers=1 if seen.gone else 0, assignments=1)
        return len(changed)

    def forget_idle(self, *, seen: ClusterState, leadership: Leadership) -> frozenset[str]:
        idle = seen.idle_jobs
        with self._asking() as connection:
            if idle:
                with connection.transaction():
                    self._hold_leadership(connection, seen=seen, leadership=leadership)
                    connection.execute(_DROP_POOLS, {**self._who, "jobs": sorted(idle)})
                    self._count_up(connection, pools=1)
            connection.execute(_DROP_LOCKS, self._who)
        return idle

    # --- Locks -----------------------------------------------------------------------------------

    def acquire(self, item: WorkItem, *, lease: dt.timedelta, note: str = "") -> ItemLock | LockSeen:
        with self._token_for(item) as token:
            return self._acquire(item, token, lease=lease, note=note)

    def _acquire(self, item: WorkItem, token: UUID, *, lease: dt.timedelta, note: str) -> ItemLock | LockSeen:
        facts = {**self._facts_of(item, token, lease=lease), "note": note, "host": socket.gethostname()}
        while True:
            began_at = self._clock()
            with self._asking() as connection:
                taken = connection.execute(_ACQUIRE, facts).fetchone()
                seen = None if taken else connection.execute(_LOCKS, facts).fetchone()
            if taken is not None:
                paced_from = None if taken.paced_ago is None else self._clock() - taken.paced_ago.total_seconds()
                return lock_held(
                    item,
                    token,
                    since=taken.since,
                    began_at=began_at,
                    lease=lease,
                    note=note,
                    paced_from=paced_from,
                )
            # If the lock was released between the two statements, it is free: try again.
            if seen is not None:
                return _lock_seen(seen)

    def acquire_all(self, items: Sequence[WorkItem], *, lease: dt.timedelta) -> Sequence[ItemLock] | LockSeen:
        taken: list[ItemLock] = []
        try:
            for item in items:
                one = self.acquire(item, lease=lease)
                if isinstance(one, LockSeen):
                    self.release_all(taken)
                    return one
                taken.append(one)
        except Unreachable:
            # A later request for one of these locks uses the same token, so that this node gets its own lock again.
            with self._lock:
                self._unanswered.update({lock.item: lock.token for lock in taken})
            raise
        return taken

    def prolong_all(self, locks: Sequence[ItemLock], *, lease: dt.timedelta) -> Sequence[ItemLock | None]:
        return [self.prolong(lock, lease=lease) for lock in locks]

    def release_all(self, locks: Sequence[ItemLock]) -> Sequence[bool]:
        return [self.release(lock) for lock in locks]

    def prolong(self, lock: ItemLock, *, lease: dt.timedelta) -> ItemLock | None:
        began_at = self._clock()
        with self._asking() as connection:
            if connection.execute(_PROLONG, self._facts_of(lock.item, lock.token, lease=lease)).rowcount == 0:
                return None
        return lock_held(lock.item, lock.token, since=lock.since, began_at=began_at, lease=lease, note=lock.note)

    def release(self, lock: ItemLock) -> bool:
        with self._asking() as connection:
            facts = {**self._facts_of(lock.item, lock.token), "paced_ago": lock.paced_ago(clock=self._clock)}
            return connection.execute(_RELEASE, facts).rowcount > 0

    def lock_of(self, item: WorkItem) -> LockSeen | None:
        with self._asking() as connection:
            row = connection.execute(_LOCKS, {**self._who, "job": item.job, "item": item.item}).fetchone()
        return None if row is None else _lock_seen(row)

    def locks(self) -> tuple[LockSeen, ...]:
        with self._asking() as connection:
            rows = connection.execute(_LOCKS, {**self._who, "job": None, "item": None}).fetchall()
        return tuple(_lock_seen(row) for row in rows)

    # --- Watches ---------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None]) -> None:
        self._watching = threading.Thread(target=self._listen, args=(wake,), name=f"watch of {self._node}", daemon=True)
        self._watching.start()

    def _listen(self, wake: Callable[[], None]) -> None:
        while not self._closing.is_set():
            try:
                with self._connect("watch") as connection:
                    connection.execute(f"LISTEN {CHANNEL}")
                    # Notifications sent while no connection listened are not repeated.
                    wake()
                    while not self._closing.is_set():
                        # Exhaust the generator: one that is left in the middle keeps the connection's lock, which also
                        # blocks its close.
                        arrived = list(connection.notifies(timeout=_LISTEN_TIMEOUT, stop_after=1))
                        if any(notification.payload == self._who["cluster"] for notification in arrived):
                            wake()
            except psycopg.Error as error:
                logger.warning("node %s cannot watch its cluster: %s", self._node, error)
                self._closing.wait(_LISTEN_TIMEOUT)

    # --- Steps shared by the functions above -----------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        """Yield the connection for one operation. Translate errors of the database into errors of the contract."""
        with self._lock:
            try:
                if self._connection is None or self._connection.closed:
                    self._connection = self._connect("coordination")
                yield self._connection
            except (psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege) as error:
                raise Refused(f"the database cannot be used for coordination: {error}") from error
            except psycopg.Error as error:
                self._disconnect()
                raise Unreachable(f"the database did not answer: {error}") from error

    def _connect(self, purpose: str) -> ConnectionWithTimeouts[Any]:
        patience = self._timeout.total_seconds()
        connection = connect(
            self._dsn,
            node_id=self._node,
            purpose=purpose,
            timeout=self._timeout,
            gives_up=lambda waited: waited > patience,
        )
        connection.row_factory = namedtuple_row
        return connection

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None

    @contextmanager
    def _one_snapshot(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Open a transaction whose statements all see the same snapshot."""
        with connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
            yield

    def _lock_cluster(self, connection: psycopg.Connection[Any]) -> Any:
        leadership = connection.execute(_LOCK_CLUSTER, self._who).fetchone()
        if leadership is None:
            raise NoCluster(f"there is no cluster {self._who['cluster']!r} in this database")
        return leadership

    def _hold_leadership(
        self, connection: psycopg.Connection[Any], *, seen: ClusterState, leadership: Leadership
    ) -> None:
        stored = self._lock_cluster(connection)
        if stored.main_instance != self._who["instance"] or stored.term != leadership.term:
            raise NotMain(
                f"term {leadership.term} has ended: the main node of term {stored.term} is {stored.main or 'not elected yet'}"
            )
        if _versions(stored) != seen.versions:
            raise Outdated("members, pools or shares have changed since they were read; nothing was written")

    def _count_up(
        self, connection: psycopg.Connection[Any], *, pools: int = 0, workers: int = 0, assignments: int = 0
    ) -> None:
        facts = {**self._who, "pools": pools, "workers": workers, "assignments": assignments}
        connection.execute(_COUNT_UP, facts)
        self._notify(connection)

    def _notify(self, connection: psycopg.Connection[Any]) -> None:
        """
        Wake the watching nodes at the commit. Such changes are rare, so the lock of notifications delays no
        transaction.
        """
        connection.execute("SELECT pg_notify(%s, %s)", [CHANNEL, self._who["cluster"]])

    def _is_main_there(self, connection: psycopg.Connection[Any]) -> bool:
        row = connection.execute(_IS_MAIN_THERE, self._who).fetchone()
        return row is not None and bool(row[0])

    def _facts_of(self, item: WorkItem, token: UUID, *, lease: dt.timedelta = dt.timedelta()) -> dict[str, object]:
        return {**self._who, "job": item.job, "item": item.item, "token": token, "lease": lease}


class DatabaseTermBound:
    """
    The lower bound of a cluster's terms in PostgreSQL, for a store that could lose them (the contract is
    `port.TermBound`).
    """

    def __init__(self, *, dsn: Dsn, cluster: str, node: str, timeout: dt.timedelta) -> None:
        self._who = {"cluster": checked("cluster", cluster)}
        self._dsn, self._node, self._timeout = dsn, node, timeout

    def identity(self) -> str:
        with self._asking() as connection:
            connection.execute(_OPEN_CLUSTER, self._who)
            query = "SELECT identity FROM nodes_coordinationcluster WHERE name = %(cluster)s"
            (found,) = connection.execute(query, self._who).fetchone() or ("",)
        return str(found)

    def read(self) -> int:
        with self._asking() as connection:
            row = connection.execute("SELECT term FROM nodes_coordinationcluster WHERE name = %(cluster)s", self._who)
            found = row.fetchone()
        return 0 if found is None else int(found[0])

    def note(self, term: int) -> bool:
        with self._asking() as connection:
            connection.execute(_OPEN_CLUSTER, self._who)
            higher = "UPDATE nodes_coordinationcluster SET term = %(term)s WHERE name = %(cluster)s AND term < %(term)s"
            return connection.execute(higher, {**self._who, "term": term}).rowcount > 0

    @contextmanager
    def _asking(self) -> Iterator[psycopg.Connection[Any]]:
        # Elections are rare, so no connection stays open for them.
        try:
            with connect(self._dsn, node_id=self._node, purpose="term bound", timeout=self._timeout) as connection:
                yield connection
        except psycopg.Error as error:
            raise Unreachable(f"the database did not answer: {error}") from error


def _versions(leadership: Any) -> _Versions:
    return _Versions(leadership.pool_version, leadership.worker_version, leadership.assignment_version)


def _columns(items: Collection[WorkItem]) -> dict[str, list[str]]:
    return {"jobs": [item.job for item in items], "items": [item.item for item in items]}


def _lock_seen(row: Any) -> LockSeen:
    return LockSeen(
        item=WorkItem(row.job, row.item),
        holder=row.node,
        since=row.since,
        remaining=row.remaining,
        note=row.note,
        host=row.host,
    )
