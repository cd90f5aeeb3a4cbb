"""Daemons as processes: their identity, their settings, and the signals that end them."""

import asyncio
import os
import signal
import socket
import threading
from types import FrameType
from typing import Final

import uvloop

from jobs.loops.database import database_dsn, name_djangos_sessions
from jobs.loops.manager import Manager, ManagerSettings
from jobs.loops.worker import Worker, WorkerSettings
from jobs.models import Batch
from jobs.settings import table
from jobs.settings.running import current
from nodes.attachment import call_when_orphaned
from nodes.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.settings.effective import Effective

_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
# After a second signal the process is gone within a second, whatever still hangs.
_HURRY: Final = 0.8


def run_worker(*, name: str, scope: str = CLUSTER_SCOPE, attached: bool = False) -> None:
    """
    Run a worker until it is signalled (or, `attached`, until standard input closes).

    Raises:
        WorkerFailed: it was marked failed, or its database stayed away.
    """
    given = current()
    identity = NodeIdentity.of_this_process(
        kind=NodeKind.WORKER,
        scope=scope,
        name=name or socket.gethostname(),
        timeout=given[table.NODE_TIMEOUT],
        capacity=given[table.CLAIMED],
    )
    worker = Worker(
        dsn=database_dsn(),
        identity=identity,
        settings=WorkerSettings(
            capacity=given[table.CLAIMED],
            # The workers of a one-shot have nobody to leave a kind to.
            pools=_pools(given) if scope == CLUSTER_SCOPE else {},
            tells=given[table.TELLS_OUTPUTS] or scope != CLUSTER_SCOPE,
            flush_after=given[table.FLUSH_AFTER],
            drain_timeout=given[table.DRAIN_TIMEOUT],
            heartbeat=given[table.HEARTBEAT_INTERVAL],
            give_up=given[table.NODE_GIVE_UP],
            keeps_history=given[table.KEEP_HISTORY] > 0,
        ),
    )
    name_djangos_sessions(node_id=identity.id, timeout=identity.timeout)
    uvloop.run(_run_worker(worker, attached=attached))


def _pools(given: Effective) -> dict[str, int]:
    return {
        Batch.Kind.PROCESS: given[table.PROCESSED_AT_ONCE],
        Batch.Kind.EXPIRE: given[table.EXPIRED_AT_ONCE],
        Batch.Kind.CLEAN: given[table.CLEANED_AT_ONCE],
        Batch.Kind.DELETE: given[table.DELETED_AT_ONCE],
    }


async def _run_worker(worker: Worker, *, attached: bool) -> None:
    loop = asyncio.get_running_loop()
    stop, hurry = asyncio.Event(), asyncio.Event()

    def asked() -> None:
        if stop.is_set():
            hurry.set()
            _exit_soon()
        stop.set()

    for number in _SIGNALS:
        loop.add_signal_handler(number, asked)
    if attached:
        call_when_orphaned(lambda: loop.call_soon_threadsafe(stop.set))
    await worker.run(stop=stop, hurry=hurry)


def run_manager(*, name: str, address: str = "", attached: bool = False) -> None:
    """
    Run a manager of the cluster until it is signalled (or, `attached`, until standard input closes).

    Raises:
        ManagerFailed: it was marked failed, or its database stayed away.
    """
    manager = make_manager(name=name, scope=CLUSTER_SCOPE, address=address)
    stop = threading.Event()

    def asked(_number: int, _frame: FrameType | None) -> None:
        if stop.is_set():
            _exit_soon()
        # Nothing that the loop itself waits on or holds may be touched here: a handler runs between any two
        # of its instructions, also while it has the lock. The next pass sees the flag, soon enough.
        stop.set()

    for number in _SIGNALS:
        signal.signal(number, asked)
    if attached:
        call_when_orphaned(lambda: asked(signal.SIGTERM, None))
    manager.run(should_stop=stop.is_set)


def make_manager(*, name: str, scope: str, address: str = "") -> Manager:
    """A manager node of this process, not running yet."""
    given = current()
    identity = NodeIdentity.of_this_process(
        kind=NodeKind.MANAGER,
        scope=scope,
        name=name or socket.gethostname(),
        timeout=given[table.NODE_TIMEOUT],
        address=address,
    )
    dsn = database_dsn()
    name_djangos_sessions(node_id=identity.id, timeout=identity.timeout)
    return Manager(
        dsn=dsn,
        identity=identity,
        settings=ManagerSettings(heartbeat=given[table.HEARTBEAT_INTERVAL], give_up=given[table.NODE_GIVE_UP]),
    )


def _exit_soon() -> None:
    """Exit within a second even if something hangs: what is claimed goes back as for any lost node."""
    timer = threading.Timer(_HURRY, lambda: os._exit(0))
    timer.daemon = True
    timer.start()
