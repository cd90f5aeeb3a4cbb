"""
Metrics of a manager of distributed jobs, with the names of DJM and its label `djmNodeId`.

DJM has thread pools, and exports their queues, waits and sizes. Here each kind of work has a separate thread. So a
pool's metrics are the completed work, its duration, and the work that is running.
"""

from typing import Final

from nodes.metrics.kinds import NODES, Counter, Gauge, Histogram, Metric, Process

_SHOWN_BY: Final = NODES | {Process.JOBS}
_NODE: Final = "djmNodeId"
_JOB: Final = "djmJob"
# Upper bounds of the counted durations (seconds): from a plan that changes nothing to a run that takes an hour.
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

INIT: Final = Histogram(
    name="djm_init_seconds",
    labels=(_NODE,),
    bounds=_BOUNDS,
    meaning="Duration of the start of a node's manager, from the first connection attempt until it works.",
    shown_by=_SHOWN_BY,
)
CLOSE: Final = Histogram(
    name="djm_close_seconds",
    labels=(_NODE,),
    bounds=_BOUNDS,
    meaning="Duration of the close of a node's manager, until its runs have ended and it has left.",
    shown_by=_SHOWN_BY,
)

# --- Pools, by the names of DJM ------------------------------------------------------------------

SCHEDULER: Final = "job_scheduler"
_POOLS: Final = {
    "rebalance": "assigning items and writing the assignment, at the main node",
    "cleaning_task": "removing pools of jobs that no node can execute, at the main node",
    "update_assignment": "applying a new assignment of the node",
    "check_work_pool": "reading the work pool of a job",
    SCHEDULER: "runs of jobs",
    "PersistentExpiringLockManager": "extending the locks of items",
}
_SCHEDULED_POOLS: Final = {
    "cleaning_task": "1: pools of jobs that no node can execute are removed periodically",
    "check_work_pool": "Jobs whose work pools are read periodically",
    SCHEDULER: "Runs that wait for their schedule",
    "PersistentExpiringLockManager": "1: locks are extended periodically",
}

POOL_RUNS: Final = {
    pool: Histogram(
        name=f"djm_pool_{pool}_run_seconds",
        labels=(_NODE,),
        bounds=_BOUNDS,
        meaning=f"Number and duration: {work}.",
        shown_by=_SHOWN_BY,
    )
    for pool, work in _POOLS.items()
}
POOL_ACTIVE: Final = {
    pool: Gauge(
        name=f"djm_pool_{pool}_activeThreads",
        labels=(_NODE,),
        meaning=f"Threads that are {work}." if pool != SCHEDULER else "Runs in progress.",
        shown_by=_SHOWN_BY,
    )
    for pool, work in _POOLS.items()
}
POOL_FAILURES: Final = {
    pool: Counter(
        name=f"djm_pool_{pool}_failures_total",
        labels=(_NODE,),
        meaning=f"Failures with a later retry: {work}.",
        shown_by=_SHOWN_BY,
    )
    for pool, work in _POOLS.items()
}
SCHEDULED: Final = {
    pool: Gauge(name=f"djm_scheduled_pool_{pool}_tasks_count", labels=(_NODE,), meaning=f"{what}.", shown_by=_SHOWN_BY)
    for pool, what in _SCHEDULED_POOLS.items()
}

# --- Beyond DJM ----------------------------------------------------------------------------------

MEMBER: Final = Gauge(
    name="djm_member",
    labels=(_NODE,),
    meaning="1 while the membership of the node is certain. Without it, the node starts no run.",
    shown_by=_SHOWN_BY,
)
MAIN: Final = Gauge(
    name="djm_main",
    labels=(_NODE,),
    meaning="1 for the main node, which assigns the items of its cluster.",
    shown_by=_SHOWN_BY,
)
RUNS: Final = Counter(
    name="djm_runs_total",
    labels=(_NODE, _JOB, "result"),
    meaning="Runs of each job that ended: `ok` or `failed`.",
    shown_by=_SHOWN_BY,
)
DELAYED_RUNS: Final = Counter(
    name="djm_runs_delayed_total",
    labels=(_NODE, _JOB),
    meaning="Runs that were delayed, because another node had locked one of their items.",
    shown_by=_SHOWN_BY,
)
LOST_LOCKS: Final = Counter(
    name="djm_locks_lost_total",
    labels=(_NODE, _JOB),
    meaning="Locks that could not be extended, so that their run had to stop.",
    shown_by=_SHOWN_BY,
)
MOVED: Final = Counter(
    name="djm_items_moved_total",
    labels=(_NODE,),
    meaning="Items that this node moved to another node as the main node.",
    shown_by=_SHOWN_BY,
)
REFUSED_PLANS: Final = Counter(
    name="djm_plans_refused_total",
    labels=(_NODE,),
    meaning="Refused plans of a strategy, which lost or invented items. The assignment stays.",
    shown_by=_SHOWN_BY,
)
POOL_ITEMS: Final = Gauge(
    name="djm_work_pool_items",
    labels=(_NODE, _JOB),
    meaning="Items of a job's work pool, as this node knows it.",
    shown_by=_SHOWN_BY,
)
POOL_PROBLEM: Final = Gauge(
    name="djm_work_pool_problem",
    labels=(_NODE, _JOB),
    meaning="1 while a job fails to return its work pool, or returns invalid names.",
    shown_by=_SHOWN_BY,
)
SHARE: Final = Gauge(
    name="djm_share_items",
    labels=(_NODE, _JOB),
    meaning="Items of a job that are assigned to this node.",
    shown_by=_SHOWN_BY,
)


class JobMetrics:
    """The metrics whose names contain the name of a job, as in DJM: dots and dashes become underscores."""

    def __init__(self, job: str) -> None:
        name = f"djm_job_{job.replace('.', '_').replace('-', '_')}"
        self.runs = Histogram(
            name=f"{name}_seconds",
            labels=(_NODE, _JOB),
            bounds=_BOUNDS,
            meaning="Duration of each run of the job.",
            shown_by=_SHOWN_BY,
        )
        self.active = Gauge(
            name=f"{name}_active",
            labels=(_NODE, _JOB),
            meaning="Runs of the job in progress.",
            shown_by=_SHOWN_BY,
        )

    @property
    def all(self) -> tuple[Metric, ...]:
        return (self.runs, self.active)


METRICS: Final[tuple[Metric, ...]] = (
    INIT,
    CLOSE,
    *POOL_RUNS.values(),
    *POOL_ACTIVE.values(),
    *POOL_FAILURES.values(),
    *SCHEDULED.values(),
    MEMBER,
    MAIN,
    RUNS,
    DELAYED_RUNS,
    LOST_LOCKS,
    MOVED,
    REFUSED_PLANS,
    POOL_ITEMS,
    POOL_PROBLEM,
    SHARE,
)

# The metrics of jobs by name. Entries are never removed, because a process has few jobs.
_of_jobs: dict[str, JobMetrics] = {}


def metrics_of(job: str) -> JobMetrics:
    """
    Return the metrics of one job of this process. Ids that give the same name share metrics, and differ in their
    labels.
    """
    name = job.replace(".", "_").replace("-", "_")
    return _of_jobs.setdefault(name, JobMetrics(job))


def metrics_of_jobs() -> tuple[Metric, ...]:
    """Return the metrics of all jobs for which this process has counted anything."""
    return tuple(metric for job in list(_of_jobs.values()) for metric in job.all)
