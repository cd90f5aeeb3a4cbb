"""
Jobs that wait for the stores of their archive.

A worker reports with each heartbeat that its machine holds more unconfirmed archive files than it may
(`jobs/loops/worker/storing_archives.py`). Any worker may get documents of any job, so one worker with too many files
holds every job with an archive. Meanwhile no document of these jobs is handed out. The jobs continue without an
operator when the files are stored.
"""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.queue.wake import notify
from jobs.state import channels
from nodes.membership.fences import hold_term

_LIVE_WORKERS: Final[LiteralString] = (
    "nodes_node AS worker WHERE worker.scope = %(scope)s AND worker.kind = 'worker' AND worker.status = 'running'"
    " AND coalesce(worker.progress ->> 'archive', '') <> ''"
)
_HELD: Final[LiteralString] = "jobs_job AS job WHERE job.node_scope = %(scope)s AND job.archive_hold <> ''"

# Only running jobs are held: a run that ends, or removes documents, writes no archive. Locks: Job.
_HOLD: Final[LiteralString] = f"""
WITH found AS (
    SELECT coalesce(min(worker.progress ->> 'archive'), '') AS why FROM {_LIVE_WORKERS}
), wanted AS (
    SELECT job.id, CASE WHEN job.archive <> '' AND job.phase = 'active' THEN found.why ELSE '' END AS why
      FROM jobs_job AS job CROSS JOIN found
     WHERE job.node_scope = %(scope)s AND (job.archive_hold <> '' OR job.archive <> '' AND job.phase = 'active')
     ORDER BY job.id FOR NO KEY UPDATE OF job
)
UPDATE jobs_job AS job
   SET archive_hold = wanted.why,
       archive_held_since = CASE WHEN wanted.why = '' THEN NULL ELSE coalesce(job.archive_held_since, clock_timestamp()) END
  FROM wanted
 WHERE job.id = wanted.id AND job.archive_hold <> wanted.why
RETURNING job.id
"""

ARCHIVES_ARE_FULL: Final[LiteralString] = f"EXISTS (SELECT FROM {_LIVE_WORKERS}) OR EXISTS (SELECT FROM {_HELD})"


def hold_jobs_with_archive(at: Pass) -> int:
    """
    Hold the running jobs with an archive while a worker reports too many files, and release them afterwards. Return the
    number of changes.
    """
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        changed = at.connection.execute(_HOLD, {"scope": at.scope}).fetchall()
    for (job_id,) in changed:
        # After this notification, workers release the job's documents that they have not started.
        notify(at.connection, channels.CONTROL, str(job_id))
    return len(changed)
