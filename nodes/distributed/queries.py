"""
Distributed jobs for display: pools, shares and locks from the coordination store, and the nodes' records of runs.

Concurrent readers share one view of the store. If the store does not answer, the page reports that, and still shows the
records.
"""

import datetime as dt
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from nodes.assignment.names import strategy_named
from nodes.assignment.pools import StrategyRefused, WorkItem, share_out
from nodes.coordination.names import checked
from nodes.coordination.port import ClusterState, CoordinationError, LockSeen, NoCluster
from nodes.distributed.models import DistributedJobOnNode, DistributedJobSwitch
from nodes.distributed.records import ALL, DEFAULT_CLUSTER, OTHERS
from nodes.distributed.store_views import StoreView, read_shared_view, read_view
from nodes.models import CoordinationCluster

_JOBS_SHOWN: Final = 200
_ITEMS_SHOWN: Final = 500
_MOVES_SHOWN: Final = 500


@dataclass(frozen=True, slots=True)
class Switch:
    """The state of a switch, with its author and time; `by` is empty if it was never changed."""

    is_disabled: bool = False
    by: str = ""
    at: dt.datetime | None = None


@dataclass(frozen=True, slots=True)
class NodeOfJob:
    """A job on one node, as the node reported it at `seen_at`; moments are by its clock."""

    node: str
    is_member: bool
    items: int
    in_progress: int
    runs: int
    failures: int
    failures_in_a_row: int
    last_began_at: dt.datetime | None
    last_seconds: float | None
    last_failure: str
    next_at: dt.datetime | None
    problem: str
    seen_at: dt.datetime


@dataclass(frozen=True, slots=True)
class ItemOfJob:
    """An item of a job's pool, its node ('' if it has none), and its lock if it has one."""

    item: str
    node: str
    lock: LockSeen | None


@dataclass(frozen=True, slots=True)
class JobSeen:
    """
    A distributed job of a cluster.

    `is_running` is True if a node is processing one of its items. `switch` is the job's own switch, None without one.
    `items` is the number of items in its pool, and `given` the number that belong to a node. `able` is the number of
    nodes that can execute it. `problem` is the nodes' report about its pool or its schedule, or ''.
    """

    job: str
    is_running: bool
    is_disabled: bool
    switch: Switch | None
    items: int
    given: int
    able: int
    nodes: Sequence[NodeOfJob]

    @property
    def runs(self) -> int:
        return sum(node.runs for node in self.nodes)

    @property
    def failures(self) -> int:
        return sum(node.failures for node in self.nodes)

    @property
    def in_progress(self) -> int:
        return sum(node.in_progress for node in self.nodes)

    @property
    def last_began_at(self) -> dt.datetime | None:
        return max((node.last_began_at for node in self.nodes if node.last_began_at), default=None)

    @property
    def next_at(self) -> dt.datetime | None:
        return min((node.next_at for node in self.nodes if node.next_at), default=None)

    @property
    def last_failure(self) -> str:
        """Return the last failure of a node whose last runs failed."""
        return next((node.last_failure for node in self.nodes if node.failures_in_a_row), "")

    @property
    def problem(self) -> str:
        return next((node.problem for node in self.nodes if node.problem), "")


@dataclass(frozen=True, slots=True)
class JobsSeen:
    """
    The distributed jobs of one cluster in the order of their names, up to a limit.

    `unseen` is the reason why the store could not be read. `refusal` is the reason why the main node leaves items
    where they are.
    """

    cluster: str
    clusters: Sequence[str]
    main: str
    term: int
    refusal: str
    unseen: str
    all_jobs: Switch
    other_jobs: Switch
    jobs: Sequence[JobSeen]
    jobs_in_all: int


@dataclass(frozen=True, slots=True)
class JobPage:
    """One job with its items in the order of their names, up to a limit."""

    cluster: str
    unseen: str
    job: JobSeen
    items: Sequence[ItemOfJob]
    items_in_all: int


@dataclass(frozen=True, slots=True)
class PlannedItem:
    """An item that would move from one node to another; '' is not a node."""

    job: str
    item: str
    owner: str
    to: str


@dataclass(frozen=True, slots=True)
class SharingPlan:
    """
    The plan that a strategy makes now: the number of items of each node `before` and `after`, and the first moves.
    """

    strategy: str
    before: Mapping[str, int]
    after: Mapping[str, int]
    moves: Sequence[PlannedItem]
    moves_in_all: int


