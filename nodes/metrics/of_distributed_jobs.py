"""
Figures of a manager of distributed jobs, with the names of DJM and its label `djmNodeId`.

DJM has thread pools, and exports their queues, waits and sizes. Here each kind of work has a thread of its own. So a
pool's figures are the completed work, its duration, and the work that is running.
"""

from typing import Final

from nodes.metrics.figures import NODES, Count, Figure, Level, Process, Spread

_SHOWN_BY: Final = NODES | {Process.JOBS}
_NODE: Final = "djmNodeId"
_JOB: Final = "djmJob"
# Seconds: from a plan that changes nothing to a run that takes an hour.
_BOUNDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 3600.0)

INIT: Final = Spread(
    name="djm_init_seconds",
    labels=(_NODE,),
    bounds=_BOUNDS,
    meaning="Starts of a node's manager: from the first try to reach the store until it works.",
    shown_by=_SHOWN_BY,
)
CLOSE: Final = Spread(
    name="djm_close_seconds",
    labels=(_NODE,),
    bounds=_BOUNDS,
    meaning="Closes of a node's manager: until its runs have ended and it has left.",
    shown_by=_SHOWN_BY,
)

# --- Pools, by the names of DJM ------------------------------------------------------------------

SCHEDULER: Final = "job_scheduler"
_POOLS: Final = {
    "rebalance": "deciding who does what and writing it, at the main",
    "cleaning_task": "forgetting jobs that no node can do, at the main",
    "update_assignment": "taking up what the node is to do",
    "check_work_pool": "asking a job for its work pool",
    SCHEDULER: "runs of jobs",
    "PersistentExpiringLockManager": "prolonging the locks of items",
}
_SCHEDULED_POOLS: Final = {
    "cleaning_task": "1: jobs that no node can do are looked for from time to time",
    "check_work_pool": "Jobs whose work pools are asked for from time to time",
    SCHEDULER: "Runs that wait for their moment",
    "PersistentExpiringLockManager": "1: locks are prolonged from time to time",
}

POOL_RUNS: Final = {
    pool: Spread(
        name=f"djm_pool_{pool}_run_seconds",
        labels=(_NODE,),
        bounds=_BOUNDS,
        meaning=f"How often, and how long: {work}.",
        shown_by=_SHOWN_BY,
    )
    for pool, work in _POOLS.items()
}
POOL_ACTIVE: Final = {
    pool: Level(
        name=f"djm_pool_{pool}_activeThreads",
        labels=(_NODE,),
        meaning=f"How many threads are just now {work}." if pool != SCHEDULER else "Runs that go on just now.",
        shown_by=_SHOWN_BY,
    )
    for pool, work in _POOLS.items()
}
POOL_FAILURES: Final = {
    pool: Count(
        name=f"djm_pool_{pool}_failures_total",
        labels=(_NODE,),
        meaning=f"How often this failed, to be tried again: {work}.",
        shown_by=_SHOWN_BY,
    )
    for pool, work in _POOLS.items()
}
SCHEDULED: Final = {
    pool: Level(name=f"djm_scheduled_pool_{pool}_tasks_count", labels=(_NODE,), meaning=f"{what}.", shown_by=_SHOWN_BY)
    for pool, what in _SCHEDULED_POOLS.items()
}

# --- Beyond DJM ----------------------------------------------------------------------------------

MEMBER: Final = Level(
    name="djm_member",
    labels=(_NODE,),
    meaning="1 while the node is a member of its cluster for certain; without that it begins no run.",
    shown_by=_SHOWN_BY,
)
MAIN: Final = Level(
    name="djm_main",
    labels=(_NODE,),
    meaning="1 at the node that shares the items of its cluster out.",
    shown_by=_SHOWN_BY,
)
RUNS: Final = Count(
    name="djm_runs_total",
    labels=(_NODE, _JOB, "result"),
    meaning="Runs of each job that ended: `ok` or `failed`.",
    shown_by=_SHOWN_BY,
)
PUT_OFF: Final = Count(
    name="djm_runs_put_off_total",
    labels=(_NODE, _JOB),
    meaning="Runs that could not begin yet, since somebody had one of their items in hand.",
    shown_by=_SHOWN_BY,
)
LOST_LOCKS: Final = Count(
    name="djm_locks_lost_total",
    labels=(_NODE, _JOB),
    meaning="Locks of runs in hand that could not be prolonged, so that the run was told to stop.",
    shown_by=_SHOWN_BY,
)
MOVED: Final = Count(
    name="djm_items_moved_total",
    labels=(_NODE,),
    meaning="Items that this node, as main, gave to another node than the one that had them.",
    shown_by=_SHOWN_BY,
)
REFUSED_PLANS: Final = Count(
    name="djm_plans_refused_total",
    labels=(_NODE,),
    meaning="Plans of a strategy that lost or invented items: what was assigned before stays.",
    shown_by=_SHOWN_BY,
)
POOL_ITEMS: Final = Level(
    name="djm_work_pool_items",
    labels=(_NODE, _JOB),
    meaning="Items of a job's work pool that count, as this node knows it.",
    shown_by=_SHOWN_BY,
)
POOL_PROBLEM: Final = Level(
    name="djm_work_pool_problem",
    labels=(_NODE, _JOB),
    meaning="1 while a job fails to say its work pool, or names items that cannot be.",
    shown_by=_SHOWN_BY,
)
SHARE: Final = Level(
    name="djm_share_items",
    labels=(_NODE, _JOB),
    meaning="Items of a job that this node does.",
    shown_by=_SHOWN_BY,
)


class JobFigures:
    """The figures with a job's own name in theirs, as in DJM: dots and dashes become underscores."""

    def __init__(self, job: str) -> None:
        name = f"djm_job_{job.replace('.', '_').replace('-', '_')}"
        self.runs = Spread(
            name=f"{name}_seconds",
            labels=(_NODE, _JOB),
            bounds=_BOUNDS,
            meaning="Each run of the job, by its name.",
            shown_by=_SHOWN_BY,
        )
        self.active = Level(
            name=f"{name}_active",
            labels=(_NODE, _JOB),
            meaning="Runs of the job that go on just now.",
            shown_by=_SHOWN_BY,
        )

    @property
    def all(self) -> tuple[Figure, ...]:
        return (self.runs, self.active)


FIGURES: Final[tuple[Figure, ...]] = (
    INIT,
    CLOSE,
    *POOL_RUNS.values(),
    *POOL_ACTIVE.values(),
    *POOL_FAILURES.values(),
    *SCHEDULED.values(),
    MEMBER,
    MAIN,
    RUNS,
    PUT_OFF,
    LOST_LOCKS,
    MOVED,
    REFUSED_PLANS,
    POOL_ITEMS,
    POOL_PROBLEM,
    SHARE,
)

# The figures of this process's jobs, of which there are few.
_of_jobs: dict[str, JobFigures] = {}


def figures_of(job: str) -> JobFigures:
    """
    Return the figures of one job of this process. Ids that give the same name share figures, and differ in their
    labels.
    """
    name = job.replace(".", "_").replace("-", "_")
    return _of_jobs.setdefault(name, JobFigures(job))


def figures_of_jobs() -> tuple[Figure, ...]:
    """Return the figures of all jobs for which this process has counted anything."""
    return tuple(figure for job in list(_of_jobs.values()) for figure in job.all)
