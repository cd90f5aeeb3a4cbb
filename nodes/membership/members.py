"""
The life of one node as a member of the cluster: it registers, beats, works, drains and stops.

All functions of this package take a plain psycopg connection in autocommit and outside any transaction. Times are the
database's.
"""

import datetime as dt
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, Final, LiteralString
from uuid import UUID

import psycopg
from psycopg.types.json import Jsonb

from nodes.life.identity import NodeIdentity, has_ended_here
from nodes.lifecycle import LIVE_STATUSES, NodeStatus, sources_of
from nodes.membership.clock_jumps import notice_jump
from nodes.membership.incarnation import IS_AS_REMEMBERED, remember, remembered, why_refused
from nodes.membership.journal import record
from nodes.membership.restores import notice_restore
from nodes.membership.rows import end_node, first_row, give_up_term, lock_node, lock_terms, move
from nodes.membership.silent_periods import RECORD_AT_BEAT_OF_NODE

# Silence of a main manager after which managers check for an election (in timeouts). A beat is at most half a timeout
# later, so the first check comes before the whole timeout has passed.
_SILENT_FOR: Final = 0.5

# Conditions in SQL by name, which a node reads with each beat. `beaten` is the node's row: id, scope, tags and host.
Asks = Mapping[str, LiteralString]


