"""Daemons as processes: their identity, their settings, and the signals that end them."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Final

import psycopg
import uvloop

from jobs.loops.database import WorkConnection, configure_django_sessions
from jobs.loops.manager import Manager, ManagerFailed
from jobs.loops.open_files import raise_open_file_limit
from jobs.loops.worker import Worker, WorkerFailed
from jobs.partitions.agreement import check_other_partitions, check_partitions
from jobs.settings.table import CLAIMED
from nodes.coordination import membership_session
from nodes.coordination.opening import DATABASE, open_coordination
from nodes.coordination.port import Coordination, CoordinationError
from nodes.database.address import find_database
from nodes.database.connections import Dsn
from nodes.life.attachment import call_when_orphaned
from nodes.life.identity import NodeIdentity
from nodes.life.log_facts import set_node
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.metrics import node_metrics
from nodes.settings.effective import Effective
from nodes.settings.node_settings import (
    COORDINATION,
    HEARTBEAT_INTERVAL,
    NODE_GIVE_UP,
    NODE_TIMEOUT,
    ZOOKEEPER,
    ZOOKEEPER_CREDENTIALS,
)
from nodes.settings.running import read_given, start_with

logger = logging.getLogger(__name__)

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# Longest time (seconds) for which a thread of a worker that computes keeps the interpreter while the event loop waits
# for it. With Python's default of five milliseconds, each check of a socket may take five milliseconds during a flush,
# and requests leave late.
_SWITCH: Final = 0.0005
# Delay of the exit after a second signal (seconds): the process ends within a second, even if a thread hangs.
_FORCED_EXIT_AFTER: Final = 0.8


def run_worker(
    *,
    name: str,
    tags: tuple[str, ...] = (),
    scope: str = CLUSTER_SCOPE,
    options: Sequence[str] = (),
    attached: bool = False,
) -> None:
    """
    Run a worker until it gets a signal (or, `attached`, until standard input closes).

    `options` are settings of its command line.

    Raises:
        InvalidSettings, SettingError: `options` are invalid, alone or with the stored settings.
        WorkerFailed: the worker was marked failed, its database was unavailable, or it found no coordination store.
    """
    dsn = find_database
    try:
        effective, identity = _become_node(NodeKind.WORKER, dsn, name=name, scope=scope, options=options, tags=tags)
    except psycopg.OperationalError as error:
        raise WorkerFailed(f"the database stayed down: {error}") from error
    try:
        store = _reach_store(effective, dsn=dsn, identity=identity)
    except CoordinationError as error:
        raise WorkerFailed(str(error)) from error
    sys.setswitchinterval(_SWITCH)
    raise_open_file_limit()
    with _log_life(identity):
        uvloop.run(_run_worker(dsn, identity, effective, store, attached=attached))


@contextmanager
def _log_life(identity: NodeIdentity) -> Iterator[None]:
    """
    Log the start and the end of a node of the cluster. A one-shot command prints its start and end without the log.
    """
    if identity.scope != CLUSTER_SCOPE:
        yield
        return
    logger.info("%s %s started (process %d on %s)", identity.kind, identity.name, os.getpid(), socket.gethostname())
    try:
        yield
    except BaseException as error:
        logger.error("%s %s ended: %s", identity.kind, identity.name, str(error) or type(error).__name__)  # noqa: TRY400  # it is raised
        raise
    logger.info("%s %s ended normally", identity.kind, identity.name)


def _become_node(
    kind: NodeKind,
    dsn: Dsn,
    *,
    name: str,
    scope: str,
    options: Sequence[str],
    tags: tuple[str, ...] = (),
    address: str = "",
    should_stop: Callable[[], bool] = lambda: False,
) -> tuple[Effective, NodeIdentity]:
    """Return the settings and the identity of this process; Django's sessions get this identity too."""
    effective = _settings_of_this_process(dsn, options, scope=scope, should_stop=should_stop)
    identity = NodeIdentity.of_this_process(
        kind=kind,
        scope=scope,
        name=name or socket.gethostname(),
        timeout=effective[NODE_TIMEOUT],
        tags=tags,
        capacity=effective[CLAIMED] if kind == NodeKind.WORKER else 0,
        address=address,
    )
    set_node(name=identity.name, node_id=str(identity.id))
    configure_django_sessions(node_id=identity.id, timeout=identity.timeout)
    node_metrics.NODE.set_all({(str(identity.id), str(kind), identity.name, scope): 1})
    return effective, identity


