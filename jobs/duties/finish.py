"""
Ends of runs: the main manager ends finished runs, and stops jobs on request.

Pausing and aborting share one rule: no document of the job is claimed. A run is finished when none of its documents
is pending or claimed. Then the documents that the run did not reach are removed, unless the run ended early.
"""

from typing import Any, Final, LiteralString

from jobs.duties import guard, partitioned_guard
from jobs.duties.attempts import NO_FAILURES
from jobs.duties.context import Pass
from jobs.duties.moves import begin_run, move
from jobs.duties.notify import begin_notifying
from jobs.duties.one_by_one import one_by_one
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Guard, Kind, RunEnd, Scan
from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.queue.sql.order import FIRST_FRESH, RECHECKED
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.stages import PENDING_OR_DONE
from jobs.queue.wake import wake_job

# Each state of a batch has its own index, so each has its own condition: one condition on both states would read all
# batches of the last minutes. Requests to stop are searched in the index of running jobs, because only running jobs get
# such requests.
JOBS_WITHOUT_CLAIMS: Final[LiteralString] = f"""
SELECT job.id, job.run_no, job.phase, job.scan, job.kind, job.pause, job."window", job.resuming, job.seeding, job.stop_request, job.run_end,
       job.failures, job.retry_at, job.guard, job.guard_percent, job.guard_host_percent, job.guard_documents, job.guard_seeds,
       job.hop_limits <> '{{}}' AND NOT job.minimal AS takes_out,
       budget.job_id IS NOT NULL AND budget.admitted >= budget.most AS is_at_limit,
       coalesce(partitioned.may_finish_run < job.run_no, false) AS may_get_references,
       partitioned.job_id IS NOT NULL AS is_partitioned, partitioned.removals,
       coalesce(partitioned.decided_run >= job.run_no, false) AS is_decided,
       coalesce(partitioned.held_run = job.run_no, false) AS is_held,
       coalesce(partitioned.ends_at_limit_run = job.run_no, false) AS ends_at_limit,
       coalesce(partitioned.others_ended_run < job.run_no, false) AS waits_for_partitions
  FROM jobs_job AS job LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id
  LEFT JOIN jobs_partitionedjob AS partitioned ON partitioned.job_id = job.id
 WHERE job.node_scope = %(scope)s
   AND job.phase <> 'inactive' AND (job.phase IN ('active', 'shutting_down', 'deleting') OR job.stop_request <> 'none')
   AND NOT EXISTS (
       SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = job.id
        WHERE batch.node_scope = %(scope)s AND batch.state = 'available' AND batch.id >= {LOWEST_BATCH})
   AND NOT EXISTS (
       SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = job.id
        WHERE batch.node_scope = %(scope)s AND batch.state = 'sent' AND batch.id >= {LOWEST_BATCH})
"""
# Probes an index once for each of the job's lanes. Documents behind a gate have a separate condition, because the
# indexes of lanes leave them out.
_LEFT: Final[LiteralString] = f"""
SELECT EXISTS (
       SELECT FROM jobs_gateddocument AS gated JOIN jobs_queueitem AS item USING (hash, job_id)
        WHERE gated.job_id = %(job)s AND item.run_no = %(run)s AND item.stage = {Stage.PENDING:d}
    ) OR EXISTS (
       SELECT FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
        WHERE seed.job_id = %(job)s
          AND (EXISTS (SELECT FROM jobs_queueitem AS item
                        WHERE item.lane_id = lane.id AND item.run_no = %(run)s AND item.stage = {Stage.PENDING:d}
                          AND item.seq IS NOT NULL AND item.seq < %(below)s)
               OR EXISTS (SELECT FROM jobs_queueitem AS item
                           WHERE item.lane_id = lane.id AND item.stage = {Stage.PENDING:d} AND item.check_time IS NOT NULL
                             AND item.run_no = %(run)s)
               OR (%(continues)s AND EXISTS (SELECT FROM jobs_queueitem AS item
                                              WHERE item.lane_id = lane.id AND item.run_no = %(run)s
                                                AND item.stage IN {PENDING_OR_DONE}))
               OR (%(rechecks)s <> '' AND EXISTS (
                   SELECT FROM jobs_queueitem AS item
                    WHERE item.lane_id = lane.id AND item.run_no < %(run)s
                      AND item.stage = ANY(string_to_array(%(rechecks)s, ',')::int[])))))
"""
# True if the job has a document of `_LEFT` or a claimed document. One statement reads both in one snapshot. Between two
# statements, a pending document could become claimed, and both statements would miss the document. The run would then
# end, and remove the documents to which this document leads.
_LEFT_OR_CLAIMED: Final[LiteralString] = f"""
SELECT ({_LEFT}) OR EXISTS (
       SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = %(job)s
        WHERE batch.node_scope = %(scope)s AND batch.state = 'available' AND batch.id >= {LOWEST_BATCH}
    ) OR EXISTS (
       SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = %(job)s
        WHERE batch.node_scope = %(scope)s AND batch.state = 'sent' AND batch.id >= {LOWEST_BATCH})
"""
_OLDER: Final[LiteralString] = """
SELECT EXISTS (
       SELECT FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
        WHERE seed.job_id = %(job)s
          AND EXISTS (SELECT FROM jobs_queueitem AS item WHERE item.lane_id = lane.id AND item.run_no < %(before)s))
"""
# Documents of a job that left its hop limits and may be in an output.
_OUTSIDE: Final[LiteralString] = f"""
SELECT EXISTS (
       SELECT FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
        WHERE seed.job_id = %(job)s
          AND EXISTS (SELECT FROM jobs_queueitem AS item
                       WHERE item.lane_id = lane.id AND item.run_no = %(run)s AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before))
"""
_EVERY_RUN: Final = 2**31 - 1
_NEVER: Final = 1 << 62


