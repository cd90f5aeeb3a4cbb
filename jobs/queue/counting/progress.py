"""
The progress of the crawl in steps of time: minutes, which become longer steps later.

The fold of counts adds the documents, bytes and requests to the present minute, in its own statement. So each delta
counts once, whichever process dies. The states of documents are samples.
"""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from nodes.membership.fences import TermHeld, hold_term

# Length of a step that is written (seconds).
MINUTE: Final = 60
# Steps that are summed up into longer ones: their length and the new length (seconds), and the age at which this
# happens.
COARSENED: Final = ((MINUTE, 300, dt.timedelta(days=1)), (300, 3600, dt.timedelta(days=7)))
# Length of the longest steps (seconds), and the age at which they are deleted.
LONGEST: Final = (3600, dt.timedelta(days=30))
# Age at which charges of hosts are deleted. At any time, only the busiest hosts have charges.
_KEPT_OF_HOSTS: Final = dt.timedelta(days=1)

PRESENT_MINUTE: Final[LiteralString] = "date_trunc('minute', statement_timestamp())"

# Part of the statement that folds the deltas `taken`. A document that ended is a positive amount at the last stage.
# Locks: the Progress rows of this minute, in the order of jobs.
ADD_PROGRESS: Final[LiteralString] = f"""
    INSERT INTO jobs_progress (job_id, step, at, documents, bytes, requests)
    SELECT coalesce(job_id, 0), {MINUTE:d}, {PRESENT_MINUTE},
           coalesce(sum(amount) FILTER (WHERE measure = 'stage' AND stage = {Stage.DONE:d}), 0),
           coalesce(sum(amount) FILTER (WHERE measure = 'bytes'), 0),
           coalesce(sum(amount) FILTER (WHERE measure = 'requests'), 0)
      FROM taken
     WHERE amount > 0 AND (measure IN ('bytes', 'requests') OR measure = 'stage' AND stage = {Stage.DONE:d})
     GROUP BY GROUPING SETS ((job_id), ()) HAVING count(*) > 0
     ORDER BY 1
    ON CONFLICT (job_id, step, at)
    DO UPDATE SET documents = jobs_progress.documents + excluded.documents, bytes = jobs_progress.bytes + excluded.bytes,
                  requests = jobs_progress.requests + excluded.requests
"""

# Stores the folded counts of running jobs as a sample. They are about a second old, because deltas that are not folded
# are left out. Locks: the Progress rows of this minute, in the order of jobs.
_SAMPLE: Final[LiteralString] = f"""
INSERT INTO jobs_progress (job_id, step, at, waiting, active, indexed, unchanged, failed, excluded)
SELECT coalesce(counter.job_id, 0), {MINUTE:d}, {PRESENT_MINUTE},
       coalesce(sum(amount) FILTER (WHERE stage = {Stage.PENDING:d}), 0),
       coalesce(sum(amount) FILTER (WHERE stage = {Stage.ACTIVE:d}), 0),
       coalesce(sum(amount) FILTER (WHERE stage = {Stage.DONE:d} AND outcome = {Outcome.INDEXED:d}), 0),
       coalesce(sum(amount) FILTER (WHERE stage = {Stage.DONE:d} AND outcome = {Outcome.UNCHANGED:d}), 0),
       coalesce(sum(amount) FILTER (WHERE stage = {Stage.DONE:d} AND outcome = {Outcome.FAILED:d}), 0),
       coalesce(sum(amount) FILTER (WHERE stage = {Stage.DONE:d} AND outcome = {Outcome.EXCLUDED:d}), 0)
  FROM jobs_job AS job JOIN jobs_jobcounter AS counter ON counter.job_id = job.id AND counter.run_no = job.run_no
 WHERE job.phase <> 'inactive' AND counter.measure = 'stage'
 GROUP BY GROUPING SETS ((counter.job_id), ())
 ORDER BY 1
ON CONFLICT (job_id, step, at)
DO UPDATE SET waiting = excluded.waiting, active = excluded.active, indexed = excluded.indexed,
              unchanged = excluded.unchanged, failed = excluded.failed, excluded = excluded.excluded
"""

