"""
Checks of a few invariants of the cluster while it runs.

These checks show operators that the invariants hold now, on their own data. Each check is one statement, so it sees one
snapshot. A check is cheap, because it reads active rows and a sample of the other rows. A state that is allowed for a
moment (a node has just ended) counts as a violation only after some time.
"""

import logging
import random
import time
from collections.abc import Mapping
from typing import Any, Final, LiteralString

import psycopg
from psycopg.errors import QueryCanceled

from jobs.duties.context import Pass
from jobs.lifecycle.document import Stage
from jobs.models import InvariantCheck
from jobs.queue.sql.states import read_states
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term

logger = logging.getLogger(__name__)

# Largest number of violations that are counted.
_COUNTED: Final = 100
_SETTLED: Final[LiteralString] = "stopped_at < clock_timestamp() - interval '30 seconds'"

_OWNERS: Final[LiteralString] = f"""
SELECT 'group ' || held.id || ', owned by ' || coalesce('the ' || node.status || ' ' || node.kind || ' ' || node.name, 'no node')
  FROM jobs_throttlegroup AS held LEFT JOIN nodes_node AS node ON node.id = held.owner_id
 WHERE held.node_scope = '{CLUSTER_SCOPE}' AND held.state <> 'free'
   AND (node.id IS NULL OR node.kind <> 'manager' OR {_SETTLED})
"""
_CLAIMS: Final[LiteralString] = """
SELECT item.identifier || ', in batch ' || item.batch_id || coalesce(', which is ' || batch.state, ', which no longer exists')
  FROM jobs_queueitem AS item LEFT JOIN jobs_batch AS batch ON batch.id = item.batch_id
 WHERE item.batch_id IS NOT NULL AND (batch.id IS NULL OR batch.state NOT IN ('available', 'sent'))
"""
_WORKERS: Final[LiteralString] = f"""
SELECT 'batch ' || batch.id || ', sent to ' || coalesce('the ' || node.status || ' ' || node.kind || ' ' || node.name, 'no node')
  FROM jobs_batch AS batch LEFT JOIN nodes_node AS node ON node.id = batch.worker_id
 WHERE batch.state = 'sent' AND (node.id IS NULL OR {_SETTLED})
"""
# The bins with open turns, and a sample of the other bins, which must have no counted turn. A turn counts in its bin,
# and in each parent whose limits apply to it.
_PLACES: Final[LiteralString] = f"""
WITH held AS MATERIALIZED (
    SELECT bin_id, requests FROM jobs_turn WHERE closed_at IS NULL
     UNION ALL
    SELECT above.id::bigint, turn.requests FROM jobs_turn AS turn CROSS JOIN LATERAL jsonb_object_keys(turn.parents) AS above(id)
     WHERE turn.closed_at IS NULL
), examined AS MATERIALIZED (
    SELECT bin_id AS id FROM held
     UNION
    (SELECT id FROM jobs_bin WHERE id >= %(draw)s * (SELECT max(id) FROM jobs_bin) ORDER BY id LIMIT 500)
)
SELECT bin.name || ': ' || state.open_turns || ' turns and ' || state.open_requests || ' requests are counted, '
       || count(held.bin_id) || ' and ' || coalesce(sum(held.requests), 0) || ' are open'
  FROM examined JOIN jobs_bin AS bin USING (id)
 CROSS JOIN LATERAL {read_states("open_turns, open_requests", of="bin", number="bin.id")} AS state
  LEFT JOIN held ON held.bin_id = bin.id
 GROUP BY bin.id, state.open_turns, state.open_requests
HAVING (state.open_turns, state.open_requests) <> (count(held.bin_id), coalesce(sum(held.requests), 0))
"""
# Some lanes with documents of the present run of their job. Long lanes are left out.
_COUNTS: Final[LiteralString] = f"""
WITH examined AS MATERIALIZED (
    SELECT lane.id AS lane_id, job.id AS job_id, job.run_no
      FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id JOIN jobs_job AS job ON job.id = seed.job_id
     WHERE lane.id >= %(draw)s * (SELECT max(id) FROM jobs_lane)
     ORDER BY lane.id LIMIT 20
), counted AS MATERIALIZED (
    SELECT lane_id, stage, outcome, code, sum(amount) AS amount
      FROM (SELECT lane_id, stage, outcome, code, amount FROM examined JOIN jobs_counter USING (job_id, run_no, lane_id)
             WHERE measure = 'stage'
             UNION ALL
            SELECT lane_id, stage, outcome, code, amount FROM examined JOIN jobs_counterdelta USING (job_id, run_no, lane_id)
             WHERE measure = 'stage') AS both_
     GROUP BY lane_id, stage, outcome, code
), short AS MATERIALIZED (
    SELECT examined.* FROM examined LEFT JOIN counted USING (lane_id)
     GROUP BY lane_id, job_id, run_no HAVING coalesce(sum(amount), 0) <= 5000
)
SELECT 'lane ' || lane_id || ': ' || sum(amount) || ' more than there are are counted in stage ' || stage || ' ' || code
  FROM (SELECT lane_id, stage, outcome, code, amount FROM counted JOIN short USING (lane_id)
         UNION ALL
        SELECT lane_id, item.stage, CASE WHEN item.stage = {Stage.DONE:d} THEN item.outcome ELSE 0 END,
               CASE WHEN item.stage = {Stage.DONE:d} THEN item.result_code ELSE '' END, -1
          FROM short JOIN jobs_queueitem AS item USING (lane_id, run_no)) AS moved
 GROUP BY lane_id, stage, outcome, code HAVING sum(amount) <> 0
"""


