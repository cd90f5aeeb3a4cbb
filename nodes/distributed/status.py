"""How distributed jobs do: what a manager knows of its own node, and what the store knows of all."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from nodes.assignment.pools import WorkItem
from nodes.coordination.port import Coordination, Office
from nodes.distributed.execution import JobRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class JobStatus:
    """
    A job on this node: the pool that it has by its own word, and its runs.

    `problem` says why its pool is the last good one, or empty, or why nobody knows when it runs next; '' where all is well.
    """

    job: str
    is_disabled: bool
    pool: frozenset[str]
    problem: str
    runs: JobRuns


@dataclass(frozen=True, slots=True, kw_only=True)
class ManagerStatus:
    """
    A manager at one moment. `office` is what it holds for certain.

    `refusal` says why items stay where they were, where the strategy of the main came to what cannot be.
    """

    node: str
    is_member: bool
    office: Office | None
    refusal: str
    jobs: Mapping[str, JobStatus]


class JobState(StrEnum):
    """Whether anybody has an item of a job in hand."""

    RUNNING = "running"
    STOPPED = "stopped"


class UnknownJob(ValueError):
    """No node of the cluster has such a job."""


def state_of(coordination: Coordination, job: str) -> JobState:
    """
    Return whether a job is running anywhere in the cluster.

    Raises:
        UnknownJob: its sentence says which there are.
        CoordinationError: the store does not answer.
    """
    pools = coordination.look().pools
    if job not in pools:
        there = ", ".join(sorted(pools)) or "none"
        raise UnknownJob(f"there is no distributed job {job!r} in this cluster; there are: {there}")
    locked = {lock.item for lock in coordination.locks() if not lock.has_expired}
    has_locks = any(WorkItem(*item).job == job for item in locked)
    return JobState.RUNNING if has_locks else JobState.STOPPED
