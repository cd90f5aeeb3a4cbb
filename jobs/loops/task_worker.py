"""A task worker as a process: its settings, its place on the roster, and its end."""

import datetime as dt
import logging
import socket
from collections.abc import Sequence
from functools import partial
from typing import Final

import psycopg

from jobs.loops.database import configure_django_sessions
from nodes.database.address import find_database
from nodes.life.identity import NodeIdentity
from nodes.life.log_facts import set_node
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.settings.effective import Effective
from nodes.settings.node_settings import HEARTBEAT_INTERVAL, NODE_GIVE_UP, NODE_TIMEOUT
from nodes.settings.running import read_given, start_with
from nodes.tasks import roster
from nodes.tasks.cluster import TaskCluster, WorkerRetired
from nodes.tasks.session import Session
from nodes.tasks.settings import DEAD_AFTER, STOP_WITHIN

logger = logging.getLogger(__name__)

# Least number of signs of life that a worker sends in the time of silence after which it would be retired.
_BEATS_OF_SILENCE: Final = 4
_KIB_OF_MB: Final = 1024


class TaskWorkerFailed(Exception):
    """The task worker was retired, or lost its database: its process has to exit."""


def run_task_worker(
    *, name: str, work_on: str, memory_limit: int | None = None, options: Sequence[str] = (), attached: bool = False
) -> None:
    """
    Execute tasks of a group until a signal (or, `attached`, until standard input closes).

    A process that used more than `memory_limit` (MB) ends after its task. `options` are settings of the command line.

    Raises:
        InvalidSettings, SettingError: `options` are invalid, alone or with the stored settings.
        TaskWorkerFailed: the worker was retired, or its database was unavailable.
    """
    given = read_given(options)
    me = NodeIdentity.of_this_process(
        kind=NodeKind.WORKER, scope=CLUSTER_SCOPE, name=name or socket.gethostname(), timeout=given[NODE_TIMEOUT]
    )
    wait_at_most = given[NODE_GIVE_UP].total_seconds()
    sessions = partial(_session, me)
    asking = sessions("roster")
    try:
        settings = asking.run(partial(start_with, given), wait_at_most=wait_at_most)
        set_node(name=me.name, node_id=str(me.id))
        configure_django_sessions(node_id=me.id, timeout=me.timeout)
        # This machine knows which of its workers have died, and retires them without waiting for their timeout.
        asking.run(
            lambda connection: roster.retire_lost(connection, dead_after=dt.timedelta.max), wait_at_most=wait_at_most
        )
        # The cluster handles signals from here on, so a registered worker that gets one leaves the roster.
        cluster = TaskCluster(
            sessions,
            worker=me.id,
            beat=_beat(settings),
            stop_within=settings[STOP_WITHIN].total_seconds(),
            memory_limit=None if memory_limit is None else memory_limit * _KIB_OF_MB,
            attached=attached,
        )
        asking.run(lambda connection: roster.register(connection, me=me, work_on=work_on), wait_at_most=wait_at_most)
        logger.info("task worker %s started (process %d on %s), for %s", me.name, me.pid, me.host, work_on)
        cluster.run()
    except WorkerRetired as retired:
        raise TaskWorkerFailed(str(retired)) from retired
    except (psycopg.OperationalError, psycopg.InterfaceError) as error:
        raise TaskWorkerFailed(f"the database stayed down: {error}") from error
    finally:
        asking.close()
    logger.info("task worker %s ended normally", me.name)


def _session(me: NodeIdentity, purpose: str) -> Session:
    return Session(find_database, worker=me.id, purpose=purpose, timeout=me.timeout)


def _beat(settings: Effective) -> float:
    """Return the time between two heartbeats of a task worker (seconds)."""
    return min(settings[HEARTBEAT_INTERVAL], settings[DEAD_AFTER] / _BEATS_OF_SILENCE).total_seconds()