# For each invariant, a query that returns a line of text for each violation.
VIOLATIONS: Final[Mapping[str, LiteralString]] = {
    InvariantCheck.Name.OWNERS: _OWNERS,
    InvariantCheck.Name.CLAIMS: _CLAIMS,
    InvariantCheck.Name.WORKERS: _WORKERS,
    InvariantCheck.Name.PLACES: _PLACES,
    InvariantCheck.Name.COUNTS: _COUNTS,
}

_LIMIT_TIME: Final[LiteralString] = "SET LOCAL statement_timeout = '2s'"
# Locks: MainTerm SHARE (the term fence); the check's own row, which only the main manager writes.
_WRITE: Final[LiteralString] = """
INSERT INTO jobs_invariantcheck (name, checked_at, found, example, seconds)
VALUES (%(name)s, clock_timestamp(), %(found)s, %(example)s, %(seconds)s)
ON CONFLICT (name) DO UPDATE
   SET checked_at = excluded.checked_at, found = excluded.found, example = excluded.example, seconds = excluded.seconds
"""


def check_invariants(at: Pass) -> int:
    """Check the invariants and store the result; return 0."""
    for name, query in VIOLATIONS.items():
        began = time.monotonic()
        found, example = _look(at.connection, query)
        facts = {"name": str(name), "found": found, "example": example, "seconds": time.monotonic() - began}
        if found:
            logger.error("invariant %s does not hold: %d violations, such as %s", name, found, example)
        with at.connection.transaction():
            hold_term(at.connection, at.held_term)
            at.connection.execute(_WRITE, facts)
    return 0


def _look(connection: psycopg.Connection[Any], query: LiteralString) -> tuple[int | None, str]:
    """Return the number of violations, up to a limit, and one example; (None, '') if the check took too long."""
    # Random start of the sample.
    draw = random.random()  # noqa: S311
    bounded = f"SELECT count(*), coalesce(min(line), '') FROM ({query} LIMIT {_COUNTED}) AS violations(line)"
    try:
        with connection.transaction():
            connection.execute(_LIMIT_TIME)
            row = connection.execute(bounded, {"draw": draw}).fetchone()
    except QueryCanceled:
        return None, ""
    assert row is not None
    return row[0], row[1]
