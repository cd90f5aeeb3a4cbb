"""
Repair of wrong counts of documents, also while the job runs.

Correct processes count documents in the transaction that moves them. So a difference between counts and documents is
the same in every snapshot. One statement reads the difference and corrects it, and no process has to wait.
"""

from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Stage

# For some lanes of a job, in one snapshot: the counted documents, folded or not, and the documents that exist.
COUNTED_AND_EXISTING: Final[LiteralString] = """
counted AS (
    SELECT lane_id, run_no, stage, outcome, code, amount FROM jobs_counter
     WHERE job_id = %(job)s AND lane_id = ANY(%(lanes)s) AND measure = 'stage'
     UNION ALL
    SELECT lane_id, run_no, stage, outcome, code, amount FROM jobs_counterdelta
     WHERE job_id = %(job)s AND lane_id = ANY(%(lanes)s) AND measure = 'stage'
), existing AS (
    SELECT lane_id, run_no, stage, CASE WHEN stage = %(done)s THEN outcome ELSE 0 END AS outcome,
           CASE WHEN stage = %(done)s THEN result_code ELSE '' END AS code, count(*) AS amount
      FROM jobs_queueitem WHERE lane_id = ANY(%(lanes)s) AND job_id = %(job)s
     GROUP BY 1, 2, 3, 4, 5
), both_ AS (
    SELECT lane_id, run_no, stage, outcome, code, sum(counted) AS counted, sum(existing) AS existing
      FROM (SELECT lane_id, run_no, stage, outcome, code, amount AS counted, 0 AS existing FROM counted
             UNION ALL
            SELECT lane_id, run_no, stage, outcome, code, 0, amount FROM existing) AS all_
     GROUP BY lane_id, run_no, stage, outcome, code
)
"""
# Locks: an advisory lock until the transaction ends. Two concurrent repairs would both write the difference.
_ONE_AT_A_TIME: Final[LiteralString] = "SELECT pg_advisory_xact_lock(7215608412)"
# Locks: none. The difference is one more delta, which the main manager folds like any other.
_REPAIR_LANES: Final[LiteralString] = f"""
WITH {COUNTED_AND_EXISTING}
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT %(job)s, lane_id, run_no, 'stage', stage, outcome, code, existing - counted FROM both_ WHERE existing <> counted
"""
# Locks: the JobCounter rows that are wrong. A fold before or after this statement adds the same amount to the counts of
# the lanes and of the job.
_REPAIR_SUMS: Final[LiteralString] = """
INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
SELECT %(job)s, run_no, measure, stage, outcome, code, sum(amount)
  FROM (SELECT run_no, measure, stage, outcome, code, amount FROM jobs_counter WHERE job_id = %(job)s
         UNION ALL
        SELECT run_no, measure, stage, outcome, code, -amount FROM jobs_jobcounter WHERE job_id = %(job)s) AS both_
 GROUP BY run_no, measure, stage, outcome, code
HAVING sum(amount) <> 0
 ORDER BY run_no, measure, stage, outcome, code
ON CONFLICT (job_id, run_no, measure, stage, outcome, code)
DO UPDATE SET amount = jobs_jobcounter.amount + excluded.amount
"""


def repair_lanes(connection: psycopg.Connection[Any], *, job_id: int, lanes: list[int]) -> int:
    """Correct the counts of these lanes to match their documents; return the number of wrong counts."""
    facts = {"job": job_id, "lanes": lanes, "done": Stage.DONE}
    with connection.transaction():
        connection.execute(_ONE_AT_A_TIME)
        return connection.execute(_REPAIR_LANES, facts).rowcount


def repair_sums(connection: psycopg.Connection[Any], *, job_id: int) -> int:
    """Correct the counts of a job to the sums of its lanes' counts; return the number of wrong counts."""
    facts = {"job": job_id}
    with connection.transaction():
        connection.execute(_ONE_AT_A_TIME)
        return connection.execute(_REPAIR_SUMS, facts).rowcount
