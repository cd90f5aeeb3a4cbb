"""
Exact counts of documents, without rows that many processes update. A process that changes stages of documents appends
deltas in the same transaction. About once a second the main manager folds them into the counts of lanes and of jobs. A
count is the sum of the folded rows and the deltas in one snapshot.
"""

import datetime as dt
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.document import Stage
from jobs.queue.counting.progress import ADD_PROGRESS
from jobs.queue.sql.low_water import LOWEST_DELTA
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from nodes.membership.fences import TERM_FENCE, TermHeld

_FOLDED_AT_ONCE: Final = 20_000
# Number of rows with a run's differences by host, above which all further hosts share one row.
DIFFERENCES_OF_RUN: Final = 1_000
# Largest number of example documents that a row of differences names.
EXAMPLES: Final = 5

# True if unfolded deltas may exist. The sequence is read, because a scan of the table would read the dead rows of
# folded deltas until vacuum.
COUNTS_TO_FOLD: Final[LiteralString] = f"(SELECT last_value FROM jobs_counterdelta_id_seq) >= {LOWEST_DELTA}"

# The statement also groups failures, which are the deltas with a sample: a delta has one only if a document has just
# failed. It also adds differences between runs by host. After `DIFFERENCES_OF_RUN` rows of a run, all further hosts
# share one row. Locks: MainTerm SHARE (the term fence), the deltas that it deletes; then Counter, JobCounter, Progress,
# FailureGroup, FailureHour and RunDifference rows, each in the order of their keys. Only main managers write these
# rows. Main managers of several scopes may fold at the same time.
_FOLD: Final[LiteralString] = f"""
WITH term AS MATERIALIZED ({TERM_FENCE}), taken AS (
    -- Found by `ctid`: if no delta was left at the last ANALYZE, the planner does not know which index finds an id.
    DELETE FROM jobs_counterdelta
     WHERE ctid = ANY(ARRAY(
           SELECT ctid FROM jobs_counterdelta WHERE EXISTS (SELECT FROM term) AND id >= {LOWEST_DELTA}
            ORDER BY id LIMIT {_FOLDED_AT_ONCE} FOR UPDATE SKIP LOCKED))
    RETURNING job_id, lane_id, run_no, measure, stage, outcome, code, amount, sample, example
), folded AS (
    INSERT INTO jobs_counter (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, measure, stage, outcome, code, sum(amount)
      FROM taken WHERE measure <> 'differs' GROUP BY job_id, run_no, lane_id, measure, stage, outcome, code
    HAVING sum(amount) <> 0
     ORDER BY job_id, run_no, lane_id, measure, stage, outcome, code
    ON CONFLICT (job_id, run_no, lane_id, measure, stage, outcome, code)
    DO UPDATE SET amount = jobs_counter.amount + excluded.amount
    RETURNING 1
), added_up AS (
    INSERT INTO jobs_jobcounter (job_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, run_no, measure, stage, outcome, code, sum(amount)
      FROM taken WHERE measure <> 'differs' GROUP BY job_id, run_no, measure, stage, outcome, code
    HAVING sum(amount) <> 0
     ORDER BY job_id, run_no, measure, stage, outcome, code
    ON CONFLICT (job_id, run_no, measure, stage, outcome, code)
    DO UPDATE SET amount = jobs_jobcounter.amount + excluded.amount
), progressed AS ({ADD_PROGRESS}), failed AS MATERIALIZED (
    SELECT taken.job_id, lane.bin_id, taken.code, sum(taken.amount) AS times, (array_agg(taken.sample))[1] AS sample
      FROM taken JOIN jobs_lane AS lane ON lane.id = taken.lane_id
     WHERE taken.sample IS NOT NULL
     GROUP BY taken.job_id, lane.bin_id, taken.code
), grouped AS (
    INSERT INTO jobs_failuregroup (job_id, bin_id, code, first_at, last_at, times, sample)
    SELECT job_id, bin_id, code, %(now)s, %(now)s, times, sample FROM failed ORDER BY job_id, bin_id, code
    ON CONFLICT (job_id, bin_id, code)
    DO UPDATE SET last_at = excluded.last_at, times = jobs_failuregroup.times + excluded.times, sample = excluded.sample
    RETURNING id, job_id, bin_id, code
), of_hour AS (
    INSERT INTO jobs_failurehour (group_id, hour, times)
    SELECT grouped.id, date_trunc('hour', %(now)s::timestamptz, 'UTC'), failed.times
      FROM grouped JOIN failed ON (failed.job_id, failed.bin_id, failed.code) = (grouped.job_id, grouped.bin_id, grouped.code)
     ORDER BY grouped.id
    ON CONFLICT (group_id, hour) DO UPDATE SET times = jobs_failurehour.times + excluded.times
), kept AS MATERIALIZED (
    -- Counted once for each run: as a part of the join, the rows would be counted for each delta.
    SELECT run.job_id, run.run_no,
           (SELECT count(*) FROM jobs_rundifference AS difference
             WHERE difference.job_id = run.job_id AND difference.run_no = run.run_no) AS rows
      FROM (SELECT DISTINCT job_id, run_no FROM taken WHERE measure = 'differs') AS run
), differing AS MATERIALIZED (
    SELECT taken.job_id, taken.run_no, taken.stage AS before, taken.outcome AS after, taken.code,
           CASE WHEN lane.bin_id IS NULL OR kept.rows > {DIFFERENCES_OF_RUN} THEN 0 ELSE lane.bin_id END AS bin_id,
           taken.amount, taken.example
      FROM taken JOIN kept ON kept.job_id = taken.job_id AND kept.run_no = taken.run_no
      LEFT JOIN jobs_lane AS lane ON lane.id = taken.lane_id
     WHERE taken.measure = 'differs'
), differed AS (
    INSERT INTO jobs_rundifference (job_id, run_no, before, after, code, bin_id, amount, examples)
    SELECT job_id, run_no, before, after, code, bin_id, sum(amount),
           coalesce((array_agg(example) FILTER (WHERE example <> ''))[:{EXAMPLES}], '{{}}')
      FROM differing GROUP BY job_id, run_no, before, after, code, bin_id
     ORDER BY job_id, run_no, before, after, code, bin_id
    ON CONFLICT (job_id, run_no, before, after, code, bin_id)
    DO UPDATE SET amount = jobs_rundifference.amount + excluded.amount,
                  examples = (jobs_rundifference.examples || excluded.examples)[:{EXAMPLES}]
)
SELECT (SELECT count(*) FROM term), (SELECT count(*) FROM folded)
"""

