"""Reseeding: a job that runs reads its seeds anew, after its interval, or because one of them was changed."""

import datetime as dt
from typing import Final, LiteralString

from django.db import transaction

from jobs.duties.context import Pass
from jobs.duties.moves import move
from jobs.models import Seed
from jobs.queue.rows import named_rows

JOBS_TO_RESEED: Final[LiteralString] = """
SELECT job.id, job.reseed_after, coalesce(job.reseed_at <= %(now)s, false) AS is_due
  FROM jobs_job AS job
 WHERE job.node_scope = %(scope)s AND job.phase = 'active' AND NOT job.seeding AND job.pause = 'no'
   AND job."window" = 'inside' AND NOT job.resuming AND job.stop_request = 'none' AND job.connectors_ready
   AND (job.reseed_at <= %(now)s
        OR EXISTS (SELECT FROM jobs_seed AS seed
                    WHERE seed.job_id = job.id AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no))
"""


def begin_reseeding(at: Pass) -> int:
    """Let the owners read the seeds of each job whose time has come; returns how many jobs."""
    with named_rows(at.connection) as cursor:
        due = cursor.execute(JOBS_TO_RESEED, {"scope": at.scope, "now": at.now}).fetchall()
    return sum(_begin(at, job.id, every=job.reseed_after if job.is_due else None) for job in due)


def _begin(at: Pass, job_id: int, *, every: dt.timedelta | None) -> bool:
    with transaction.atomic():
        facts = {} if every is None else {"reseed_at": at.now + every}
        if not move(at, job_id, "begin reseeding", facts=facts):
            return False
        if every is not None:
            Seed.objects.filter(job_id=job_id, removed_at=None).update(seeded_run=0)
    return True
