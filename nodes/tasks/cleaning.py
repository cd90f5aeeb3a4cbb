"""The cleaner: it deletes ended tasks from the archive, in chunks."""

from collections.abc import Mapping
from typing import Any, Final

from django.db import connection

from nodes.database.clock import read_clock
from nodes.membership.silent_periods import moment_of_ages
from nodes.settings.running import current
from nodes.tasks.context import TaskContext
from nodes.tasks.kinds import Kind
from nodes.tasks.settings import CLEAN_AFTER

_CHUNK: Final = 2_000
_DELETE: Final = """
DELETE FROM tasks_archivedtask
 WHERE id IN (SELECT id FROM tasks_archivedtask WHERE archived_at <= %s - make_interval(secs => %s)
               ORDER BY archived_at LIMIT %s)
"""


def clean_archive(context: TaskContext, arguments: Mapping[str, Any]) -> dict[str, int]:
    """Delete tasks that ended `clean_after` seconds ago, by default those of the setting. Return their number."""
    connection.ensure_connection()
    now = moment_of_ages(connection.connection, now=read_clock())
    age = float(arguments.get("clean_after", current()[CLEAN_AFTER].total_seconds()))
    deleted = 0
    while not context.is_cancelled():
        with connection.cursor() as cursor:
            cursor.execute(_DELETE, [now, age, _CHUNK])
            if not cursor.rowcount:
                break
            deleted += cursor.rowcount
        context.report({"deleted": deleted})
    return {"deleted": deleted}


CLEAN: Final = Kind(
    name="clean_archive",
    title="Delete old tasks from the archive",
    run=clean_archive,
    properties={"clean_after": {"type": "number", "minimum": 0}},
    retry_policy={"policy": "times", "times": 3, "seconds": 60},
)
