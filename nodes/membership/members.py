"""
Membership of the cluster: every write to the tables of nodes, and the read on which decisions rest.

`nodes.decisions` decides from a snapshot, which may be out of date when the decision is applied. So each write here is
guarded by the facts of the snapshot: it takes its locks first, reads again, and changes nothing if the facts have
changed. All functions take a plain psycopg connection in autocommit and outside any transaction. Times are the
database's.

Lock order: MainTerm, Node. A node's status becomes final only under FOR UPDATE of its row, taken in a statement
*before* the UPDATE. The UPDATE alone takes FOR NO KEY UPDATE, which does not conflict with the KEY SHARE of the node
fence: a write of the failed node could still commit after it.
"""

import datetime as dt
import logging
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, LiteralString, NamedTuple
from uuid import UUID

import psycopg
from psycopg.rows import class_row, dict_row
from psycopg.types.json import Jsonb

from nodes.decisions.judge import PATIENCE, MarkFailed
from nodes.decisions.snapshot import ClusterSeen, NodeSeen, TermSeen
from nodes.life.identity import NodeIdentity, is_process_gone
from nodes.lifecycle import CLUSTER_SCOPE, LIVE_STATUSES, NodeKind, NodeStatus, sources_of
from nodes.membership.fences import TermHeld, hold_node, hold_term
from nodes.membership.incarnation import IS_AS_REMEMBERED, remember, remembered, why_refused
from nodes.membership.journal import record

logger = logging.getLogger(__name__)

_LIVE = sorted(LIVE_STATUSES)


# --- The life of one node --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """
    The answer of the database to a heartbeat.

    `status` is None if the database has no row of the node. `main_id` is None while the scope has no main manager.
    `settings_version` is the newest version of the stored settings. `refusal` is the reason why the beat was not
    counted.
    """

    at: dt.datetime
    status: NodeStatus | None
    term: int
    main_id: UUID | None
    settings_version: int = 0
    refusal: str = ""

    @property
    def is_fit(self) -> bool:
        """True if the node is still a member and the beat was counted."""
        return self.status in LIVE_STATUSES and not self.refusal


# Locks: only the row of a new scope, for which no other transaction waits. The scope's row is inserted with its first
# node, so that an election always has a row to lock.
_OPEN_SCOPE = """
INSERT INTO nodes_mainterm (scope, since) VALUES (%(scope)s, clock_timestamp()) ON CONFLICT (scope) DO NOTHING
"""

_REGISTER = """
INSERT INTO nodes_node (id, kind, scope, name, tags, status, started_at, heartbeat_at, timeout_seconds, capacity,
                        host, boot_id, pid_namespace, pid, process_start, address)
VALUES (%(id)s, %(kind)s, %(scope)s, %(name)s, %(tags)s, 'starting', clock_timestamp(), clock_timestamp(), %(timeout)s,
        %(capacity)s, %(host)s, %(boot_id)s, %(pid_namespace)s, %(pid)s, %(process_start)s, %(address)s)
"""


def register(connection: psycopg.Connection[Any], *, identity: NodeIdentity) -> None:
    """
    Register a new node, as starting.

    Raises:
        psycopg.errors.UniqueViolation: a node of this id is or was registered. It stays unchanged.
    """
    with connection.transaction():
        connection.execute(_OPEN_SCOPE, {"scope": identity.scope})
        connection.execute(
            _REGISTER,
            {
                "id": identity.id,
                "kind": identity.kind.value,
                "scope": identity.scope,
                "name": identity.name,
                "tags": list(identity.tags),
                "timeout": identity.timeout.total_seconds(),
                "capacity": identity.capacity,
                "host": identity.host,
                "boot_id": identity.boot_id,
                "pid_namespace": identity.pid_namespace,
                "pid": identity.pid,
                "process_start": identity.process_start,
                "address": identity.address,
            },
        )
        record(
            connection,
            node_id=identity.id,
            scope=identity.scope,
            kind="registered",
            message=f"{identity.kind} {identity.name} registered",
            detail={"host": identity.host, "pid": identity.pid},
        )


def join(connection: psycopg.Connection[Any], *, identity: NodeIdentity) -> None:
    """
    Register a new node and let it work.

    Call this again when the connection broke. A call that was committed without an answer is not repeated.
    """
    # The id is new with every start, so the row under it is this node's own.
    with suppress(psycopg.errors.UniqueViolation):
        register(connection, identity=identity)
    begin_work(connection, node_id=identity.id)
    row = _row(connection, "SELECT nodes_incarnation() AS incarnation", {})
    assert row is not None
    remember(identity.id, beats=0, incarnation=row["incarnation"])


# Locks: the node's row NO KEY UPDATE, in a transaction of its own. It waits for a transaction that marks the node
# failed, and then updates nothing, because the status is checked again after the wait. A database that went back in
# time gets no beat.
_BEAT: LiteralString = f"""
WITH beaten AS (
    UPDATE nodes_node SET heartbeat_at = clock_timestamp(), progress = %(progress)s, beats = beats + 1
     WHERE id = %(node_id)s AND status IN ('starting', 'running', 'draining') AND {IS_AS_REMEMBERED}
 RETURNING status, scope, beats
)
SELECT beaten.status, beaten.beats, nodes_incarnation() AS incarnation, clock_timestamp() AS at, term.term,
       CASE WHEN NOT term.resigned THEN term.main_id END AS main_id,
       coalesce((SELECT max(version) FROM nodes_settingsversion), 0) AS settings_version
  FROM beaten JOIN nodes_mainterm AS term ON term.scope = beaten.scope