# Locks: the deleted Progress rows, and the rows of longer steps. Only the main manager of the cluster writes these.
_COARSEN_PROGRESS: Final[LiteralString] = """
WITH old AS (
    DELETE FROM jobs_progress WHERE step = %(step)s AND at < date_bin(%(longer)s, %(now)s - %(age)s, 'epoch') RETURNING *
)
INSERT INTO jobs_progress (job_id, step, at, documents, bytes, requests, waiting, active, indexed, unchanged, failed, excluded)
SELECT job_id, %(seconds)s, date_bin(%(longer)s, at, 'epoch') AS begins_at, sum(documents), sum(bytes), sum(requests),
       (array_agg(waiting ORDER BY at DESC) FILTER (WHERE waiting IS NOT NULL))[1],
       (array_agg(active ORDER BY at DESC) FILTER (WHERE active IS NOT NULL))[1],
       (array_agg(indexed ORDER BY at DESC) FILTER (WHERE indexed IS NOT NULL))[1],
       (array_agg(unchanged ORDER BY at DESC) FILTER (WHERE unchanged IS NOT NULL))[1],
       (array_agg(failed ORDER BY at DESC) FILTER (WHERE failed IS NOT NULL))[1],
       (array_agg(excluded ORDER BY at DESC) FILTER (WHERE excluded IS NOT NULL))[1]
  FROM old GROUP BY job_id, begins_at
ON CONFLICT (job_id, step, at)
DO UPDATE SET documents = jobs_progress.documents + excluded.documents, bytes = jobs_progress.bytes + excluded.bytes,
              requests = jobs_progress.requests + excluded.requests
"""
_COARSEN_CHARGES: Final[LiteralString] = """
WITH old AS (
    DELETE FROM jobs_charge WHERE step = %(step)s AND at < date_bin(%(longer)s, %(now)s - %(age)s, 'epoch') RETURNING *
)
INSERT INTO jobs_charge (subject, subject_id, step, at, cause, seconds)
SELECT subject, subject_id, %(seconds)s, date_bin(%(longer)s, at, 'epoch') AS begins_at, cause, sum(seconds)
  FROM old GROUP BY subject, subject_id, begins_at, cause
ON CONFLICT (subject, subject_id, step, at, cause) DO UPDATE SET seconds = jobs_charge.seconds + excluded.seconds
"""
_DELETE_OLD: Final[tuple[LiteralString, ...]] = (
    "DELETE FROM jobs_progress WHERE step = %(step)s AND at < %(before)s",
    "DELETE FROM jobs_charge WHERE step = %(step)s AND at < %(before)s",
)
_DELETE_OF_HOSTS: Final[LiteralString] = (
    "DELETE FROM jobs_charge WHERE step = %(step)s AND at < %(before)s AND subject = 2"
)


def sample_states(connection: psycopg.Connection[Any], *, term: TermHeld) -> None:
    """
    Store the states of the documents of running jobs for the present minute.

    Raises:
        FenceRefused: another node is the main manager.
    """
    with connection.transaction():
        hold_term(connection, term)
        connection.execute(_SAMPLE)


def coarsen(connection: psycopg.Connection[Any], *, term: TermHeld, now: dt.datetime) -> None:
    """
    Sum up old steps into longer ones, and delete the oldest.

    Raises:
        FenceRefused: another node is the main manager.
    """
    with connection.transaction():
        hold_term(connection, term)
        connection.execute(_DELETE_OF_HOSTS, {"step": MINUTE, "before": now - _KEPT_OF_HOSTS})
        for step, seconds, age in COARSENED:
            facts = {"step": step, "seconds": seconds, "longer": dt.timedelta(seconds=seconds), "age": age, "now": now}
            connection.execute(_COARSEN_PROGRESS, facts)
            connection.execute(_COARSEN_CHARGES, facts)
        step, age = LONGEST
        for statement in _DELETE_OLD:
            connection.execute(statement, {"step": step, "before": now - age})
