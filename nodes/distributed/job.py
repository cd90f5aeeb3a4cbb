"""What a user writes: a job, which the nodes of a cluster share by its items."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Final

from nodes.coordination.names import checked
from nodes.distributed.context import JobContext
from nodes.distributed.schedule import Schedule
from nodes.distributed.sharing import RunningStrategy, one_thread

# The pool of a job that cannot be divided: it runs on one node of the cluster at a time.
SINGLE: Final = frozenset({"singleton"})


class DistributedJob(ABC):
    """
    A piece of work that comes back, divided into items, each of which is done by one node at a time.

    All but `job_id` is asked again and again: what it answers may change while the job runs.
    """

    @property
    def job_id(self) -> str:
        """The name by which all nodes know the job; the class's full name unless a subclass says otherwise."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    @abstractmethod
    def schedule(self) -> Schedule:
        """How often it runs. A change is noticed within a second."""

    @abstractmethod
    def run(self, context: JobContext) -> None:
        """Do the items of `context.work_share`, which nobody else has meanwhile. What it raises makes the run a failure."""

    def initial_delay(self) -> dt.timedelta | None:
        """How long after it was taken up a node runs it first; None: as long as the schedule says."""
        return None

    def work_pool(self) -> Collection[str]:
        """The items that there are to be done, by name."""
        return SINGLE

    def pool_check_period(self) -> dt.timedelta:
        """How often the pool is asked for again; zero: never."""
        return dt.timedelta()

    def running_strategy(self) -> RunningStrategy:
        """Into how many runs side by side a node's items go."""
        return one_thread


def by_id(jobs: Iterable[DistributedJob]) -> dict[str, DistributedJob]:
    """
    Return the jobs by their ids.

    Raises:
        BadName: an id cannot be one.
        ValueError: two jobs have the same.
        TypeError: something is no job.
    """
    found: dict[str, DistributedJob] = {}
    for job in jobs:
        if not isinstance(job, DistributedJob):
            raise TypeError(f"{job!r} is no DistributedJob: hand over objects of such classes")
        other = found.setdefault(checked("job", job.job_id), job)
        if other is not job:
            classes = " and ".join(f"{type(one).__module__}.{type(one).__qualname__}" for one in (other, job))
            raise ValueError(f"two jobs have the same id {job.job_id!r}: {classes}; each needs one of its own")
    return found
