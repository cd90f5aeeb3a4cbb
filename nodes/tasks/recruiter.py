"""
The recruiter: duties of the main manager. It retires lost workers, makes tasks of due templates, and assigns due tasks.

Each duty reads the tables, decides, and writes under the term. A write is guarded by the facts of its decision: if they
have changed, it changes nothing, and the next cycle decides again.
"""

import datetime as dt
import logging
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import class_row, namedtuple_row

from nodes.errors import Invalid
from nodes.membership.fences import TermHeld, hold_term
from nodes.tasks import roster
from nodes.tasks.channels import of_worker
from nodes.tasks.decisions import ANY, DueTask, FreeWorker, assign, groups_wanted
from nodes.tasks.schedules import due_moment, next_moment, read_schedule

logger = logging.getLogger(__name__)

# Largest number of free workers that one cycle reads. The next cycle follows immediately.
_MOST_WORKERS: Final = 2_000
_MOST_TEMPLATES: Final = 100

WORKERS: Final[LiteralString] = "SELECT FROM tasks_taskworker"
DUE_TEMPLATES: Final[LiteralString] = "SELECT FROM tasks_tasktemplate WHERE next_at <= now()"
# `now()` is the start of the transaction, so no task is assigned before its date.
_FREE: Final[LiteralString] = """
FROM tasks_taskworker AS worker
WHERE NOT is_leaving AND NOT EXISTS (SELECT FROM tasks_task AS task WHERE task.worker_id = worker.id)
"""
DUE_TASKS: Final[LiteralString] = f"""
SELECT FROM tasks_task WHERE worker_id IS NULL AND scheduled_at <= now() AND EXISTS (SELECT {_FREE})
"""
_FREE_WORKERS: Final[LiteralString] = f"SELECT id, work_on {_FREE} ORDER BY since, id LIMIT {_MOST_WORKERS}"
_DUE_OF_GROUPS: Final[LiteralString] = """
SELECT due.* FROM unnest(%(groups)s::text[], %(limits)s::int[]) AS wanted("group", most)
 CROSS JOIN LATERAL (
    SELECT id, "group", scheduled_at FROM tasks_task AS task
     WHERE worker_id IS NULL AND task."group" = wanted."group" AND scheduled_at <= now()
     ORDER BY scheduled_at, id LIMIT wanted.most
 ) AS due
"""
_DUE_OF_ANY: Final[LiteralString] = """
SELECT id, "group", scheduled_at FROM tasks_task
 WHERE worker_id IS NULL AND scheduled_at <= now() ORDER BY scheduled_at, id LIMIT %(most)s
"""
# Locks: TaskWorker, then Task, each by id.
_ASSIGN: Final[LiteralString] = """
WITH pair AS (
    SELECT * FROM unnest(%(tasks)s::bigint[], %(workers)s::uuid[]) AS pair(task, worker)
), free AS MATERIALIZED (
    SELECT worker.id, pair.task FROM tasks_taskworker AS worker JOIN pair ON pair.worker = worker.id
     WHERE NOT worker.is_leaving AND NOT EXISTS (SELECT FROM tasks_task AS other WHERE other.worker_id = worker.id)
     ORDER BY worker.id FOR NO KEY UPDATE OF worker
), due AS MATERIALIZED (
    SELECT task.id, free.id AS worker FROM tasks_task AS task JOIN free ON free.task = task.id
     WHERE task.worker_id IS NULL AND task.scheduled_at <= now()
     ORDER BY task.id FOR NO KEY UPDATE OF task
)
UPDATE tasks_task AS task SET worker_id = due.worker, epoch = epoch + 1, assigned_at = clock_timestamp()
  FROM due WHERE task.id = due.id
RETURNING task.worker_id
"""
_NOTIFY: Final[LiteralString] = "SELECT pg_notify(channel, '') FROM unnest(%(channels)s::text[]) AS channel"
_TEMPLATES: Final[LiteralString] = f"""
SELECT id, urn, schedule, next_at, now() AS now FROM tasks_tasktemplate
 WHERE next_at <= now() ORDER BY next_at, id LIMIT {_MOST_TEMPLATES}
"""
# Locks: the template's row. The moment must still be the next one: another main manager may have made its task.
_ADVANCE: Final[LiteralString] = """
UPDATE tasks_tasktemplate AS template SET next_at = %(next)s
 WHERE id = %(template)s AND next_at = %(planned)s
RETURNING "unique" AND EXISTS (SELECT FROM tasks_task AS task WHERE task.id = template.last_task) AS waits
"""
_MAKE: Final[LiteralString] = """
WITH template AS (
    UPDATE tasks_tasktemplate SET executions = executions + 1, last_moment = %(moment)s WHERE id = %(template)s
 RETURNING *
), made AS (
    INSERT INTO tasks_task (kind, arguments, "group", tags, urn, retry_policy, created_at, created_by, made_of,
                            made_of_urn, execution, scheduled_at)
    SELECT kind, arguments, "group", tags, '', retry_policy, clock_timestamp(), created_by, 'template', urn,
           executions, %(moment)s
      FROM template
 RETURNING id
)
SELECT id FROM made
"""
_REMEMBER: Final[LiteralString] = "UPDATE tasks_tasktemplate SET last_task = %(task)s WHERE id = %(template)s"


