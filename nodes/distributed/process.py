"""A process for distributed jobs only: from its settings to the signal that ends it."""

import datetime as dt
import logging
import os
import re
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import FrameType
from typing import Final, Self

import psycopg
from django.conf import settings
from django.db import close_old_connections

from nodes.assignment.names import strategy_named
from nodes.coordination.opening import ZOOKEEPER, open_coordination
from nodes.coordination.port import Coordination
from nodes.database.address import find_database
from nodes.distributed import DistributedJob, DistributedJobManager, Observer, Tuning
from nodes.distributed.engine.counting import CountingObserver, show_standing
from nodes.distributed.records import ForgetSilentNodes, JobRecords
from nodes.life.attachment import call_when_orphaned
from nodes.settings.node_settings import DATABASE_URL, NODE_TIMEOUT
from nodes.settings.running import current, read_given

logger = logging.getLogger(__name__)

# Interval between two reports of the status of the jobs (seconds).
_NOTED_EVERY: Final = 2.0
_NOT_IN_NAMES: Final = re.compile(r"[^a-zA-Z0-9._-]+")


class RunsNotEnded(Exception):
    """The process ends although runs ignored the request to end; their items stay locked until their lease ends."""


class DatabaseReplaced(Exception):
    """
    The database was restored to an older state or replaced. The process ends, because its memory of the database is
    wrong.
    """


class _Bookkeeping:
    """
    Records the status of the jobs every two seconds, and applies the switches of operators.

    Jobs continue if the records cannot be read or written. If the database is replaced, `replaced` is called once.
    """

    def __init__(self, records: JobRecords, manager: DistributedJobManager, *, replaced: Callable[[], None]) -> None:
        self._records, self._manager, self._replaced = records, manager, replaced
        self._incarnation: str | None = None
        self._ending = threading.Event()
        self._fails = False
        self._asked_at: dt.datetime | None = None
        self._thread = threading.Thread(target=self._run, name="records of jobs", daemon=True)

    def __enter__(self) -> Self:
        self._do(self._check_incarnation)
        # A disabled job must not start before its switch was read.
        self._do(self._apply_switches)
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._ending.set()
        self._thread.join()
        self._do(self._records.leave)
        self._records.close()

    def _run(self) -> None:
        while not self._ending.wait(_NOTED_EVERY):
            self._do(self._check_incarnation)
            self._do(self._apply_switches)
            self._do(self._apply_request)
            self._do(lambda: self._records.note(self._manager.status()))

    def _check_incarnation(self) -> None:
        incarnation = self._records.read_incarnation()
        before, self._incarnation = self._incarnation, incarnation
        if before is not None and incarnation != before:
            self._replaced()

    def _apply_switches(self) -> None:
        self._manager.switches = self._records.read_switches()

    def _apply_request(self) -> None:
        asked_at = self._records.read_redistribution_request()
        if asked_at != self._asked_at:
            self._asked_at = asked_at
            self._manager.rebalance()

    def _do(self, what: Callable[[], None]) -> None:
        try:
            what()
        except psycopg.Error as error:
            if not self._fails:
                logger.warning("cannot read distributed-job records; jobs continue unchanged: %s", error)
            self._fails = True
        except Exception:
            # Without this thread, operators could no longer disable a job.
            if not self._fails:
                logger.exception("cannot update distributed-job records; jobs continue unchanged")
            self._fails = True
        else:
            self._fails = False


class _ConnectionsOfRuns(Observer):
    """Closes unusable connections of a run's thread: the run may have used Django's database."""

    def run_ended(self, job: str, items: frozenset[str], *, took: dt.timedelta, failure: BaseException | None) -> None:
        del job, items, took, failure
        close_old_connections()


def name_of_this_process() -> str:
    """Return a unique name of this process that people recognize."""
    return f"{_NOT_IN_NAMES.sub('-', socket.gethostname())[:100]}-{os.getpid()}"