def _settings_of_this_process(
    dsn: Dsn, options: Sequence[str], *, scope: str, should_stop: Callable[[], bool]
) -> Effective:
    """
    Return the settings of this process. If the database is unavailable, wait for it as long as a node would.

    Raises:
        BadPartitions: the settings do not fit the partition of the database, or the other partitions.
    """
    given = read_given(options)

    def gives_up(failing_for: float) -> bool:
        return should_stop() or failing_for > given[NODE_GIVE_UP].total_seconds()

    # A random id, because the node gets its own id only with the settings that are read here.
    asking = WorkConnection(
        dsn,
        node_id=uuid.uuid4(),
        timeout=given[NODE_TIMEOUT],
        longest_pause=given[HEARTBEAT_INTERVAL],
        gives_up=gives_up,
    )
    try:
        effective = asking.run(partial(start_with, given))
        asking.run(check_partitions)
        if scope == CLUSTER_SCOPE:
            asking.run(check_other_partitions)
    finally:
        asking.close()
    return effective


async def _run_worker(
    dsn: Dsn, identity: NodeIdentity, settings: Effective, store: Coordination | None, *, attached: bool
) -> None:
    loop = asyncio.get_running_loop()
    stop, force_stop = asyncio.Event(), asyncio.Event()
    worker = Worker(dsn=dsn, identity=identity, settings=settings, stop=stop, store=store)

    def asked() -> None:
        if stop.is_set():
            force_stop.set()
            _exit_soon()
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, asked)
    if attached:
        call_when_orphaned(lambda: loop.call_soon_threadsafe(stop.set))
    await worker.run(force_stop=force_stop)


def run_manager(
    *,
    name: str,
    scope: str = CLUSTER_SCOPE,
    address: str = "",
    options: Sequence[str] = (),
    attached: bool = False,
) -> None:
    """
    Run a manager until it gets a signal (or, `attached`, until standard input closes).

    `address` is the address of its pages, `options` are settings of its command line.

    Raises:
        InvalidSettings, SettingError: `options` are invalid, alone or with the stored settings.
        ManagerFailed: the manager was marked failed, its database was unavailable, or it found no coordination store.
    """
    stop = threading.Event()

    def asked(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            _exit_soon()
        # The handler only sets a flag, which the next pass of the loop reads. It must not use a lock or event of the
        # loop: a signal may interrupt the loop while the loop holds that lock.
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, asked)
    if attached:
        call_when_orphaned(lambda: asked(signal.SIGTERM, None))
    manager = make_manager(name=name, scope=scope, address=address, options=options, should_stop=stop.is_set)
    with _log_life(manager.identity):
        manager.run(should_stop=stop.is_set)


def make_manager(
    *,
    name: str,
    scope: str,
    address: str = "",
    options: Sequence[str] = (),
    should_stop: Callable[[], bool] = lambda: False,
) -> Manager:
    """
    Return a manager node of this process that does not run yet.

    Raises:
        InvalidSettings, SettingError: `options` are invalid, alone or with the stored settings.
        ManagerFailed: the database or the coordination store was unavailable, or `should_stop` ended the wait.
    """
    dsn = find_database
    try:
        effective, identity = _become_node(
            NodeKind.MANAGER, dsn, name=name, scope=scope, options=options, address=address, should_stop=should_stop
        )
    except psycopg.OperationalError as error:
        raise ManagerFailed(f"the database stayed down: {error}") from error
    try:
        store = _reach_store(effective, dsn=dsn, identity=identity, should_stop=should_stop)
    except CoordinationError as error:
        raise ManagerFailed(str(error)) from error
    return Manager(dsn=dsn, identity=identity, settings=effective, store=store)


def _reach_store(
    effective: Effective, *, dsn: Dsn, identity: NodeIdentity, should_stop: Callable[[], bool] = lambda: False
) -> Coordination | None:
    """
    Return the node's connection to a coordination store that is not the database; None without such a store.

    A one-shot command needs none, because it is alone in its scope.

    Raises:
        CoordinationError: the store did not answer, refused the connection, or has an invalid address.
    """
    if effective[COORDINATION] == DATABASE or identity.scope != CLUSTER_SCOPE:
        return None
    store = open_coordination(
        effective[COORDINATION],
        dsn=dsn,
        cluster=membership_session.CLUSTER,
        node=str(identity.id),
        timeout=membership_session.session_timeout(identity.timeout),
        zookeeper=effective[ZOOKEEPER],
        credentials=effective[ZOOKEEPER_CREDENTIALS],
    )
    membership_session.reach(store, gives_up=should_stop)
    return store


def _exit_soon() -> None:
    """
    Exit within a second, even if a thread hangs. Other nodes release the claims of this node like the claims of any
    failed node.
    """
    timer = threading.Timer(_FORCED_EXIT_AFTER, lambda: os._exit(0))
    timer.daemon = True
    timer.start()
