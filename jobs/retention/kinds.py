"""The kind of tasks that deletes old rows of a subject."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from jobs.duties.cleaning import clean_by_task
from jobs.duties.retention_subjects import SUBJECTS
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind


def clean(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, int]:
    """
    Delete the old rows of a subject in chunks. Return the sum of deleted rows and dropped table partitions (of one day
    each).
    """

    def should_continue(deleted: int) -> bool:
        context.report({"deleted": deleted})
        return not context.is_cancelled()

    connection.ensure_connection()
    return {"deleted": clean_by_task(connection.connection, arguments["subject"], should_continue=should_continue)}


CLEAN: Final = Kind(
    name="clean",
    title="Delete the old rows of a subject",
    run=clean,
    properties={"subject": {"enum": list(SUBJECTS)}},
    required=("subject",),
    retry_policy={"policy": "times", "times": 3, "seconds": 60},
)

KINDS: Final = (CLEAN,)
