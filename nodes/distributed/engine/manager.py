"""
The manager of distributed jobs: an application starts the manager, and closes it when the application ends.

Processes whose managers use the same store and the same name of a cluster form this cluster. Each of them is a worker,
and a candidate for the main node, which assigns the items. A manager consists of threads only.
"""

import datetime as dt
import logging
import threading
from collections.abc import Iterable, Sequence
from typing import Self

from nodes.assignment.names import DEFAULT, strategy_named
from nodes.assignment.pools import PoolStrategy
from nodes.coordination.database import DatabaseCoordination
from nodes.coordination.port import Coordination, Unreachable
from nodes.coordination.zookeeper import ZooKeeperCoordination
from nodes.coordination.zookeeper_session import Address, is_path
from nodes.distributed.engine.execution import JobOnNode, NodeContext
from nodes.distributed.engine.job import DistributedJob, by_id
from nodes.distributed.engine.locks import HeldLocks
from nodes.distributed.engine.main_part import MainPart
from nodes.distributed.engine.observer import Observer, ObserverGroup
from nodes.distributed.engine.status import JobStatus, ManagerStatus
from nodes.distributed.engine.switches import Switches
from nodes.distributed.engine.tuning import Tuning
from nodes.distributed.engine.worker_part import WorkerPart
from nodes.life.trust_window import seconds_since_boot

logger = logging.getLogger(__name__)

_TIMEOUT = dt.timedelta(seconds=30)
# Numbers of beats, and of reads by the main node, in a timeout. Pause between two attempts to reach the store.
_BEATS = 6
_READS = 6
_RETRY_AFTER = dt.timedelta(seconds=1)


