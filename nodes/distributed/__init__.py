"""
Distributed jobs: an application's own work, divided into items that the nodes of a cluster share.

The package needs nothing of Django, so any application may run a manager.
"""

from nodes.distributed.context import JobContext
from nodes.distributed.job import SINGLE, DistributedJob
from nodes.distributed.manager import DistributedJobManager
from nodes.distributed.observer import Observer, Work
from nodes.distributed.schedule import Schedule
from nodes.distributed.sharing import one_thread, thread_per_item, threads
from nodes.distributed.status import JobState, UnknownJob, state_of
from nodes.distributed.switches import Switches
from nodes.distributed.tuning import Tuning

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
