"""Documents that are read again without conditions, because their stored content is lost or wrong."""

from collections.abc import Collection
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Action, Stage
from jobs.queue.sql.order import AGAIN

# Locks: none. The caller holds the rows.
_MAKE_DUE: Final[LiteralString] = f"""
WITH given AS (
    SELECT item.hash, item.job_id, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS wanted(hash, job_id)
      JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
), sent AS (
    UPDATE jobs_queueitem AS item
       SET stage = {Stage.PENDING:d}, seq = CASE WHEN given.stage = {Stage.DONE:d} THEN {AGAIN} ELSE item.seq END,
           check_time = CASE WHEN given.stage = {Stage.PENDING:d} THEN item.check_time END,
           action = {Action.PROCESS:d}, version = '', validators = '',
           outcome = CASE WHEN given.stage = {Stage.DONE:d} THEN 0 ELSE item.outcome END,
           result_code = CASE WHEN given.stage = {Stage.DONE:d} THEN '' ELSE item.result_code END,
           failures = CASE WHEN given.stage = {Stage.DONE:d} THEN 0 ELSE item.failures END,
           failing_since = CASE WHEN given.stage = {Stage.PENDING:d} THEN item.failing_since END,
           losses = CASE WHEN given.stage = {Stage.DONE:d} THEN 0 ELSE item.losses END
      FROM given WHERE item.hash = given.hash AND item.job_id = given.job_id
    RETURNING given.*
)
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT job_id, lane_id, run_no, 'stage', {Stage.DONE:d}, outcome, result_code, -count(*) FROM sent
 WHERE stage = {Stage.DONE:d} GROUP BY job_id, lane_id, run_no, outcome, result_code
 UNION ALL
SELECT job_id, lane_id, run_no, 'stage', {Stage.PENDING:d}, 0, '', count(*) FROM sent
 WHERE stage = {Stage.DONE:d} GROUP BY job_id, lane_id, run_no
"""


def make_due(cursor: psycopg.Cursor[Any], documents: Collection[tuple[str, int]]) -> None:
    """
    Make these documents (hash, job) due, to be read without conditions.

    The caller has locked their rows, which are pending or done, and their jobs are in no transition.
    """
    if documents:
        facts = {"hashes": [hash_ for hash_, _ in documents], "jobs": [job for _, job in documents]}
        cursor.execute(_MAKE_DUE, facts)