def retire_lost_workers(connection: psycopg.Connection[Any], *, term: TermHeld, dead_after: dt.timedelta) -> int:
    """
    Retire workers whose processes have ended or that were silent for `dead_after`. Return the number of retired
    workers.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    return roster.retire_lost(connection, dead_after=dead_after, term=term)


def make_due_tasks(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """
    Make a task of each due template. Return the number of tasks.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    with connection.cursor(row_factory=namedtuple_row) as cursor:
        templates = cursor.execute(_TEMPLATES).fetchall()
    return sum(_make_of(connection, template, term=term) for template in templates)


def _make_of(connection: psycopg.Connection[Any], template: Any, *, term: TermHeld) -> bool:
    try:
        schedule = read_schedule(template.schedule)
    except Invalid as error:
        # Another version of crawlctl stored a schedule that this version does not know.
        logger.error("the template %s makes no more tasks: %s", template.urn, error.by_field)  # noqa: TRY400
        moment = following = None
    else:
        moment = due_moment(schedule, planned=template.next_at, now=template.now)
        following = next_moment(schedule, after=moment)
    facts = {"template": template.id, "planned": template.next_at, "next": following, "moment": moment}
    with connection.transaction():
        hold_term(connection, term)
        advanced = connection.execute(_ADVANCE, facts).fetchone()
        if advanced is None or advanced[0] or moment is None:
            return False
        made = connection.execute(_MAKE, facts).fetchone()
        assert made is not None
        connection.execute(_REMEMBER, {"task": made[0], "template": template.id})
    return True


def assign_due_tasks(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """
    Assign due tasks to free workers. Return the number of assigned tasks.

    Raises:
        FenceRefused: the caller's term has ended.
    """
    with connection.cursor(row_factory=class_row(FreeWorker)) as cursor:
        workers = cursor.execute(_FREE_WORKERS).fetchall()
    wanted = groups_wanted(workers)
    of_any = wanted.pop(ANY, 0)
    with connection.cursor(row_factory=class_row(DueTask)) as cursor:
        tasks = cursor.execute(_DUE_OF_GROUPS, {"groups": list(wanted), "limits": list(wanted.values())}).fetchall()
        if of_any:
            tasks += cursor.execute(_DUE_OF_ANY, {"most": of_any}).fetchall()
    pairs = assign(workers, tasks)
    if not pairs:
        return 0
    with connection.transaction():
        hold_term(connection, term)
        assigned = connection.execute(
            _ASSIGN, {"tasks": [pair.task for pair in pairs], "workers": [pair.worker for pair in pairs]}
        ).fetchall()
        connection.execute(_NOTIFY, {"channels": [of_worker(worker) for (worker,) in assigned]})
    return len(assigned)