@dataclass(frozen=True)
class _ShownStore:
    """The state of the store; empty if it does not answer."""

    state: ClusterState | None = None
    locks: Mapping[WorkItem, LockSeen] = field(default_factory=dict)
    unseen: str = ""

    @cached_property
    def given(self) -> Counter[str]:
        """Return the number of items of each job that belong to a node."""
        return Counter(item.job for item in self.state.shares) if self.state else Counter()

    @cached_property
    def running(self) -> frozenset[str]:
        """Return the jobs with an item that a node is processing."""
        return frozenset(lock.item.job for lock in self.locks.values() if not lock.has_expired)


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of nodes and operators, by job."""

    nodes: Mapping[str, Sequence[DistributedJobOnNode]]
    switches: Mapping[str, Switch]

    def disables(self, job: str) -> bool:
        if self.switches.get(ALL, Switch()).is_disabled:
            return True
        own = self.switches.get(job)
        return own.is_disabled if own else self.switches.get(OTHERS, Switch()).is_disabled


def read_distributed_jobs(cluster: str, *, dsn: str) -> JobsSeen:
    """
    Read all jobs of a cluster; `dsn` is the address of the database.

    Raises:
        BadName: the name of the cluster is invalid.
    """
    shown, records = _read(cluster, dsn=dsn), _read_records(cluster)
    names = _names(shown, records)
    nodes = [row for rows in records.nodes.values() for row in rows]
    return JobsSeen(
        cluster=cluster,
        clusters=_clusters(cluster),
        main=(shown.state.main or "") if shown.state else "",
        term=shown.state.term if shown.state else 0,
        refusal=next((row.refusal for row in nodes if row.refusal), ""),
        unseen=shown.unseen,
        all_jobs=records.switches.get(ALL, Switch()),
        other_jobs=records.switches.get(OTHERS, Switch()),
        jobs=[_job(name, shown, records) for name in names[:_JOBS_SHOWN]],
        jobs_in_all=len(names),
    )


def read_distributed_job(cluster: str, job: str, *, dsn: str) -> JobPage | None:
    """
    Read one job; return None if it is unknown.

    Raises:
        BadName: the name of the cluster or the job is invalid.
    """
    checked("job", job)
    shown, records = _read(cluster, dsn=dsn), _read_records(cluster, job=job)
    if job not in _names(shown, records):
        return None
    pool = sorted(shown.state.pools.get(job, ())) if shown.state else []
    shares = shown.state.shares if shown.state else {}
    return JobPage(
        cluster=cluster,
        unseen=shown.unseen,
        job=_job(job, shown, records),
        items=[
            ItemOfJob(item, shares.get(WorkItem(job, item), ""), shown.locks.get(WorkItem(job, item)))
            for item in pool[:_ITEMS_SHOWN]
        ],
        items_in_all=len(pool),
    )


def plan_sharing(cluster: str, *, strategy: str, dsn: str) -> SharingPlan:
    """
    Return the decision of a main node with this strategy at this moment, and change nothing.

    Raises:
        BadName: the name of the cluster is invalid.
        NoSuchStrategy: no strategy has this name.
        StrategyRefused: its result is invalid.
        CoordinationError: the store does not answer.
    """
    decide = strategy_named(strategy)
    shown, records = _read(cluster, dsn=dsn, by=read_view), _read_records(cluster)
    if shown.state is None:
        raise CoordinationError(shown.unseen or f"no node has joined the cluster {cluster} yet")
    state = shown.state
    situation = state.situation(disabled=[job for job in state.pools if records.disables(job)])
    try:
        shares = share_out(decide, situation)
    except StrategyRefused:
        raise
    except (Exception, SystemExit) as error:
        # The strategy of an application may raise any exception.
        raise StrategyRefused(f"the strategy failed: {type(error).__name__}: {error}") from error
    moved = sorted(item for item in {*shares, *state.shares} if shares.get(item) != state.shares.get(item))
    return SharingPlan(
        strategy=strategy,
        before={node: sum(owner == node for owner in state.shares.values()) for node in sorted(state.members)},
        after={node: sum(owner == node for owner in shares.values()) for node in sorted(state.members)},
        moves=[
            PlannedItem(item.job, item.item, state.shares.get(item, ""), shares.get(item, ""))
            for item in moved[:_MOVES_SHOWN]
        ],
        moves_in_all=len(moved),
    )


def _read(cluster: str, *, dsn: str, by: Callable[..., StoreView] = read_shared_view) -> _ShownStore:
    """Return the cluster from its store; empty if no node has ever been in it."""
    try:
        state, locks = by(cluster, dsn=dsn)
    except NoCluster:
        return _ShownStore()
    except CoordinationError as error:
        return _ShownStore(unseen=str(error))
    return _ShownStore(state, {lock.item: lock for lock in locks})


def _read_records(cluster: str, *, job: str = "") -> _Records:
    """Return the records of all jobs, or of one."""
    nodes = defaultdict(list)
    rows = DistributedJobOnNode.objects.filter(cluster=cluster, **({"job": job} if job else {}))
    for row in rows.order_by("job", "node"):
        nodes[row.job].append(row)
    switches = DistributedJobSwitch.objects.filter(cluster=cluster)
    return _Records(nodes, {row.job: Switch(row.is_disabled, row.changed_by, row.changed_at) for row in switches})


def _clusters(cluster: str) -> list[str]:
    """
    Return the names of clusters that may have distributed jobs: clusters of the coordination store that the database
    knows, and clusters in the nodes' reports.
    """
    known = CoordinationCluster.objects.order_by("name").values_list("name", flat=True)[:_JOBS_SHOWN]
    noted = DistributedJobOnNode.objects.values_list("cluster", flat=True).distinct()[:_JOBS_SHOWN]
    return sorted({cluster, DEFAULT_CLUSTER, *known, *noted})


def _names(shown: _ShownStore, records: _Records) -> list[str]:
    pools = shown.state.pools if shown.state else {}
    return sorted({*pools, *records.nodes, *records.switches} - {ALL, OTHERS})


def _job(job: str, shown: _ShownStore, records: _Records) -> JobSeen:
    state = shown.state
    members = state.members if state else {}
    return JobSeen(
        job=job,
        is_running=job in shown.running,
        is_disabled=records.disables(job),
        switch=records.switches.get(job),
        items=len(state.pools.get(job, ())) if state else 0,
        given=shown.given[job],
        able=sum(job in jobs for jobs in members.values()),
        nodes=[_node(row, is_member=row.node in members) for row in records.nodes.get(job, ())],
    )


def _node(row: DistributedJobOnNode, *, is_member: bool) -> NodeOfJob:
    return NodeOfJob(
        node=row.node,
        is_member=is_member,
        items=len(row.items),
        in_progress=row.in_progress,
        runs=row.runs,
        failures=row.failures,
        failures_in_a_row=row.failures_in_a_row,
        last_began_at=row.last_began_at,
        last_seconds=row.last_seconds,
        last_failure=row.last_failure,
        next_at=row.next_at,
        problem=row.problem,
        seen_at=row.seen_at,
    )
