"""The base class of a user's job, whose items the nodes of a cluster share."""

import datetime as dt
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable
from typing import Final

from nodes.coordination.names import checked
from nodes.distributed.engine.context import JobContext
from nodes.distributed.engine.schedule import Schedule
from nodes.distributed.engine.sharing import RunningStrategy, one_thread

# The pool of a job that cannot be divided: it runs on one node of the cluster at a time.
SINGLE: Final = frozenset({"singleton"})


class DistributedJob(ABC):
    """
    Recurring work, divided into items. One node at a time works on each item.

    The manager calls every method repeatedly, except `job_id`: the answers may change while the job runs.
    """

    @property
    def job_id(self) -> str:
        """Return the name by which all nodes know the job; by default the class's full name."""
        return f"{type(self).__module__}.{type(self).__qualname__}"

    @abstractmethod
    def schedule(self) -> Schedule:
        """Return the schedule of the job. The manager notices a change within a second."""

    @abstractmethod
    def run(self, context: JobContext) -> None:
        """
        Work on the items of `context.work_share`, which no other node has meanwhile. An exception makes the run a
        failure.
        """

    def initial_delay(self) -> dt.timedelta | None:
        """Return the delay before the first run on a node; None for the schedule's own."""
        return None

    def work_pool(self) -> Collection[str]:
        """Return the names of all items."""
        return SINGLE

    def pool_check_period(self) -> dt.timedelta:
        """Return the interval at which the pool is read again; zero for never."""
        return dt.timedelta()

    def running_strategy(self) -> RunningStrategy:
        """Return a function that chooses the number of parallel runs for the items of a node."""
        return one_thread


def by_id(jobs: Iterable[DistributedJob]) -> dict[str, DistributedJob]:
    """
    Return the jobs by their ids.

    Raises:
        BadName: an id is invalid.
        ValueError: two jobs have the same id.
        TypeError: an object is not a job.
    """
    found: dict[str, DistributedJob] = {}
    for job in jobs:
        if not isinstance(job, DistributedJob):
            raise TypeError(f"{job!r} is not a DistributedJob: pass an object of a subclass")
        other = found.setdefault(checked("job", job.job_id), job)
        if other is not job:
            classes = " and ".join(f"{type(one).__module__}.{type(one).__qualname__}" for one in (other, job))
            raise ValueError(f"two jobs have the same id {job.job_id!r}: {classes}; each job needs its own id")
    return found
