"""The faults of a drill: it kills or freezes the process of a node, or repeatedly ends the database sessions of all."""

import datetime as dt
import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from nodes.life.identity import NodeIdentity, is_process_gone
from nodes.lifecycle import NodeKind


class Fault(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    CUT = "cut"


class Target(StrEnum):
    """
    The victim of a drill: the main manager, the other manager with the most groups, the worker with the most claimed
    documents, or the database sessions of all nodes.
    """

    MAIN = "main"
    MANAGER = "manager"
    WORKER = "worker"
    DATABASE = "database"


# The possible drills: a fault and its target.
DRILLS: Final = (
    *(f"{fault} {whom}" for fault in (Fault.KILL, Fault.FREEZE) for whom in Target if whom != Target.DATABASE),
    f"{Fault.CUT} {Target.DATABASE}",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Victim:
    """A running node. `groups` and `documents` are its own groups and claimed documents at the time of the choice."""

    id: UUID
    kind: str
    name: str
    host: str
    boot_id: str
    pid_namespace: str
    pid: int
    process_start: int
    timeout_seconds: float
    groups: int
    documents: int
    is_main: bool

    def __str__(self) -> str:
        return f"{'main' if self.is_main else self.kind} {self.name} (pid {self.pid} on {self.host})"


class NoVictim(Exception):
    """The drill cannot be performed. The message gives the reason and the missing condition."""


# Timeout of the drill's own connection. The drill is not a node, so no node judges it by this timeout.
_NO_TIMEOUT: Final = dt.timedelta(days=1)

_LIVE: Final = """
SELECT node.id, node.kind, node.name, node.host, node.boot_id, node.pid_namespace, node.pid, node.process_start,
       node.timeout_seconds, term.main_id IS NOT NULL AS is_main,
       (SELECT count(*) FROM jobs_throttlegroup AS held WHERE held.owner_id = node.id) AS groups,
       (SELECT count(*) FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id
         WHERE batch.worker_id = node.id AND batch.state = 'sent') AS documents
  FROM nodes_node AS node
  LEFT JOIN nodes_mainterm AS term ON term.scope = node.scope AND term.main_id = node.id AND NOT term.resigned
 WHERE node.scope = %(scope)s AND node.status = 'running'
   AND node.heartbeat_at > clock_timestamp() - make_interval(secs => node.timeout_seconds)
 ORDER BY groups DESC, documents DESC, node.id
"""
_END_SESSIONS: Final = """
SELECT pg_terminate_backend(session.pid)
  FROM nodes_node AS node JOIN pg_stat_activity AS session ON starts_with(session.application_name, node.id::text)
 WHERE node.scope = %(scope)s AND node.stopped_at IS NULL
"""
# Interval of a drill's steps (seconds): a node that lost its session connects again after a tenth of a second.
_TICK: Final = 0.03


def choose(connection: psycopg.Connection[Any], *, scope: str, whom: Target) -> Victim:
    """
    Return the victim of a drill.

    Raises:
        NoVictim: there is no such node, no other node could replace it, or its process is not on this machine.
    """
    with connection.cursor(row_factory=class_row(Victim)) as cursor:
        live = cursor.execute(_LIVE, {"scope": scope}).fetchall()
    kind = NodeKind.WORKER if whom == Target.WORKER else NodeKind.MANAGER
    of_kind = [node for node in live if node.kind == kind]
    fitting = [node for node in of_kind if whom == Target.WORKER or node.is_main == (whom == Target.MAIN)]
    if not fitting:
        raise NoVictim(f"No running {whom} was found. Start one, then try again.")
    if len(of_kind) < 2:
        raise NoVictim(f"{fitting[0]} is the only {kind}. Start another one as a replacement, then try again.")
    victim = max(fitting, key=lambda node: node.documents) if whom == Target.WORKER else fitting[0]
    me = NodeIdentity.of_this_process(kind=NodeKind.MANAGER, scope=scope, name="drill", timeout=_NO_TIMEOUT)
    if not me.shares_processes_with(boot_id=victim.boot_id, pid_namespace=victim.pid_namespace):
        raise NoVictim(f"{victim} runs on another machine. Run the drill there.")
    return victim


def strike(victim: Victim, fault: Fault, *, seconds: float, watch: Callable[[], None]) -> None:
    """
    Inject the fault into the victim. `watch` is called repeatedly while the fault lasts.

    A kill ends immediately. A freeze lasts `seconds`. Then the process continues as if nothing had happened.

    Raises:
        NoVictim: the process of the victim has ended by itself.
    """
    if is_process_gone(pid=victim.pid, process_start=victim.process_start):
        raise NoVictim(f"The process of {victim} has already ended.")
    if fault == Fault.KILL:
        os.kill(victim.pid, signal.SIGKILL)
        return
    os.kill(victim.pid, signal.SIGSTOP)
    try:
        call_repeatedly(watch, seconds=seconds)
    finally:
        if not is_process_gone(pid=victim.pid, process_start=victim.process_start):
            os.kill(victim.pid, signal.SIGCONT)


def cut_database(connection: psycopg.Connection[Any], *, scope: str, seconds: float, watch: Callable[[], None]) -> None:
    """End all database sessions of the nodes of a scope, as soon as they are opened, for `seconds`."""

    def cut() -> None:
        connection.execute(_END_SESSIONS, {"scope": scope})
        watch()

    call_repeatedly(cut, seconds=seconds)


def call_repeatedly(step: Callable[[], None], *, seconds: float, until: Callable[[], bool] = lambda: False) -> None:
    """Call `step` about thirty times a second, for `seconds` or until `until` returns True."""
    ends_at = time.monotonic() + seconds
    while time.monotonic() < ends_at and not until():
        step()
        time.sleep(_TICK)
