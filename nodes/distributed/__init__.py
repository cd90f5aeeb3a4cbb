"""
Distributed jobs: an application's own work, divided into items that the nodes of a cluster share.

The names here, and `engine` with them, need no Django, so any application may run a manager. The rest of the package is
a Django application for the jobs of crawlctl's own processes: records, pages, API and commands.
"""

from nodes.distributed.engine.context import JobContext
from nodes.distributed.engine.job import SINGLE, DistributedJob
from nodes.distributed.engine.manager import DistributedJobManager
from nodes.distributed.engine.observer import Observer, Work
from nodes.distributed.engine.schedule import Schedule
from nodes.distributed.engine.sharing import one_thread, thread_per_item, threads
from nodes.distributed.engine.status import JobState, UnknownJob, state_of
from nodes.distributed.engine.switches import Switches
from nodes.distributed.engine.tuning import Tuning

__all__ = [
    "SINGLE",
    "DistributedJob",
    "DistributedJobManager",
    "JobContext",
    "JobState",
    "Observer",
    "Schedule",
    "Switches",
    "Tuning",
    "UnknownJob",
    "Work",
    "one_thread",
    "state_of",
    "thread_per_item",
    "threads",
]