"""

# Only for a beat that updated nothing. It is a statement of its own, because the SELECT above would still read the row
# as it was before the wait.
_LOOK_AT_MYSELF = """
SELECT node.status, node.beats, nodes_incarnation() AS incarnation, clock_timestamp() AS at,
       coalesce(term.term, 0) AS term,
       CASE WHEN NOT term.resigned THEN term.main_id END AS main_id, 0 AS settings_version
  FROM (SELECT 1) AS always
  LEFT JOIN nodes_node AS node ON node.id = %(node_id)s
  LEFT JOIN nodes_mainterm AS term ON term.scope = node.scope
"""


def beat(connection: psycopg.Connection[Any], *, node_id: UUID, progress: Mapping[str, object]) -> Beat:
    """Record a beat of the node and its progress. Return the status of the node and of its scope."""
    row = _row(connection, _BEAT, {"node_id": node_id, "progress": Jsonb(dict(progress)), **remembered(node_id)})
    refusal = ""
    if row is None:
        row = _row(connection, _LOOK_AT_MYSELF, {"node_id": node_id})
        assert row is not None
        refusal = why_refused(node_id, row)
    else:
        remember(node_id, beats=row["beats"], incarnation=row["incarnation"])
    status = None if row["status"] is None else NodeStatus(row["status"])
    return Beat(
        at=row["at"],
        status=status,
        term=row["term"],
        main_id=row["main_id"],
        settings_version=row["settings_version"],
        refusal=refusal,
    )


# Locks: the node's row NO KEY UPDATE. For transitions between live states, after which writes continue.
_MOVE = """
UPDATE nodes_node SET status = %(target)s, reason = %(reason)s
 WHERE id = %(node_id)s AND status = ANY(%(sources)s)
RETURNING scope, kind, name
"""


def begin_work(connection: psycopg.Connection[Any], *, node_id: UUID) -> bool:
    """Let a starting node work: from now on it passes the node fence. Return True if it was starting."""
    return _move(connection, node_id=node_id, cause="begin_work", target=NodeStatus.RUNNING)


def begin_draining(connection: psycopg.Connection[Any], *, node_id: UUID, reason: str) -> bool:
    """Let the node finish what it has begun and take nothing new. Return True if its state allowed that."""
    return _move(connection, node_id=node_id, cause="begin_draining", target=NodeStatus.DRAINING, reason=reason)


def stop(connection: psycopg.Connection[Any], *, node_id: UUID, reason: str) -> bool:
    """
    End the node in good order. A main manager gives up its leadership with it. Return False if the node had ended
    already.

    The caller must have released all claims of the node: the fence refuses its next write.
    """
    with connection.transaction():
        offices = _offices_of(connection, node_id=node_id)
        node = _lock_node(connection, node_id=node_id)
        if node is None or node.status not in sources_of("stop"):
            return False
        for office in offices:
            _give_up_office(connection, office=office)
        _end_node(connection, node=node, status=NodeStatus.STOPPED, reason=reason)
    return True


def _move(
    connection: psycopg.Connection[Any], *, node_id: UUID, cause: str, target: NodeStatus, reason: str = ""
) -> bool:
    sources = [status.value for status in sources_of(cause)]
    with connection.transaction():
        node = _row(
            connection, _MOVE, {"node_id": node_id, "sources": sources, "target": target.value, "reason": reason}
        )
        if node is None:
            return False
        message = f"{node['kind']} {node['name']} is {target}" + (f": {reason}" if reason else "")
        record(connection, node_id=node_id, scope=node["scope"], kind=target.value, message=message)
    return True


# --- The main manager and its term -------------------------------------------------------------------

# A term and a final status must survive a crash of the server, even if the server need not keep every commit.
_BE_DURABLE = "SELECT set_config('synchronous_commit', 'on', true) WHERE current_setting('synchronous_commit') = 'off'"

# Locks: the scope's MainTerm NO KEY UPDATE. It waits for every transaction that holds the term fence. If two candidates
# saw the same term, the second waits here, checks the term again and finds no row.
_LOCK_TERM_SEEN = """
SELECT main_id, resigned FROM nodes_mainterm WHERE scope = %(scope)s AND term = %(seen_term)s FOR NO KEY UPDATE
"""

# Locks: held already by the statement above.
_TAKE_OFFICE = """
UPDATE nodes_mainterm SET main_id = %(node_id)s, term = term + 1, since = clock_timestamp(), resigned = false
 WHERE scope = %(scope)s
