"""
A clock of the database that was set back: moments that were stored before would hold hosts and retries back.

Batches of a running crawl show it, because they cannot have been created in the future. Hosts whose last start lies in
the future count as started now, and waits that began in the future become shorter by the jump. So no gap between two
requests becomes shorter than the limits of a host allow.
"""

import datetime as dt
import logging
from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.lifecycle.document import Stage
from jobs.queue.sql.states import lock_states, write_states
from nodes.membership.fences import hold_term

logger = logging.getLogger(__name__)

# Processes read the clock with a delay, so their moments may be slightly ahead of each other.
_AHEAD: Final[LiteralString] = "2 seconds"
# The newest batches of a scope. A manager may have made some of them after the jump.
CLOCK_WAS_SET_BACK: Final[LiteralString] = f"""
EXISTS (SELECT FROM (SELECT created_at FROM jobs_batch WHERE node_scope = %(scope)s ORDER BY id DESC LIMIT 20) AS newest
         WHERE created_at > clock_timestamp() + interval '{_AHEAD}')
"""
_JUMP: Final[LiteralString] = f"""
SELECT clock.now, max(batch.created_at) - clock.now
  FROM (SELECT clock_timestamp() AS now) AS clock
  JOIN jobs_batch AS batch ON batch.node_scope = %(scope)s AND batch.created_at > clock.now + interval '{_AHEAD}'
 GROUP BY clock.now
"""
_SEEN: Final[LiteralString] = (
    f"SELECT bin_id AS id, version FROM jobs_binstate WHERE last_start_at > %(now)s + interval '{_AHEAD}'"
)
# Locks: Bin by id, their states.
_STATES: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED ({lock_states(of="bin", seen=_SEEN)})
{
    write_states(
        "last_start_at = least(state.last_start_at, %(now)s),"
        " not_before = CASE WHEN state.not_before > %(now)s THEN state.not_before - %(jump)s ELSE state.not_before END",
        of="bin",
        held="locked",
    )
}
"""
# Locks: Bin by id.
_BACK_OFFS: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_bin WHERE backing_off_since > %(now)s + interval '{_AHEAD}' ORDER BY id FOR NO KEY UPDATE
)
UPDATE jobs_bin AS bin SET back_off_until = back_off_until - %(jump)s, backing_off_since = backing_off_since - %(jump)s
  FROM locked WHERE bin.id = locked.id
"""
# Locks: Batch by id.
_BATCHES: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_batch WHERE node_scope = %(scope)s AND greatest(created_at, sent_at) > %(now)s
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE jobs_batch AS batch SET created_at = least(created_at, %(now)s), sent_at = least(sent_at, %(now)s)
  FROM locked WHERE batch.id = locked.id
"""
# Locks: QueueItem by (hash, job).
_RETRIES: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT item.hash, item.job_id
      FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id JOIN jobs_lane AS lane ON lane.seed_id = seed.id
      JOIN jobs_queueitem AS item ON item.lane_id = lane.id AND item.check_time > %(now)s
     WHERE job.node_scope = %(scope)s AND job.phase = 'active' AND item.stage = {Stage.PENDING:d}
       AND item.failing_since > %(now)s + interval '{_AHEAD}'
     ORDER BY item.hash, item.job_id FOR NO KEY UPDATE OF item
)
UPDATE jobs_queueitem AS item
   SET check_time = check_time - %(jump)s, failing_since = failing_since - %(jump)s, failing_until = failing_until - %(jump)s
  FROM locked WHERE item.hash = locked.hash AND item.job_id = locked.job_id
"""


def follow_clock(at: Pass) -> int:
    """Correct stored moments after the clock of the database was set back; return 1 if it was."""
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        row = at.connection.execute(_JUMP, {"scope": at.scope}).fetchone()
        if row is None:
            return 0
        now, jump = row
        assert isinstance(jump, dt.timedelta)
        facts = {"scope": at.scope, "now": now, "jump": jump}
        for statement in (_STATES, _BACK_OFFS, _BATCHES, _RETRIES):
            at.connection.execute(statement, facts)
    logger.warning("the clock of the database was set back by %s: hosts and retries follow it", jump)
    return 1
