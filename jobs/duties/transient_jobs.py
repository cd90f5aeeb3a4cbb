"""
Jobs in transient states. One query finds these jobs, and a function for each state decides whether the job can
continue.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.moves import move
from jobs.duties.notify import begin_notifying, finish_notifying
from jobs.duties.one_by_one import one_by_one
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import wake_job

# Only running jobs can be resuming. The condition on the phase lets the planner use the index of running jobs.
PASSING_JOBS: Final[LiteralString] = """
SELECT id, phase, resuming, failures, failing_since, retry_at FROM jobs_job
 WHERE node_scope = %(scope)s AND phase <> 'inactive'
   -- A running job may wait to read its seeds again. That delays no resume.
   AND (phase IN ('ready_for_notify', 'notifying', 'ready_for_delete', 'delete_starting_up', 'ready_for_delete_notify',
                  'notifying_of_deletion') AND (retry_at IS NULL OR retry_at <= %(now)s)
        OR (resuming AND stop_request = 'none'))
 ORDER BY id
"""
_UNOWNED: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_seed AS seed LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
                WHERE seed.job_id = %(job)s AND held.state IS DISTINCT FROM 'owned')
"""


def pass_on(at: Pass) -> int:
    """Move each job in a transient state to its next one; return the number of moved jobs."""
    with named_rows(at.connection) as cursor:
        passing = cursor.execute(PASSING_JOBS, {"scope": at.scope, "now": at.now}).fetchall()
    return one_by_one(
        passing,
        lambda job: _STEPS["resuming" if job.resuming else job.phase](at, job),
        name=lambda job: f"job {job.id}",
    )


def _go_on(at: Pass, job: Any) -> bool:
    return move(at, job.id, "continue")


def _prepare_deletion(at: Pass, job: Any) -> bool:
    row = at.connection.execute(_UNOWNED, {"job": job.id}).fetchone()
    assert row is not None
    return not row[0] and move(at, job.id, "prepare deletion")


def _begin_deleting(at: Pass, job: Any) -> bool:
    """Wake the job's lanes, so that the owners hand out all its documents for removal."""
    wake_job(at.connection, job_id=job.id, now=at.now)
    return move(at, job.id, "begin deleting")


_STEPS: Final[Mapping[str, Callable[[Pass, Any], bool]]] = {
    "resuming": _go_on,
    "ready_for_notify": begin_notifying,
    "notifying": finish_notifying,
    "ready_for_delete": _prepare_deletion,
    "delete_starting_up": _begin_deleting,
    "ready_for_delete_notify": begin_notifying,
    "notifying_of_deletion": finish_notifying,
}