RETURNING term
"""


def elect(
    connection: psycopg.Connection[Any],
    *,
    node_id: UUID,
    scope: str,
    seen_term: int,
    replaces: MarkFailed | None = None,
) -> TermHeld | None:
    """
    Make the node main manager of the scope, with the next term. Return None if the facts have changed since the
    snapshot.

    A recorded main manager that has neither resigned nor ended must be named by `replaces`. It is marked failed in the
    same transaction, so that two main managers never pass their fences at the same time.

    Raises:
        FenceRefused: the node itself is no longer a member.
    """
    if replaces is not None:
        _end_sessions(connection, verdict=replaces, scope=scope, term=seen_term)
    with connection.transaction():
        connection.execute(_BE_DURABLE)
        seen = _row(connection, _LOCK_TERM_SEEN, {"scope": scope, "seen_term": seen_term})
        if seen is None:
            return None
        has_main = seen["main_id"] is not None and not seen["resigned"]
        if has_main and not _remove_main(connection, main_id=seen["main_id"], verdict=replaces):
            return None
        hold_node(connection, node_id)
        taken = _row(connection, _TAKE_OFFICE, {"scope": scope, "node_id": node_id})
        assert taken is not None
        record(
            connection,
            node_id=node_id,
            scope=scope,
            kind="elected",
            message=f"main of {scope} in term {taken['term']}",
            detail={"term": taken["term"], "after": None if seen["main_id"] is None else str(seen["main_id"])},
        )
    return TermHeld(scope=scope, term=taken["term"], main_id=node_id)


def resign(connection: psycopg.Connection[Any], *, term: TermHeld) -> bool:
    """
    Give up the leadership, so that the next main manager need not wait for a timeout. Return True if it was still held.
    """
    with connection.transaction():
        return _give_up_office(connection, office=term)


def mark_failed(connection: psycopg.Connection[Any], *, verdict: MarkFailed, term: TermHeld) -> bool:
    """
    Mark a node failed permanently. Return False if it has already ended, or has beaten meanwhile.

    After the commit no write of the node passes its fence, and no write that passed it before is still running. The
    work of the node can be given to other nodes.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    _end_sessions(connection, verdict=verdict, scope=term.scope, term=term.term)
    with connection.transaction():
        connection.execute(_BE_DURABLE)
        hold_term(connection, term)
        return _fail(connection, verdict=verdict)


def drain(connection: psycopg.Connection[Any], *, node_id: UUID, term: TermHeld, reason: str) -> bool:
    """
    Let a node finish what it has begun, take nothing new, and stop. Return True if it was running until now.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    with connection.transaction():
        hold_term(connection, term)
        return _move(connection, node_id=node_id, cause="drain", target=NodeStatus.DRAINING, reason=reason)


def _remove_main(connection: psycopg.Connection[Any], *, main_id: UUID, verdict: MarkFailed | None) -> bool:
    """Mark the recorded main manager failed, if it has not ended. Return True if it no longer leads."""
    if verdict is not None and verdict.node_id == main_id and _fail(connection, verdict=verdict):
        return True
    node = _lock_node(connection, node_id=main_id)
    return node is None or node.status not in LIVE_STATUSES


def _fail(connection: psycopg.Connection[Any], *, verdict: MarkFailed) -> bool:
    offices = _offices_of(connection, node_id=verdict.node_id)
    node = _lock_node(connection, node_id=verdict.node_id)
    if node is None or node.status not in sources_of("mark_failed"):
        return False
    if node.silence <= PATIENCE[verdict.cause]:
        return False
    # If the main manager of the cluster fails the main manager of a one-shot scope, the term of that scope ends with
    # it. Otherwise the failed process could wake and write as main manager, because its scope has elected no other.
    for office in offices:
        connection.execute(_VACATE, {"scope": office.scope})
    _end_node(connection, node=node, status=NodeStatus.FAILED, reason=verdict.reason)
    return True


# --- Reading -----------------------------------------------------------------------------------------

# One statement, so that all ages refer to one moment. The scope `%(scope)s` may not have a row yet.
_LOOK = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT clock.now, term.term, term.main_id, term.since, term.resigned,
       node.id, node.kind, node.scope, node.status, node.started_at, node.timeout_seconds,
       extract(epoch FROM clock.now - node.heartbeat_at)::float8 AS heartbeat_age,
       node.boot_id, node.pid_namespace, node.pid, node.process_start
  FROM clock
  LEFT JOIN nodes_mainterm AS term ON term.scope = %(scope)s
  LEFT JOIN nodes_node AS node
         ON (node.scope = term.scope AND node.status IN ('starting', 'running', 'draining')) OR node.id = term.main_id
 ORDER BY node.started_at, node.id
"""

