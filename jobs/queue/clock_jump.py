"""
Corrects stored moments of the crawl after the clock of the database was set back (`nodes/membership/clock_jumps.py`).

If the last start of a host is in the future, it is set to the present moment. Waits that began in the future become
shorter by the jump. So no gap between two requests becomes shorter than the limits of a host allow.
"""

from typing import Final, LiteralString

from jobs.connectors.repository.web.limits import DEFAULT_LIMITS
from jobs.queue.sql.stages import PENDING_OR_DONE
from jobs.queue.sql.states import lock_newest_states, lock_states, write_states
from nodes.membership.clock_jumps import AHEAD

_SEEN: Final[LiteralString] = f"SELECT bin_id AS id, version FROM jobs_binstate WHERE last_start_at > %(now)s + {AHEAD}"
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
# The first condition finds hosts that began to back off while the clock was ahead. The second one finds hosts that
# began earlier and refused again while the clock was ahead: their wait is longer than any allowed one. Locks: Bin by
# id.
_BACK_OFFS: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_bin
     WHERE backing_off_since > %(now)s + {AHEAD}
        OR back_off_until > %(now)s + make_interval(secs => {DEFAULT_LIMITS.longest_retry_after:f}) + {AHEAD}
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE jobs_bin AS bin
   SET back_off_until = back_off_until - %(jump)s,
       backing_off_since = CASE WHEN backing_off_since > %(now)s THEN backing_off_since - %(jump)s ELSE backing_off_since END
  FROM locked WHERE bin.id = locked.id
"""
# Locks: Batch by id.
_BATCHES: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_batch WHERE greatest(created_at, sent_at) > %(now)s ORDER BY id FOR NO KEY UPDATE
)
UPDATE jobs_batch AS batch SET created_at = least(created_at, %(now)s), sent_at = least(sent_at, %(now)s)
  FROM locked WHERE batch.id = locked.id
"""
# Documents that wait for a retry or for their next reading. Locks: QueueItem by (hash, job).
_DOCUMENTS: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT item.hash, item.job_id
      FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id JOIN jobs_lane AS lane ON lane.seed_id = seed.id
      JOIN jobs_queueitem AS item ON item.lane_id = lane.id AND item.check_time > %(now)s
     WHERE job.phase = 'active' AND item.stage IN {PENDING_OR_DONE}
       AND greatest(item.failing_since, item.fetched_at, item.changed_at) > %(now)s + {AHEAD}
     ORDER BY item.hash, item.job_id FOR NO KEY UPDATE OF item
)
UPDATE jobs_queueitem AS item
   SET check_time = check_time - %(jump)s, failing_since = failing_since - %(jump)s, failing_until = failing_until - %(jump)s,
       changed_at = CASE WHEN changed_at > %(now)s THEN %(now)s ELSE changed_at END
  FROM locked WHERE item.hash = locked.hash AND item.job_id = locked.job_id
"""
# Requests to write or to remove all older documents of an output. They are moved like the documents, so that their
# order stays. Locks: OutputConnection by id.
_OUTPUTS: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_outputconnection WHERE greatest(trusted_from, clear_before) > %(now)s
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE jobs_outputconnection AS output
   SET trusted_from = CASE WHEN trusted_from > %(now)s THEN trusted_from - %(jump)s ELSE trusted_from END,
       clear_before = CASE WHEN clear_before > %(now)s THEN clear_before - %(jump)s ELSE clear_before END
  FROM locked WHERE output.id = locked.id
"""
# Locks: IndexedDocument by (output, hash).
_RECORDS: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT output_id, hash FROM jobs_indexeddocument WHERE indexed_at > %(now)s + {AHEAD}
     ORDER BY output_id, hash FOR NO KEY UPDATE
)
UPDATE jobs_indexeddocument AS held SET indexed_at = held.indexed_at - %(jump)s
  FROM locked WHERE held.output_id = locked.output_id AND held.hash = locked.hash
"""
# Lanes sleep until their first document is due. Locks: Lane by id.
_OF_ACTIVE_JOBS: Final[LiteralString] = """
SELECT lane.id FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id
  JOIN jobs_lane AS lane ON lane.seed_id = seed.id WHERE job.phase IN ('active', 'shutting_down', 'deleting')
"""
_LANES: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED ({lock_newest_states(of="lane", numbers=_OF_ACTIVE_JOBS)})
{write_states("ready_at = %(now)s, head = 0", of="lane", held="locked")}
"""
# A window that opened and closed before the jump may open again. Locks: Job by id.
_JOBS: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT id FROM jobs_job WHERE greatest(schedule_checked_at, schedule_due_at, reseed_at, retry_at) > %(now)s
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE jobs_job AS job
   SET schedule_checked_at = least(schedule_checked_at, %(now)s),
       schedule_due_at = CASE WHEN schedule_due_at <= %(now)s THEN schedule_due_at END,
       reseed_at = CASE WHEN reseed_at > %(now)s THEN greatest(reseed_at - %(jump)s, %(now)s) ELSE reseed_at END,
       retry_at = CASE WHEN retry_at > %(now)s THEN greatest(retry_at - %(jump)s, %(now)s) ELSE retry_at END,
       failing_since = least(failing_since, %(now)s)
  FROM locked WHERE job.id = locked.id
"""
# Prices of looks. Locks: LanePlan by lane.
_PLANS: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT lane_id FROM jobs_laneplan WHERE due_at > %(now)s ORDER BY lane_id FOR NO KEY UPDATE
)
UPDATE jobs_laneplan AS plan
   SET due_at = %(now)s, since = least(since, %(now)s),
       priced_at = CASE WHEN priced_at > %(now)s THEN %(now)s ELSE priced_at END
  FROM locked WHERE plan.lane_id = locked.lane_id
"""
# Without this deletion, a stored robots.txt would be valid for longer than allowed, by the length of the jump.
_ROBOTS: Final[LiteralString] = f"DELETE FROM jobs_robots WHERE fetched_at > %(now)s + {AHEAD}"

CORRECTIONS: Final[tuple[LiteralString, ...]] = (
    _STATES,
    _BACK_OFFS,
    _BATCHES,
    _DOCUMENTS,
    _LANES,
    _JOBS,
    _OUTPUTS,
    _RECORDS,
    _PLANS,
    _ROBOTS,
)
