"""The rows of runs, written in the transactions that start and end them."""

import datetime as dt
from typing import Any, Final, LiteralString

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import RunEnd
from jobs.models import Job, Outcome, Run
from jobs.state.run_samples import keep_sample

# Largest number of kept runs of one job.
KEPT: Final = 200

# One statement reads the folded counts and the deltas that are not folded yet, so both are of one snapshot.
_END: Final[LiteralString] = """
UPDATE jobs_run SET ended_at = %(ended)s, run_end = %(end)s, reason = %(reason)s,
       indexed = counted.indexed, unchanged = counted.unchanged, failed = counted.failed, excluded = counted.excluded,
       deleted = counted.deleted, bytes = counted.bytes
  FROM (SELECT coalesce(sum(amount) FILTER (WHERE is_done AND outcome = %(indexed)s), 0) AS indexed,
               coalesce(sum(amount) FILTER (WHERE is_done AND outcome = %(unchanged)s), 0) AS unchanged,
               coalesce(sum(amount) FILTER (WHERE is_done AND outcome = %(failed)s), 0) AS failed,
               coalesce(sum(amount) FILTER (WHERE is_done AND outcome = %(excluded)s), 0) AS excluded,
               coalesce(sum(amount) FILTER (WHERE measure = 'deleted'), 0) AS deleted,
               coalesce(sum(amount) FILTER (WHERE measure = 'bytes'), 0) AS bytes
          FROM (SELECT measure, measure = 'stage' AND stage = %(done)s AS is_done, outcome, amount FROM jobs_jobcounter
                 WHERE job_id = %(job)s AND run_no = %(run)s
                 UNION ALL
                SELECT measure, measure = 'stage' AND stage = %(done)s AS is_done, outcome, amount FROM jobs_counterdelta
                 WHERE job_id = %(job)s AND run_no = %(run)s) AS each_one) AS counted
 WHERE jobs_run.id = %(id)s
"""
_NUMBERS: Final = {
    "done": int(Stage.DONE),
    "indexed": int(Outcome.INDEXED),
    "unchanged": int(Outcome.UNCHANGED),
    "failed": int(Outcome.FAILED),
    "excluded": int(Outcome.EXCLUDED),
}


def begin_row(job: Job, *, made_by: str, now: dt.datetime) -> None:
    """Write the row of a run that was just requested, and remove the row of a run that is no longer kept."""
    number = job.run_no + 1
    unfinished = Run.objects.filter(job=job, run_no=job.run_no, ended_at=None).first()
    if unfinished is not None:
        # A restart ends the run as an abort does.
        _end(unfinished, job, run_end=RunEnd.ABORTED, reason="", now=now)
    # A run that was aborted before its preparation may have left a row with this number.
    Run.objects.filter(job=job, run_no=number).delete()
    Run.objects.create(job=job, run_no=number, started_at=now, started_by=made_by, has_differences=True)
    Run.objects.filter(job=job, run_no__lte=number - KEPT).delete()


def end_row(job: Job, *, now: dt.datetime) -> None:
    """Write the end of the job's run, its counts, and a sample of its documents."""
    row = Run.objects.filter(job=job, run_no__gte=job.run_no).order_by("-run_no").first()
    if row is not None:
        _end(row, job, run_end=job.run_end, reason=job.reason, now=now)


def _end(row: Run, job: Job, *, run_end: str, reason: str, now: dt.datetime) -> None:
    facts: dict[str, Any] = {
        **_NUMBERS,
        "id": row.pk,
        "job": job.pk,
        "run": row.run_no,
        "ended": now,
        "end": run_end,
        "reason": reason,
    }
    with connection.cursor() as cursor:
        cursor.execute(_END, facts)
        keep_sample(cursor, run_id=row.pk, job_id=job.pk, since=row.started_at)
