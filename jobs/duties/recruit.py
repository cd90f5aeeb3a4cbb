"""The recruiter of background tasks (`nodes.tasks.recruiter`), as duties of the main manager of the cluster."""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.running import current
from nodes.tasks import recruiter
from nodes.tasks.settings import DEAD_AFTER

_OF_CLUSTER: Final[LiteralString] = f"%(scope)s = '{CLUSTER_SCOPE}'"
TASK_WORKERS: Final[LiteralString] = f"{_OF_CLUSTER} AND EXISTS ({recruiter.WORKERS})"
DUE_TEMPLATES: Final[LiteralString] = f"{_OF_CLUSTER} AND EXISTS ({recruiter.DUE_TEMPLATES})"
DUE_TASKS: Final[LiteralString] = f"{_OF_CLUSTER} AND EXISTS ({recruiter.DUE_TASKS})"


def retire_lost_task_workers(at: Pass) -> int:
    """Retire lost task workers, and take their tasks back; return the number of these workers."""
    dead_after = current()[DEAD_AFTER]
    return recruiter.retire_lost_workers(at.connection, term=at.held_term, dead_after=dead_after)


def make_due_tasks(at: Pass) -> int:
    """Make the tasks of templates that are due; return the number of tasks."""
    return recruiter.make_due_tasks(at.connection, term=at.held_term)


def assign_due_tasks(at: Pass) -> int:
    """Assign due tasks to free workers; return their number."""
    return recruiter.assign_due_tasks(at.connection, term=at.held_term)