_READ: Final[LiteralString] = f"""
SELECT measure, stage, outcome, code, sum(amount)::bigint AS amount
  FROM (SELECT measure, stage, outcome, code, amount FROM jobs_jobcounter WHERE job_id = %(job)s AND run_no = %(run)s
         UNION ALL
        SELECT measure, stage, outcome, code, amount FROM jobs_counterdelta
          WHERE job_id = %(job)s AND run_no = %(run)s AND id >= {LOWEST_DELTA}) AS both_
 GROUP BY measure, stage, outcome, code
HAVING sum(amount) <> 0
"""


_FORGET: Final[tuple[LiteralString, ...]] = (
    "DELETE FROM jobs_counter WHERE job_id = %(job)s",
    "DELETE FROM jobs_jobcounter WHERE job_id = %(job)s",
    "DELETE FROM jobs_counterdelta WHERE job_id = %(job)s",
    "DELETE FROM jobs_progress WHERE job_id = %(job)s",
    "DELETE FROM jobs_charge WHERE subject = 1 AND subject_id = %(job)s",
    "DELETE FROM jobs_failurehour WHERE group_id IN (SELECT id FROM jobs_failuregroup WHERE job_id = %(job)s)",
    "DELETE FROM jobs_failuregroup WHERE job_id = %(job)s",
    "DELETE FROM jobs_rundifference WHERE job_id = %(job)s",
)


@dataclass(frozen=True, slots=True)
class RunCounts:
    """
    Counts of the documents of one run. `codes` counts ended documents by result code.

    `offered` counts references that workers sent to the database: each worker sends an identifier once, and again after
    the worker has forgotten it (`jobs.loops.worker.known_references`).
    """

    pending: int = 0
    active: int = 0
    indexed: int = 0
    unchanged: int = 0
    failed: int = 0
    excluded: int = 0
    deleted: int = 0
    bytes: int = 0
    offered: int = 0
    codes: dict[str, int] = field(default_factory=dict)

    @property
    def processed(self) -> int:
        """Return the number of documents that ended in this run."""
        return self.indexed + self.unchanged + self.failed + self.excluded

    @property
    def waiting(self) -> int:
        return self.pending + self.active


@retried
def fold(connection: psycopg.Connection[Any], *, term: TermHeld, now: dt.datetime) -> int:
    """
    Fold deltas into counters and groups of failures; return the number of written counters.

    Raises:
        FenceRefused: another node is the main manager.
    """
    row = connection.execute(_FOLD, {**term.as_facts(), "now": now}).fetchone()
    assert row is not None
    if not row[0]:
        raise term.refused()
    return int(row[1])


def forget(connection: psycopg.Connection[Any], *, job_id: int) -> None:
    """Delete all counts of a job, its progress, and its groups of failures."""
    for statement in _FORGET:
        connection.execute(statement, {"job": job_id})


def read_run(connection: psycopg.Connection[Any], *, job_id: int, run_no: int) -> RunCounts:
    """Return the present counts of one run of a job."""
    with named_rows(connection) as cursor:
        rows = cursor.execute(_READ, {"job": job_id, "run": run_no}).fetchall()
    by_stage = {stage: sum(r.amount for r in rows if r.measure == "stage" and r.stage == stage) for stage in Stage}
    ended = [row for row in rows if row.measure == "stage" and row.stage == Stage.DONE]
    by_outcome = {outcome: sum(r.amount for r in ended if r.outcome == outcome) for outcome in range(5)}
    codes: dict[str, int] = {}
    for row in ended:
        codes[row.code] = codes.get(row.code, 0) + row.amount
    events = {row.measure: row.amount for row in rows if row.measure != "stage"}
    return RunCounts(
        pending=by_stage[Stage.PENDING],
        active=by_stage[Stage.ACTIVE],
        indexed=by_outcome[1],
        unchanged=by_outcome[2],
        failed=by_outcome[3],
        excluded=by_outcome[4],
        deleted=events.get("deleted", 0),
        bytes=events.get("bytes", 0),
        offered=events.get("offered", 0),
        codes=dict(sorted(codes.items())),
    )