def coordination_of_cluster(cluster: str, *, node: str, timeout: dt.timedelta) -> Coordination:
    """
    Return a node's connection to a cluster of distributed jobs, in the configured store.

    With ZooKeeper the jobs need no database, so no database keeps a lower bound of their terms.

    Raises:
        BadName, Refused: the cluster, the node or the address is invalid.
    """
    return open_coordination(
        settings.CRAWLCTL_COORDINATION,
        dsn="" if settings.CRAWLCTL_COORDINATION == ZOOKEEPER else find_database,
        cluster=cluster,
        node=node,
        timeout=timeout,
        zookeeper=settings.CRAWLCTL_ZOOKEEPER,
        credentials=settings.CRAWLCTL_ZOOKEEPER_CREDENTIALS,
    )


class JobsOfThisProcess:
    """A manager of distributed jobs, with built-in jobs and metrics, and with records if there is a database."""

    def __init__(
        self,
        jobs: Iterable[DistributedJob],
        *,
        cluster: str,
        node: str,
        strategy: str,
        tuning: Tuning,
        options: Iterable[str] = (),
    ) -> None:
        """
        `options` are settings of the command line.

        Raises:
            BadName, ValueError, NoSuchStrategy, SettingError: an argument is invalid.
            Refused: the store's address is invalid.
        """
        timeout = read_given(options)[NODE_TIMEOUT]
        has_records = settings.CRAWLCTL_COORDINATION != ZOOKEEPER or bool(current()[DATABASE_URL])
        ours = [ForgetSilentNodes(dsn=find_database, timeout=timeout)] if has_records else []
        self._manager = DistributedJobManager(
            coordination_of_cluster(cluster, node=node, timeout=timeout),
            [*jobs, *ours],
            strategy=strategy_named(strategy),
            tuning=tuning,
            observers=[CountingObserver(node), _ConnectionsOfRuns()],
        )
        show_standing(self._manager)
        self._records = (
            JobRecords(dsn=find_database, cluster=cluster, node=node, timeout=timeout) if has_records else None
        )

    def give_up_starting(self) -> None:
        self._manager.give_up_starting()

    @contextmanager
    def at_work(self, *, replaced: Callable[[], None] = lambda: None) -> Iterator[None]:
        """
        Run the jobs during the block.

        `replaced` is called in another thread if the database was restored to an older state or replaced.

        Raises:
            CoordinationError: the store is unavailable, or refused the connection.
            RunsNotEnded: runs did not end in time.
        """
        with ExitStack() as ends_with_us:
            if self._records is not None:
                ends_with_us.enter_context(_Bookkeeping(self._records, self._manager, replaced=replaced))
            self._manager.start()
            try:
                yield
            finally:
                have_ended = self._manager.close()
        if not have_ended:
            limit = self._manager.tuning.stop_within.total_seconds()
            raise RunsNotEnded(f"runs have not ended within {limit:g} s")


def run_jobs(jobs: JobsOfThisProcess, *, attached: bool = False) -> None:
    """
    Run distributed jobs until this process gets a signal (or, `attached`, until standard input closes).

    Raises:
        CoordinationError, RunsNotEnded: as `JobsOfThisProcess.at_work`.
        DatabaseReplaced: the database of the jobs was restored to an older state or replaced.
    """
    ending, replaced = threading.Event(), threading.Event()

    def end_without_database() -> None:
        # ZooKeeper shares the jobs without the database.
        if settings.CRAWLCTL_COORDINATION != ZOOKEEPER:
            replaced.set()
            ending.set()

    def asked(_number: int, _frame: FrameType | None) -> None:
        if ending.is_set():
            # A second signal ends the process now. Items of runs that have not ended stay locked until their lease
            # ends.
            os._exit(1)
        ending.set()
        jobs.give_up_starting()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, asked)
    if attached:
        call_when_orphaned(ending.set)
    with jobs.at_work(replaced=end_without_database):
        ending.wait()
    if replaced.is_set():
        raise DatabaseReplaced("the database went back in time, or was replaced by another one")