# All nodes with a live status outside the scope that all daemons share.
_LOOK_AT_ONE_SHOTS = """
WITH clock AS MATERIALIZED (SELECT clock_timestamp() AS now)
SELECT node.id, node.kind, node.scope, node.status, node.started_at, node.timeout_seconds,
       extract(epoch FROM clock.now - node.heartbeat_at)::float8 AS heartbeat_age,
       node.boot_id, node.pid_namespace, node.pid, node.process_start
  FROM clock, nodes_node AS node
 WHERE node.scope <> %(cluster)s AND node.status IN ('starting', 'running', 'draining')
 ORDER BY node.started_at, node.id
"""


def look(
    connection: psycopg.Connection[Any], *, scope: str, me: NodeIdentity, present: Collection[str] | None = None
) -> ClusterSeen:
    """
    Return the scope as it is now, with what `me` can see of the processes on its own machine.

    `present` are the ids of the nodes that are members in the store of coordination; None if that is unknown.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_LOOK, {"scope": scope}).fetchall()
    first = rows[0]
    return ClusterSeen(
        looked_at=first["now"],
        me=me.id,
        scope=scope,
        term=TermSeen(
            term=first["term"] or 0,
            main_id=first["main_id"],
            since=first["since"] or first["now"],
            resigned=bool(first["resigned"]),
        ),
        nodes=tuple(_node_seen(row, me=me, present=present) for row in rows if row["id"] is not None),
    )


def look_at_orphaned_scopes(connection: psycopg.Connection[Any], *, me: NodeIdentity) -> tuple[NodeSeen, ...]:
    """
    Return the live nodes of one-shot scopes in which no manager lives.

    They have no main manager that could judge them, so the main manager of the cluster does.
    """
    with connection.cursor(row_factory=dict_row) as cursor:
        rows = cursor.execute(_LOOK_AT_ONE_SHOTS, {"cluster": CLUSTER_SCOPE}).fetchall()
    by_scope: dict[str, list[NodeSeen]] = defaultdict(list)
    for row in rows:
        by_scope[row["scope"]].append(_node_seen(row, me=me))
    return tuple(node for nodes in by_scope.values() if not _has_live_manager(nodes) for node in nodes)


def _has_live_manager(nodes: Iterable[NodeSeen]) -> bool:
    return any(node.kind == NodeKind.MANAGER and node.is_live for node in nodes)


def _node_seen(row: Mapping[str, Any], *, me: NodeIdentity, present: Collection[str] | None = None) -> NodeSeen:
    is_visible = me.shares_processes_with(boot_id=row["boot_id"], pid_namespace=row["pid_namespace"])
    return NodeSeen(
        id=row["id"],
        kind=NodeKind(row["kind"]),
        scope=row["scope"],
        status=NodeStatus(row["status"]),
        started_at=row["started_at"],
        heartbeat_age=dt.timedelta(seconds=row["heartbeat_age"]),
        timeout=dt.timedelta(seconds=row["timeout_seconds"]),
        same_machine_process_gone=is_visible and is_process_gone(pid=row["pid"], process_start=row["process_start"]),
        is_absent=present is not None and str(row["id"]) not in present,
    )


# --- Steps shared by the functions above -------------------------------------------------------------

# Locks: the MainTerm rows that name the node as main manager, NO KEY UPDATE, ordered by scope.
_OFFICES_OF = """
SELECT scope, term, main_id FROM nodes_mainterm
 WHERE main_id = %(node_id)s AND NOT resigned
 ORDER BY scope FOR NO KEY UPDATE
