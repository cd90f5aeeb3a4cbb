"""The status of distributed jobs: of a node, from its manager, and of the cluster, from the store."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodes.assignment.pools import WorkItem
from nodes.coordination.port import Coordination, Leadership
from nodes.distributed.engine.execution import JobRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """
    A job on this node: the pool that the job returned here, and its runs.

    `problem` is the reason why an old pool or none is in use, or why the time of the next run is unknown; '' if all is
    well.
    """

    job: str
    is_disabled: bool
    pool: frozenset[str]
    problem: str
    runs: JobRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerStatus:
    """
    A manager at one moment. `leadership` is the leadership that it certainly holds.

    `refusal` is the reason why the plan of the main node's strategy was invalid, so that items stay where they were; or
    ''.
    """

    node: str
    is_member: bool
    leadership: Leadership | None
    refusal: str
    jobs: Mapping[str, JobStatus]


class JobState(StrEnum):
    """The activity of a job: running while any node has a lock of its items."""

    RUNNING = "running"
    STOPPED = "stopped"


class UnknownJob(ValueError):
    """No node of the cluster has this job."""


def state_of(coordination: Coordination, job: str) -> JobState:
    """
    Return the state of a job in the whole cluster: running or stopped.

    Raises:
        UnknownJob: the message lists the known jobs.
        CoordinationError: the store does not answer.
    """
    pools = coordination.read_state().pools
    if job not in pools:
        known = ", ".join(sorted(pools)) or "none"
        raise UnknownJob(f"there is no distributed job {job!r} in this cluster; there are: {known}")
    locked = {lock.item for lock in coordination.locks() if not lock.has_expired}
    has_locks = any(WorkItem(*item).job == job for item in locked)
    return JobState.RUNNING if has_locks else JobState.STOPPED
