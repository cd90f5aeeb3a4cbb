"""Reseeding: a running job reads its seeds again, after its interval or after a change of a seed."""

import datetime as dt
from typing import Final, LiteralString

from django.db import connection, transaction

from jobs.duties.context import Pass
from jobs.duties.moves import move
from jobs.models import Job, Seed
from jobs.queue.sql.rows import named_rows
from nodes.membership.fences import hold_term

# Written exactly as the conditions of the indexes, so that the planner uses these.
_MAY_RESEED: Final[LiteralString] = """
job.node_scope = %(scope)s AND job.phase = 'active' AND NOT job.seeding AND job.pause = 'no'
   AND job."window" = 'inside' AND NOT job.resuming AND job.stop_request = 'none' AND job.connectors_ready
   AND job.move_hold = 0"""
# Jobs whose reseeding is due, and jobs with a seed that was added or changed since the last check. Such a seed may
# already have been read since its change.
JOBS_TO_RESEED: Final[LiteralString] = f"""
SELECT job.id, job.reseed_after, true AS is_due, 0 AS unread FROM jobs_job AS job
 WHERE {_MAY_RESEED} AND job.reseed_at <= %(now)s
 UNION ALL
SELECT job.id, NULL, false, job.unread FROM jobs_job AS job
 WHERE {_MAY_RESEED} AND job.unread > 0 AND (job.reseed_at IS NULL OR job.reseed_at > %(now)s)
"""
_ARE_UNREAD: Final[LiteralString] = """
SELECT DISTINCT seed.job_id
  FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id
 WHERE job.id = ANY(%(jobs)s) AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no
"""


def begin_reseeding(at: Pass) -> int:
    """Start reseeding of each job that is due or has new seeds; return the number of jobs."""
    with named_rows(at.connection) as cursor:
        jobs = cursor.execute(JOBS_TO_RESEED, {"scope": at.scope, "now": at.now}).fetchall()
        changed = [job.id for job in jobs if not job.is_due]
        unread = {row.job_id for row in cursor.execute(_ARE_UNREAD, {"jobs": changed})} if changed else set()
    begun = 0
    for job in jobs:
        if job.is_due or job.id in unread:
            begun += _begin(at, job.id, every=job.reseed_after)
        else:
            _forget(at, job.id, seen=job.unread)
    return begun


def _begin(at: Pass, job_id: int, *, every: dt.timedelta | None) -> bool:
    with transaction.atomic():
        facts = {} if every is None else {"reseed_at": at.now + every}
        if not move(at, job_id, "begin reseeding", facts=facts):
            return False
        if every is not None:
            Seed.objects.filter(job_id=job_id, removed_at=None).update(seeded_run=0)
    return True


def _forget(at: Pass, job_id: int, *, seen: int) -> None:
    """Store that all seeds of a job were read, unless a seed has changed meanwhile."""
    with transaction.atomic():
        hold_term(connection.connection, at.held_term)
        Job.objects.filter(pk=job_id, unread=seen).update(unread=0)