"""

# Locks: the scope's MainTerm NO KEY UPDATE. It waits for the main manager's own transactions.
_GIVE_UP_OFFICE = """
UPDATE nodes_mainterm SET resigned = true, since = clock_timestamp()
 WHERE scope = %(scope)s AND term = %(term)s AND main_id = %(main_id)s AND NOT resigned
RETURNING term
"""

# Locks: held already, by `_OFFICES_OF`.
_VACATE = "UPDATE nodes_mainterm SET main_id = NULL, since = clock_timestamp() WHERE scope = %(scope)s"

# Locks: the node's row UPDATE. It waits for every transaction that holds its fence.
_LOCK_NODE = """
SELECT id, kind, name, scope, status,
       extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 / timeout_seconds AS silence
  FROM nodes_node WHERE id = %(node_id)s FOR UPDATE
"""

# Locks: held already by the statement above.
_END_NODE = """
UPDATE nodes_node SET status = %(status)s, reason = %(reason)s, stopped_at = clock_timestamp() WHERE id = %(node_id)s
"""

# Locks: none. It checks the conditions of the write that follows, without locks: a main manager that was replaced, or
# that is mistaken about a silence, must not end the sessions of a healthy node.
_END_SESSIONS = """
SELECT pg_terminate_backend(session.pid)
  FROM pg_stat_activity AS session
 WHERE session.datname = current_database()
   AND starts_with(session.application_name, %(name)s)
   AND EXISTS (SELECT FROM nodes_mainterm WHERE scope = %(scope)s AND term = %(term)s)
   AND EXISTS (SELECT FROM nodes_node
                WHERE id = %(node_id)s AND status IN ('starting', 'running', 'draining')
                  AND extract(epoch FROM clock_timestamp() - heartbeat_at)::float8 / timeout_seconds > %(patience)s)
"""


class _LockedNode(NamedTuple):
    # Status and kind are the strings of the database, which compare equal to those of `nodes.lifecycle`. The silence is
    # in timeouts.
    id: UUID
    kind: str
    name: str
    scope: str
    status: str
    silence: float


def _offices_of(connection: psycopg.Connection[Any], *, node_id: UUID) -> list[TermHeld]:
    """Lock and return the terms in which the node is main manager: mostly none, seldom more than one."""
    with connection.cursor(row_factory=class_row(TermHeld)) as cursor:
        return cursor.execute(_OFFICES_OF, {"node_id": node_id}).fetchall()


def _give_up_office(connection: psycopg.Connection[Any], *, office: TermHeld) -> bool:
    facts = {"scope": office.scope, "term": office.term, "main_id": office.main_id}
    if _row(connection, _GIVE_UP_OFFICE, facts) is None:
        return False
    record(
        connection,
        node_id=office.main_id,
        scope=office.scope,
        kind="resigned",
        message=f"the main of {office.scope} resigned in term {office.term}",
        detail={"term": office.term},
    )
    return True


def _lock_node(connection: psycopg.Connection[Any], *, node_id: UUID) -> _LockedNode | None:
    with connection.cursor(row_factory=class_row(_LockedNode)) as cursor:
        return cursor.execute(_LOCK_NODE, {"node_id": node_id}).fetchone()


def _end_node(connection: psycopg.Connection[Any], *, node: _LockedNode, status: NodeStatus, reason: str) -> None:
    connection.execute(_END_NODE, {"node_id": node.id, "status": status.value, "reason": reason})
    kind = "marked_failed" if status == NodeStatus.FAILED else "stopped"
    record(
        connection,
        node_id=node.id,
        scope=node.scope,
        kind=kind,
        message=f"{node.kind} {node.name} is {status}: {reason}",
    )


def _end_sessions(connection: psycopg.Connection[Any], *, verdict: MarkFailed, scope: str, term: int) -> None:
    """
    End the database sessions of a node before it is marked failed, as far as the database permits.

    A frozen process may have an open transaction that holds its fence. The mark would have to wait until the server
    ends that transaction.
    """
    try:
        connection.execute(
            _END_SESSIONS,
            {
                "name": str(verdict.node_id),
                "node_id": verdict.node_id,
                "patience": PATIENCE[verdict.cause],
                "scope": scope,
                "term": term,
            },
        )
    except psycopg.errors.InsufficientPrivilege as error:
        logger.info("may not end the sessions of node %s: %s", verdict.node_id, error)


def _row(connection: psycopg.Connection[Any], query: str, parameters: Mapping[str, object]) -> dict[str, Any] | None:
    """Return the first row as a dict, whatever the connection's own row factory; None without a row."""
    with connection.cursor(row_factory=dict_row) as cursor:
        return cursor.execute(query, parameters).fetchone()