@dataclass(frozen=True, slots=True, kw_only=True)
class MainSeen:
    """
    The main manager as another node sees it at a beat: its silence (in timeouts), and its process.

    With these facts, a node can check whether its scope needs an election, without reading other rows of nodes.
    """

    silence: float
    has_ended: bool
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: int

    def seems_lost(self) -> bool:
        """True if the main manager has ended, is silent for half its timeout, or no longer runs on this machine."""
        return (
            self.has_ended
            or self.silence > _SILENT_FOR
            or has_ended_here(
                boot_id=self.boot_id,
                pid_namespace=self.pid_namespace,
                pid=self.pid,
                process_start=self.process_start,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Beat:
    """
    The answer of the database to a heartbeat.

    `status` is None if the database has no row of the node. `main_id` is None while the scope has no main manager, and
    `main` is that manager as the database sees it. `settings_version` is the newest version of the stored settings.
    `answers` are the names of the conditions that are true. `refusal` is the reason why the beat was not counted.
    """

    at: dt.datetime
    status: NodeStatus | None
    term: int
    main_id: UUID | None
    main: MainSeen | None = None
    settings_version: int = 0
    answers: frozenset[str] = frozenset()
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

    The first registration after a restore ends all earlier nodes. The first registration after a jump of the clock
    corrects moments.

    Raises:
        psycopg.errors.UniqueViolation: a node of this id is or was registered. It stays unchanged.
    """
    with connection.transaction():
        notice_restore(connection)
        notice_jump(connection)
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

    Call this again after a lost connection. A second call does not register the node again.
    """
    # The id is new with every start, so the row under it is this node's own.
    with suppress(psycopg.errors.UniqueViolation):
        register(connection, identity=identity)
    begin_work(connection, node_id=identity.id)
    row = first_row(connection, "SELECT nodes_incarnation() AS incarnation", {})
    assert row is not None
    remember(identity.id, beats=0, incarnation=row["incarnation"])


# Locks: the node's row NO KEY UPDATE, in a separate transaction. The statement waits for a transaction that marks the
# node failed, and then updates nothing, because the status is checked again after the wait. A database that went back
# in time gets no beat. This one statement also reads everything else that an idle node needs regularly, because a
# thousand nodes may execute it.
_BEAT: Final[LiteralString] = f"""
WITH beaten AS (
    UPDATE nodes_node SET heartbeat_at = clock_timestamp(), progress = %(progress)s, beats = beats + 1
     WHERE id = %(node_id)s AND status IN ('starting', 'running', 'draining') AND {IS_AS_REMEMBERED}
 RETURNING id, status, scope, beats, tags, host
), noted AS ({RECORD_AT_BEAT_OF_NODE})
SELECT beaten.status, beaten.beats, nodes_incarnation() AS incarnation, clock_timestamp() AS at, term.term,
       CASE WHEN NOT term.resigned THEN term.main_id END AS main_id,
       extract(epoch FROM clock_timestamp() - main.heartbeat_at)::float8 / main.timeout_seconds AS main_silence,
       main.status AS main_status, main.boot_id, main.pid_namespace, main.pid, main.process_start,
       coalesce((SELECT max(version) FROM nodes_settingsversion), 0) AS settings_version,
       {{answers}} AS answers
  FROM beaten JOIN nodes_mainterm AS term ON term.scope = beaten.scope
  LEFT JOIN nodes_node AS main ON main.id = term.main_id
"""

ASKS_NOTHING: Final[Asks] = MappingProxyType({})

# Only for a beat that updated nothing. It is a separate statement, because the SELECT above would still read the row
# as it was before the wait.
_LOOK_AT_MYSELF = """
SELECT node.status, node.beats, nodes_incarnation() AS incarnation, clock_timestamp() AS at,
       coalesce(term.term, 0) AS term,
       CASE WHEN NOT term.resigned THEN term.main_id END AS main_id, 0 AS settings_version
  FROM (SELECT 1) AS always
  LEFT JOIN nodes_node AS node ON node.id = %(node_id)s
  LEFT JOIN nodes_mainterm AS term ON term.scope = node.scope
"""


def beat(
    connection: psycopg.Connection[Any], *, node_id: UUID, progress: Mapping[str, object], asks: Asks = ASKS_NOTHING
) -> Beat:
    """Record a beat of the node and its progress. Return the status of the node and of its scope, and the answers."""
    facts = {"node_id": node_id, "progress": Jsonb(dict(progress)), **remembered(node_id)}
    row = first_row(connection, _beat_with(tuple(asks.values())), facts)
    refusal = ""
    if row is None:
        row = first_row(connection, _LOOK_AT_MYSELF, {"node_id": node_id})
        assert row is not None
        refusal = why_refused(node_id, row)
    else:
        remember(node_id, beats=row["beats"], incarnation=row["incarnation"])
    return Beat(
        at=row["at"],
        status=None if row["status"] is None else NodeStatus(row["status"]),
        term=row["term"],
        main_id=row["main_id"],
        main=_main_seen(row),
        settings_version=row["settings_version"],
        answers=frozenset(name for name, is_true in zip(asks, row.get("answers", ()), strict=False) if is_true),
        refusal=refusal,
    )


@cache
def _beat_with(conditions: tuple[LiteralString, ...]) -> LiteralString:
    """Return the statement of a beat that reads these conditions."""
    return _BEAT.replace("{answers}", "ARRAY[" + ", ".join([f"({one})" for one in conditions]) + "]::boolean[]")


def _main_seen(row: Mapping[str, Any]) -> MainSeen | None:
    if row["main_id"] is None or row.get("main_status") is None:
        return None
    return MainSeen(
        silence=row["main_silence"],
        has_ended=row["main_status"] not in LIVE_STATUSES,
        boot_id=row["boot_id"],
        pid_namespace=row["pid_namespace"],
        pid=row["pid"],
        process_start=row["process_start"],
    )


def begin_work(connection: psycopg.Connection[Any], *, node_id: UUID) -> bool:
    """Let a starting node work: from now on it passes the node fence. Return True if it was starting."""
    return move(connection, node_id=node_id, cause="begin_work", target=NodeStatus.RUNNING)


def begin_draining(connection: psycopg.Connection[Any], *, node_id: UUID, reason: str) -> bool:
    """Let the node finish what it has begun and take nothing new. Return True if its state allowed that."""
    return move(connection, node_id=node_id, cause="begin_draining", target=NodeStatus.DRAINING, reason=reason)


def stop(connection: psycopg.Connection[Any], *, node_id: UUID, reason: str) -> bool:
    """
    End the node in good order. A main manager gives up its leadership with it. Return False if the node had ended
    already.

    The caller must have released all claims of the node: the fence refuses its next write.
    """
    with connection.transaction():
        terms = lock_terms(connection, node_id=node_id)
        node = lock_node(connection, node_id=node_id)
        if node is None or node.status not in sources_of("stop"):
            return False
        for term in terms:
            give_up_term(connection, term=term)
        end_node(connection, node=node, status=NodeStatus.STOPPED, reason=reason)
    return True