class DistributedJobManager:
    """One manager for a process. Call `start` and `close`, or use it in a `with`."""

    def __init__(
        self,
        coordination: Coordination,
        jobs: Iterable[DistributedJob],
        *,
        strategy: PoolStrategy | None = None,
        tuning: Tuning | None = None,
        switches: Switches | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        """
        `coordination` is a connection to the cluster, which the manager closes at its end. `jobs` are the jobs that
        this node can execute.

        Raises:
            BadName: the id of a job is invalid.
            ValueError: two jobs have the same id, or the lease is longer than the node's timeout.
        """
        self._coordination = coordination
        self._tuning = tuning or Tuning()
        self._tuning.lease_for(coordination.timeout)
        self._switches = switches or Switches()
        self._observer = ObserverGroup(observers)
        self._closing = threading.Event()
        self._gives_up = threading.Event()
        self._was_started = self._is_started = False
        self._locks = HeldLocks(
            coordination, lease=lambda: self._tuning.lease_for(coordination.timeout), observer=self._observer
        )
        node_context = NodeContext(
            locks=self._locks,
            observer=self._observer,
            tuning=lambda: self._tuning,
            may_begin=lambda: coordination.is_member,
        )
        self._jobs = {job_id: JobOnNode(job_id, job, node_context) for job_id, job in by_id(jobs).items()}
        self._worker = WorkerPart(
            coordination,
            self._jobs,
            tuning=lambda: self._tuning,
            switches=lambda: self._switches,
            observer=self._observer,
            beat_every=coordination.timeout / _BEATS,
        )
        self._main = MainPart(
            coordination,
            strategy=strategy or strategy_named(DEFAULT),
            tuning=lambda: self._tuning,
            switches=lambda: self._switches,
            observer=self._observer,
            read_every=coordination.timeout / _READS,
        )

    @classmethod
    def on_zookeeper(
        cls,
        hosts: str,
        path: str,
        node: str,
        jobs: Iterable[DistributedJob],
        *,
        timeout: dt.timedelta = _TIMEOUT,
        credentials: str = "",
        strategy: PoolStrategy | None = None,
        tuning: Tuning | None = None,
        switches: Switches | None = None,
        observers: Sequence[Observer] = (),
    ) -> Self:
        """
        Return a manager whose cluster is stored below a path of ZooKeeper: `host:2181,host:2181`, `/jobs/mine`.

        Raises:
            BadName: the node, the last part of the path or a job has an invalid name.
            ValueError: as for the constructor, or the path is invalid.
            Refused: the hosts or the credentials are invalid.
        """
        if not is_path(path):
            raise ValueError(f"{path!r} is not a path of ZooKeeper: write it as /jobs/mine")
        root, _slash, cluster = path.rpartition("/")
        address = Address.parse(hosts, credentials=credentials)
        below = Address(hosts=address.hosts, root=root, credentials=credentials)
        coordination = ZooKeeperCoordination(address=below, cluster=cluster, node=node, timeout=timeout)
        return cls(coordination, jobs, strategy=strategy, tuning=tuning, switches=switches, observers=observers)

    @classmethod
    def on_database(
        cls,
        dsn: str,
        cluster: str,
        node: str,
        jobs: Iterable[DistributedJob],
        *,
        timeout: dt.timedelta = _TIMEOUT,
        strategy: PoolStrategy | None = None,
        tuning: Tuning | None = None,
        switches: Switches | None = None,
        observers: Sequence[Observer] = (),
    ) -> Self:
        """
        Return a manager whose cluster is stored in a PostgreSQL database that has the tables of crawlctl.

        Raises:
            BadName: the node, the cluster or a job has an invalid name.
            ValueError: as for the constructor.
        """
        coordination = DatabaseCoordination(dsn=dsn, cluster=cluster, node=node, timeout=timeout)
        return cls(coordination, jobs, strategy=strategy, tuning=tuning, switches=switches, observers=observers)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    @property
    def node(self) -> str:
        return self._coordination.node

    @property
    def tuning(self) -> Tuning:
        return self._tuning

    @tuning.setter
    def tuning(self, tuning: Tuning) -> None:
        """
        Use this tuning from now on.

        Raises:
            ValueError: its lease is longer than the node's timeout.
        """
        tuning.lease_for(self._coordination.timeout)
        self._tuning = tuning
        self._wake()

    @property
    def switches(self) -> Switches:
        return self._switches

    @switches.setter
    def switches(self, switches: Switches) -> None:
        """
        Disable and enable jobs. Runs of a disabled job are told to stop immediately. While this node leads, no node
        gets its items.
        """
        if switches != self._switches:
            self._switches = switches
            self._wake()

    def rebalance(self) -> None:
        """
        If this node leads, redistribute all items, even if nothing has changed: a strategy may use other facts than the
        store's.
        """
        self._main.rebalance()

    def start(self) -> None:
        """
        Connect to the store, become a member, and begin to work. The worker's part starts before the main node's part.

        Raises:
            RuntimeError: the manager was started before, or closed.
            Unreachable: the store did not answer within the time in the tuning. Each attempt was logged.
            CoordinationError: the store refuses us.
        """
        if self._was_started or self._closing.is_set():
            did = "closed" if self._closing.is_set() else "started"
            raise RuntimeError(
                f"the manager of node {self.node} was {did} already: a manager starts only once, so create another one"
            )
        self._was_started = True
        began_at = seconds_since_boot()
        logger.info("starting the distributed jobs of node %s", self.node)
        if not self._jobs:
            logger.warning("node %s has no distributed jobs: it can only be the main node", self.node)
        try:
            self._reach_store()
            self._coordination.watch(self._wake)
            self._worker.start()
        except BaseException:
            self._coordination.close()
            raise
        self._locks.start()
        self._main.start()
        self._is_started = True
        took = dt.timedelta(seconds=seconds_since_boot() - began_at)
        self._observer.started(self.node, sorted(self._jobs), took=took)
        logger.info(
            "the distributed jobs of node %s are started: %s", self.node, ", ".join(sorted(self._jobs)) or "none"
        )

    def give_up_starting(self) -> None:
        """End the attempts of `start` to connect to the store. It then raises the error of the last attempt."""
        self._gives_up.set()

    def _reach_store(self) -> None:
        deadline = seconds_since_boot() + self._tuning.start_within.total_seconds()
        while True:
            try:
                self._coordination.connect()
            except Unreachable as error:
                if self._gives_up.is_set() or seconds_since_boot() >= deadline:
                    raise
                logger.warning("node %s cannot start yet: %s", self.node, error)
                self._gives_up.wait(_RETRY_AFTER.total_seconds())
            else:
                return

    def close(self) -> bool:
        """
        Tell all runs to stop, wait for them as long as the tuning says, and leave. Return True if all have ended.

        The items of a run that has not ended stay locked until their lease is over. May be called again.
        """
        was_closing = self._closing.is_set()
        self._closing.set()
        if was_closing or not self._is_started:
            return True
        began_at = seconds_since_boot()
        logger.info("closing the distributed jobs of node %s", self.node)
        self._main.close()
        have_ended = self._worker.close(within=self._tuning.stop_within)
        self._locks.close()
        self._coordination.close()
        self._observer.closed(self.node, took=dt.timedelta(seconds=seconds_since_boot() - began_at))
        logger.info("the distributed jobs of node %s are closed", self.node)
        return have_ended

    def status(self) -> ManagerStatus:
        """Return the status of the manager now, without asking the store."""
        now = dt.datetime.now(dt.UTC)
        jobs = {}
        for job_id, job in self._jobs.items():
            known, runs = self._worker.pool_of(job_id), job.seen(now=now)
            jobs[job_id] = JobStatus(
                job=job_id,
                is_disabled=self._switches.disables(job_id),
                pool=known.items,
                problem="; ".join(filter(None, (known.problem, runs.problem))),
                runs=runs,
            )
        return ManagerStatus(
            node=self.node,
            is_member=self._coordination.is_member,
            leadership=self._coordination.leadership,
            refusal=self._main.refusal,
            jobs=jobs,
        )

    def _wake(self) -> None:
        self._worker.wake()
        self._main.wake()
