"""
Finishing and draining: the main ends runs of which nothing is left, and stops what was asked to stop.

Pausing and aborting share one rule: no document of the job is claimed. A run is finished when none of
its documents is pending or claimed; then what it did not reach is cleaned, unless it ended otherwise.
"""

from typing import Any, Final, LiteralString

from jobs.duties.context import Pass
from jobs.lifecycle.job import RunEnd
from jobs.models import Job
from jobs.queue.order import FIRST_FRESH
from jobs.queue.rows import named_rows
from jobs.transitions import JobUnknown, TransitionRefused, make_transition

# Cheap first: a lane that may hand something out, or a batch that is out, and nothing is at an end.
JOBS_AT_REST: Final[LiteralString] = """
SELECT job.id, job.run_no, job.phase, job.pause, job.stop_request, job.reason,
       budget.job_id IS NOT NULL AND budget.admitted >= budget.most AS is_at_limit
  FROM jobs_job AS job LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id
 WHERE job.node_scope = %(scope)s AND job.phase NOT IN ('inactive', 'ready_for_delete')
   AND (job.phase IN ('active', 'shutting_down', 'deleting') OR job.stop_request <> 'none')
   AND NOT EXISTS (
       SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = job.id
        WHERE batch.node_scope = %(scope)s AND batch.state IN ('available', 'sent'))
"""
# Walks the job's lanes, one probe of an index each.
_LEFT: Final[LiteralString] = """
SELECT EXISTS (
       SELECT FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
        WHERE seed.job_id = %(job)s
          AND (EXISTS (SELECT FROM jobs_queueitem AS item
                        WHERE item.lane_id = lane.id AND item.run_no = %(run)s AND item.stage = 0
                          AND item.seq IS NOT NULL AND item.seq < %(below)s)
               OR EXISTS (SELECT FROM jobs_queueitem AS item
                           WHERE item.lane_id = lane.id AND item.stage = 0 AND item.seq IS NULL AND item.run_no = %(run)s)))
"""
_OLDER: Final[LiteralString] = """
SELECT EXISTS (
       SELECT FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
        WHERE seed.job_id = %(job)s
          AND EXISTS (SELECT FROM jobs_queueitem AS item WHERE item.lane_id = lane.id AND item.run_no < %(before)s))
"""
_WAKE: Final[LiteralString] = """
UPDATE jobs_lane SET ready_at = %(now)s, head = 0 WHERE seed_id IN (SELECT id FROM jobs_seed WHERE job_id = %(job)s)
"""
_EVERY_RUN: Final = 2**31 - 1
_NEVER: Final = 1 << 62


def end_runs(at: Pass) -> int:
    """Move each job that has come to rest; returns how many moved."""
    moved = 0
    with named_rows(at.connection) as cursor:
        for job in cursor.execute(JOBS_AT_REST, {"scope": at.scope}).fetchall():
            moved += _move(at, job)
    return moved


def begin_deleting(at: Pass) -> int:
    """Let the owners hand out everything of jobs that are to be deleted; returns how many jobs."""
    ready = at.connection.execute(
        "SELECT id FROM jobs_job WHERE node_scope = %s AND phase = 'ready_for_delete'", (at.scope,)
    ).fetchall()
    for (job_id,) in ready:
        at.connection.execute(_WAKE, {"job": job_id, "now": at.now})
        _try(at, job_id, "begin deleting")
    return len(ready)


def _move(at: Pass, job: Any) -> bool:
    if job.stop_request == "abort":
        return _try(at, job.id, "end aborted", ended=RunEnd.ABORTED, reason=job.reason)
    if job.phase == "deleting":
        return not _is_left(at, _OLDER, job, before=_EVERY_RUN) and _drop_job(at, job.id)
    if job.phase == "shutting_down":
        return not _is_left(at, _OLDER, job, before=job.run_no) and _try(at, job.id, "finish", ended=RunEnd.FINISHED)
    if job.pause == "pausing":
        return _try(at, job.id, "come to rest", reason=job.reason)
    if job.pause == "paused":
        return False
    below = FIRST_FRESH if job.is_at_limit else _NEVER
    if _is_left(at, _LEFT, job, run=job.run_no, below=below):
        return False
    if job.is_at_limit and _is_left(at, _LEFT, job, run=job.run_no, below=_NEVER):
        return _try(at, job.id, "end at its limit", ended=RunEnd.DOCUMENT_LIMIT)
    at.connection.execute(_WAKE, {"job": job.id, "now": at.now})
    return _try(at, job.id, "shut down")


def _is_left(at: Pass, question: LiteralString, job: Any, **facts: int) -> bool:
    row = at.connection.execute(question, {"job": job.id, **facts}).fetchone()
    return bool(row and row[0])


def _try(at: Pass, job_id: int, name: str, *, ended: RunEnd | None = None, reason: str = "") -> bool:
    """Make a transition; somebody may have made another in between, which then holds."""
    facts: dict[str, object] = {} if ended is None else {"ended_at": at.now, "run_end": ended}
    try:
        make_transition(job_id, name, made_by="manager", now=at.now, facts=facts, reason=reason, term=at.office)
    except (TransitionRefused, JobUnknown):
        return False
    return True


def _drop_job(at: Pass, job_id: int) -> bool:
    """The job's documents are gone: so is it."""
    at.connection.execute("DELETE FROM jobs_counter WHERE job_id = %s", (job_id,))
    at.connection.execute("DELETE FROM jobs_counterdelta WHERE job_id = %s", (job_id,))
    return bool(Job.objects.filter(pk=job_id, phase="deleting").delete()[0])
