"""
Statements that return claimed documents to the queue: `GIVE_BACK` from a worker, and `LOSE` from a lost worker.

Both take locked documents of one stage (`hashes`, `jobs`, `claimed`), and count them.
"""

from typing import Final, LiteralString

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Kind
from jobs.queue.sql.order import FRESH, KEPT

# Number of lost workers after which a document ends as WORKER_LOST: two that held it together with other documents,
# then three that held it alone.
_LOSSES_AT_MOST: Final = 5

# Counts the returned documents (`back`) out of the stage of their claim, and into their present stage.
_COUNT_BACK: Final[LiteralString] = f"""
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount, sample)
SELECT job_id, lane_id, run_no, 'stage', moved.stage, moved.outcome, moved.code, sum(moved.amount),
       (array_agg(back.lost) FILTER (WHERE moved.amount > 0 AND back.lost IS NOT NULL))[1]
  FROM back, LATERAL (VALUES
       (back.stage::int, CASE WHEN back.stage = {Stage.DONE:d} THEN outcome ELSE 0 END,
        CASE WHEN back.stage = {Stage.DONE:d} THEN result_code ELSE '' END, 1),
       (%(claimed)s, 0, '', -1)) AS moved(stage, outcome, code, amount)
 GROUP BY job_id, lane_id, run_no, moved.stage, moved.outcome, moved.code"""
# Stage of a document whose removal was given up: requested again, outside its job's hop limits, or as before.
_NOT_REMOVED: Final = f"""
CASE WHEN rescan THEN {Stage.PENDING:d}
     WHEN action = {Action.LEAVE:d} THEN {Stage.HOPCOUNT_REMOVED:d}
     ELSE {Stage.DONE:d} END"""
_ACTION_AFTER: Final = f"CASE WHEN action = {Action.LEAVE:d} THEN {Action.PROCESS:d} ELSE action END"
# An expired document is due again at `until`, if that is given.
GIVE_BACK: Final[LiteralString] = f"""
WITH back AS (
    UPDATE jobs_queueitem AS item
       SET stage = CASE WHEN stage = {Stage.ACTIVE:d} THEN {Stage.PENDING:d} ELSE {_NOT_REMOVED} END,
           batch_id = NULL, rescan = false, action = {_ACTION_AFTER},
           indexed_before = indexed_before OR %(uncertain)s, version = CASE WHEN %(uncertain)s THEN '' ELSE version END,
           validators = CASE WHEN %(uncertain)s THEN '' ELSE validators END,
           check_time = CASE WHEN action = {Action.EXPIRE:d} THEN coalesce(%(until)s, check_time) ELSE check_time END,
           seq = CASE WHEN stage = {Stage.ACTIVE:d} THEN {KEPT} WHEN rescan THEN {FRESH} END
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS given(hash, job_id)
     WHERE item.hash = given.hash AND item.job_id = given.job_id
    RETURNING item.job_id, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code,
              NULL::uuid AS lost
)
{_COUNT_BACK}"""
# True for a document that ends because it was lost too often.
_IS_GIVEN_UP: Final = f"stage = {Stage.ACTIVE:d} AND losses + 1 >= {_LOSSES_AT_MOST}"
# The next look at a document that is given up in a continuous job. As after any other failure, it is read again or
# expires.
_LOOK_AGAIN: Final[LiteralString] = f"""
SELECT %(now)s + least(job.recrawl_after, job.expire_after) AS at,
       CASE WHEN job.expire_after < job.recrawl_after OR job.recrawl_after IS NULL THEN {Action.EXPIRE:d}
            ELSE {Action.PROCESS:d} END AS next_action
  FROM jobs_job AS job
 WHERE job.id = item.job_id AND job.kind = '{Kind.CONTINUOUS}' AND num_nonnulls(job.recrawl_after, job.expire_after) > 0
"""
LOSE: Final[LiteralString] = f"""
WITH back AS (
    UPDATE jobs_queueitem AS item
       SET stage = CASE WHEN stage <> {Stage.ACTIVE:d} THEN {_NOT_REMOVED}
                        WHEN {_IS_GIVEN_UP} THEN {Stage.DONE:d}
                        ELSE {Stage.PENDING:d} END,
           outcome = CASE WHEN {_IS_GIVEN_UP} THEN 3 ELSE outcome END,
           result_code = CASE WHEN {_IS_GIVEN_UP} THEN 'WORKER_LOST' ELSE result_code END,
           (check_time, action) = (
               SELECT CASE WHEN {_IS_GIVEN_UP} AND check_time IS NULL THEN again.at ELSE check_time END,
                      CASE WHEN {_IS_GIVEN_UP} AND check_time IS NULL AND again.at IS NOT NULL THEN again.next_action
                           ELSE {_ACTION_AFTER} END
                 FROM (SELECT) AS always LEFT JOIN ({_LOOK_AGAIN}) AS again ON true),
           batch_id = NULL, rescan = false, indexed_before = true, validators = '', losses = losses + 1,
           seq = CASE WHEN {_IS_GIVEN_UP} THEN NULL WHEN stage = {Stage.ACTIVE:d} THEN {KEPT} WHEN rescan THEN {FRESH} END
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS given(hash, job_id)
     WHERE item.hash = given.hash AND item.job_id = given.job_id
    RETURNING item.job_id, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code,
              CASE WHEN stage = {Stage.DONE:d} AND result_code = 'WORKER_LOST' THEN item.hash END AS lost
)
{_COUNT_BACK}"""