def end_runs(at: Pass) -> int:
    """Move each job without claimed documents to its next state; return the number of moved jobs."""
    with named_rows(at.connection) as cursor:
        jobs = cursor.execute(JOBS_WITHOUT_CLAIMS, {"scope": at.scope}).fetchall()
    # One job after the other, because an error of one job must not stop the others: the guard calls rules of installed
    # connectors.
    return one_by_one(jobs, lambda job: _move(at, job), name=lambda job: f"job {job.id}")


def _move(at: Pass, job: Any) -> bool:
    if job.stop_request == "abort":
        return _end(at, job, "end aborted", as_=RunEnd(job.run_end or RunEnd.ABORTED))
    if job.stop_request == "restart":
        return begin_run(at, job.id, "start again")
    if job.phase == "deleting":
        return not _is_left(at, _OLDER, job, before=_EVERY_RUN) and move(at, job.id, "end deleting")
    if job.phase == "shutting_down":
        return _finish(at, job)
    if job.pause == "pausing" or job.window == "waiting":
        return move(at, job.id, "halt")
    if job.pause == "paused" or job.resuming or job.seeding:
        return False
    return _shut_down(at, job)


def _shut_down(at: Pass, job: Any) -> bool:
    if job.ends_at_limit:
        # All partitions together have reached the limit (`jobs.duties.partitioned_limits`).
        return _end(at, job, "end at its limit", as_=RunEnd.DOCUMENT_LIMIT)
    if job.may_get_references:
        # Another partition may still name documents of this partition (`jobs.duties.partitioned_runs`).
        return False
    below = FIRST_FRESH if job.is_at_limit else _NEVER
    if _is_run_left(at, job, below=below, statement=_LEFT_OR_CLAIMED):
        return False
    if job.is_at_limit and _is_run_left(at, job, below=_NEVER):
        return _end(at, job, "end at its limit", as_=RunEnd.DOCUMENT_LIMIT)
    if job.is_partitioned:
        if guard.applies(job) and not job.is_decided:
            partitioned_guard.count_removals(at, job)
            return False
        if job.is_held and job.guard == Guard.NO:
            return partitioned_guard.ask(at, job) and _notify_outputs(at, job)
    elif (removals := guard.must_ask(at, job)) is not None:
        return guard.ask(at, job, removals, guard.examples(at, job)) and _notify_outputs(at, job)
    return _move_and_wake(at, job, "shut down")


def _move_and_wake(at: Pass, job: Any, name: str) -> bool:
    """
    Move a job and wake its lanes. The order matters: before the move, stuffing may put a lane that is still empty to
    sleep.
    """
    moved = move(at, job.id, name)
    if moved:
        wake_job(at.connection, job_id=job.id, now=at.now)
    return moved


def _finish(at: Pass, job: Any) -> bool:
    # Only a full scan removes documents that it did not reach.
    if job.scan == Scan.FULL and _is_left(at, _OLDER, job, before=job.run_no):
        return False
    if job.takes_out and _is_left(at, _OUTSIDE, job, run=job.run_no):
        return False
    if _is_run_left(at, job, below=_NEVER):
        return _move_and_wake(at, job, "wake up")
    if job.waits_for_partitions:
        return False
    return _end(at, job, "finish", as_=RunEnd.FINISHED)


def is_quiet(at: Pass, job: Any) -> bool:
    """True if no document of an active job waits or is in progress. The job is a row with `id`, `run_no`, `kind`, `scan`."""
    return not _is_run_left(at, job, below=_NEVER, statement=_LEFT_OR_CLAIMED)


def has_more(at: Pass, job: Any) -> bool:
    """True if documents of an active job wait, including documents that wait for a place of the document limit."""
    return _is_run_left(at, job, below=_NEVER)


def is_stopped_by_limit(at: Pass, job: Any) -> bool:
    """
    True if no document of an active job is in progress, and none can continue without another place of the document
    limit.
    """
    return not _is_run_left(at, job, below=FIRST_FRESH, statement=_LEFT_OR_CLAIMED)


def _end(at: Pass, job: Any, name: str, *, as_: RunEnd) -> bool:
    """End a run. If no output of the job is notified of ends, the job becomes inactive immediately."""
    if not move(at, job.id, name, facts={**NO_FAILURES, "ended_at": at.now, "run_end": as_}):
        return False
    return _notify_outputs(at, job)


def _notify_outputs(at: Pass, job: Any) -> bool:
    """Begin to notify the outputs of a run that has just ended."""
    begin_notifying(at, job._replace(phase="ready_for_notify", failures=0, retry_at=None))
    return True


def _is_run_left(at: Pass, job: Any, *, below: int, statement: LiteralString = _LEFT) -> bool:
    """True if documents must be processed before the run ends. For a continuous job, true while it has documents."""
    continues = job.kind == Kind.CONTINUOUS
    facts = {"run": job.run_no, "below": below, "continues": continues, "rechecks": RECHECKED[job.scan]}
    return _is_left(at, statement, job, **facts)


def _is_left(at: Pass, statement: LiteralString, job: Any, **facts: object) -> bool:
    row = at.connection.execute(statement, {"job": job.id, "scope": at.scope, **facts}).fetchone()
    return bool(row and row[0])
