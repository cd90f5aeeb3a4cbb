"""
Moves of slots between partitions: each main manager makes the next step (`jobs.partitions.moving`), in one transaction.

The control partition sends the phase, and each partition sends its report. A manager that is killed has made its step
completely or not at all.
"""

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.partitioned_jobs import count_figures, read_jobs
from jobs.duties.partitioned_runs import send_definitions
from jobs.lifecycle.job import Phase
from jobs.partitions import existing_jobs, this_partition
from jobs.partitions.facts import own_fact, send_fact
from jobs.partitions.move_notes import (
    change_move,
    keep_move,
    note_report,
    read_report,
    read_reports,
    send_move,
)
from jobs.partitions.moving import HeldJob, Move, MovePhase, Report, Step, decide, next_step
from jobs.partitions.placement import Placement, slot_of
from jobs.partitions.slots import adopt_map, read_map
from jobs.queue.moving.applying import JobUnknown, apply_chunk
from jobs.queue.moving.chunks import Chunk, forget_own_chunks, has_chunks_to_take_back, next_chunk
from jobs.queue.moving.sending import Sent, send_documents
from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.queue.wake import notify, wake_job
from jobs.state import channels
from nodes.membership.fences import hold_term

logger = logging.getLogger(__name__)

# True if a move is in progress, or if this partition still has work of the last move.
MOVES: Final[LiteralString] = """(EXISTS (
    SELECT FROM jobs_partitionfact AS move
     WHERE move.key = 'move:all'
       AND (move.body ->> 'phase' IN ('holding', 'copying')
            OR move.body ->> 'phase' = 'done' AND (move.body -> 'map' ->> 'epoch')::int > coalesce(
               (SELECT (body ->> 'epoch')::int FROM jobs_partitionfact
                 WHERE source = target AND key = 'slots:all' ORDER BY number DESC LIMIT 1), 0))
) OR EXISTS (SELECT FROM jobs_job WHERE move_hold > 0)
  OR EXISTS (SELECT FROM jobs_partitionfact WHERE key LIKE 'chunk:%%'))"""
# Largest number of chunks that one pass applies.
_AT_ONCE: Final = 10
_SENT_KEY: Final = "sending:all"
# Held jobs for which no node reads seeds, processes documents or removes documents any more. The control partition
# prepares no run of them meanwhile. Locks: Job by id.
_HOLD: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT job.id, CASE WHEN job.phase IN ('inactive', 'ready_for_notify', 'notifying')
                          OR job.phase = 'ready_for_startup' AND %(leads)s
                          OR job.phase = 'active' AND NOT job.seeding AND known.may_finish_run < job.run_no
                        THEN %(move)s ELSE 0 END AS wanted
      FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
     ORDER BY job.id FOR NO KEY UPDATE OF job
)
UPDATE jobs_job AS job SET move_hold = locked.wanted FROM locked
 WHERE job.id = locked.id AND job.move_hold <> locked.wanted
RETURNING job.id
"""
_RELEASE: Final[LiteralString] = "UPDATE jobs_job SET move_hold = 0 WHERE move_hold > 0 RETURNING id, phase = 'active'"
_ARE_HELD: Final[LiteralString] = """
SELECT job.name, job.move_hold = %(move)s, job.phase,
       EXISTS (SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = job.id
                WHERE batch.state = 'available' AND batch.id >= {lowest})
       OR EXISTS (SELECT FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id AND item.job_id = job.id
                   WHERE batch.state = 'sent' AND batch.id >= {lowest}) AS is_claimed
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 ORDER BY job.name
""".replace("{lowest}", LOWEST_BATCH)
_REFUSED: Final[LiteralString] = """
SELECT job.name,
       CASE WHEN job.archive <> '' THEN 'keeps an archive, which stays where it is'
            WHEN job.carries THEN 'carries values to referenced documents'
            WHEN job.phase = 'active' AND budget.job_id IS NOT NULL THEN 'has a document limit in its present run'
            WHEN EXISTS (SELECT FROM jobs_gateddocument AS gated WHERE gated.job_id = job.id)
            THEN 'has documents that wait for a login' END AS why
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
  LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.run_no = job.run_no
 ORDER BY job.name
"""
# Hosts of jobs that only this partition knows. This partition would continue to send requests to them after a move.
_OUTSIDE: Final[LiteralString] = """
SELECT DISTINCT job.name, bin.name
  FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id JOIN jobs_lane AS lane ON lane.seed_id = seed.id
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 WHERE job.node_scope = %(scope)s AND NOT EXISTS (SELECT FROM jobs_partitionedjob AS known WHERE known.job_id = job.id)
"""
_INCARNATION: Final[LiteralString] = "SELECT nodes_incarnation()"


def move_slots(at: Pass) -> int:
    """Make the next step of the last move of slots, and apply chunks that arrived; return the number of changes."""
    placement = this_partition.placement()
    if placement is None:
        return 0
    move = keep_move(at.connection, placement)
    done = 0
    if move is not None:
        done += _make_step(at, placement, move)
    done += _apply_chunks(at, placement, move)
    if move is not None and placement.is_control:
        done += _lead(at, placement, move)
    return done


def _lead(at: Pass, placement: Placement, move: Move) -> int:
    """Decide about the next phase of the move, and send it to the other partitions."""
    reports = read_reports(at.connection, placement)
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        after = change_move(
            at.connection, placement, lambda now: decide(now, reports, placement.names, control=placement.control)
        )
    if after.phase != move.phase:
        logger.info("move %d of slots: %s %s", after.number, after.phase, after.why)
    if after.phase == MovePhase.HOLDING:
        _send_unknown_jobs(at, reports[placement.here], reports)
    return send_move(at.connection, placement, after) + (after.phase != move.phase)


def _send_unknown_jobs(at: Pass, own: Report, reports: Mapping[str, Report]) -> None:
    """Send the jobs that another partition does not know: their first run ended before it received them."""
    unknown = {
        number
        for report in reports.values()
        if report.held is not None
        for number in (own.held or {}).keys() - report.held.keys()
    }
    send_definitions(at, [job for job in read_jobs(at) if str(job.number) in unknown])


def _make_step(at: Pass, placement: Placement, move: Move) -> int:
    own = read_report(at.connection, placement.names)
    step = next_step(move, own)
    if step == Step.RELEASE:
        return _release(at, placement)
    if step in {Step.HOLD, Step.WAIT}:
        return _hold(at, placement, move, own)
    if step == Step.ADOPT:
        return _adopt(at, placement, move, own)
    # First take back the documents that were sent to a lost partition: they may now belong to a third one.
    return 0 if has_chunks_to_take_back(at.connection, placement.here, lost=move.without) else _send(at, placement, own)


# --- The steps -----------------------------------------------------------------------------------


def _release(at: Pass, placement: Placement) -> int:
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        released = at.connection.execute(_RELEASE).fetchall()
        forget_own_chunks(at.connection, placement.here)
    for job_id, is_active in released:
        if is_active:
            wake_job(at.connection, job_id=job_id, now=at.now)
        notify(at.connection, channels.CONTROL, str(job_id))
    return len(released)


def _hold(at: Pass, placement: Placement, move: Move, own: Report) -> int:
    """Hold all jobs that are not in a run, and report them. A job that begins or ends meanwhile is held later."""
    refusal = _why_refused(at, placement, move) if move.phase == MovePhase.HOLDING else ""
    held: list[tuple[int]] = []
    if not refusal:
        with at.connection.transaction():
            hold_term(at.connection, at.held_term)
            held = at.connection.execute(_HOLD, {"leads": placement.is_control, "move": move.number}).fetchall()
        for (job_id,) in held:
            # Workers release the documents that they have not started.
            notify(at.connection, channels.CONTROL, str(job_id))
    waits_for = refusal or _waits_for(at, move)
    is_new = own.number != move.number
    report = replace(
        own,
        number=move.number,
        refusal=refusal,
        waits_for="" if refusal else waits_for,
        held=None if waits_for else _held_jobs(at, placement),
        sent=None if is_new else own.sent,
        applied=_of_move(own.applied, move) if is_new else own.applied,
    )
    return len(held) + _note(at, placement, report)


def _why_refused(at: Pass, placement: Placement, move: Move) -> str:
    for name, why in at.connection.execute(_REFUSED).fetchall():
        if why is not None:
            return f"Job {name} {why}."
    before = read_map(at.connection, placement.names).owners
    for name, host in at.connection.execute(_OUTSIDE, {"scope": at.scope}).fetchall():
        slot = slot_of(host)
        if before[slot] != move.to.owners[slot]:
            return f"Host {host} moves, and job {name} uses it, which only this partition has."
    return ""


def _waits_for(at: Pass, move: Move) -> str:
    """Return a sentence about the first job that is not held yet; '' if all are."""
    for name, is_held, phase, is_claimed in at.connection.execute(_ARE_HELD, {"move": move.number}).fetchall():
        if is_claimed:
            return f"Documents of job {name} are in progress."
        if not is_held:
            what = "reads its seeds or ends its run" if phase == Phase.ACTIVE else "begins or ends a run"
            return f"Job {name} {what}."
    return ""


def _held_jobs(at: Pass, placement: Placement) -> dict[str, HeldJob]:
    jobs = {}
    for job in read_jobs(at):
        if job.phase != Phase.ACTIVE:
            jobs[str(job.number)] = HeldJob(job.run_no, is_active=False)
            continue
        figures = count_figures(at, placement, job)
        jobs[str(job.number)] = HeldJob(job.run_no, is_active=True, sent=figures.sent, applied=figures.applied)
    return jobs


def _adopt(at: Pass, placement: Placement, move: Move, own: Report) -> int:
    """Apply the new map from now on."""
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        adopt_map(at.connection, placement, move.to)
        note_report(at.connection, placement, replace(own, epoch=move.number, sent=None))
        send_fact(at.connection, placement.here, placement.here, _SENT_KEY, Sent(_series(at, move.number)).as_json())
    logger.info("this partition now uses the slot map of move %d", move.number)
    return 1


def _send(at: Pass, placement: Placement, own: Report) -> int:
    """Send some documents that belong to other partitions now."""
    body = own_fact(at.connection, _SENT_KEY)
    series = _series(at, own.number)
    # A restored database sends its documents again, with a new series of chunks.
    sent = Sent(series) if body is None or body["series"] != series else Sent(**body)
    placed = this_partition.placement_of_hosts(at.connection)
    assert placed is not None
    after = send_documents(
        at.connection,
        sent,
        term=at.held_term,
        here=placement.here,
        foreign=placed.foreign,
        note=lambda now: send_fact(at.connection, placement.here, placement.here, _SENT_KEY, now.as_json()),
    )
    if after.is_complete:
        _note(at, placement, replace(own, series=after.series, sent=after.amounts))
    return sum(after.amounts.values()) - sum(sent.amounts.values()) + after.is_complete


def _apply_chunks(at: Pass, placement: Placement, move: Move | None) -> int:
    """
    Store the documents of chunks that arrived, in any phase, because a restored partition may send its documents again.
    """
    applied, known = 0, existing_jobs.read_living(at.connection)
    lost = move.without if move is not None else ()
    while applied < _AT_ONCE and (chunk := next_chunk(at.connection, placement.here, lost=lost)) is not None:
        present = read_map(at.connection, placement.names)
        # The newest map decides, because this partition may still apply the old one.
        newest = move.to if move is not None and move.number > present.epoch else present
        try:
            apply_chunk(
                at.connection,
                chunk,
                term=at.held_term,
                foreign=replace(placement, owners=newest.owners).foreign,
                is_deleted=lambda number: known is not None and known.has_deleted(number),
                note=lambda chunk: _note_applied(at, placement, chunk),
                now=at.now,
            )
        except JobUnknown as unknown:
            logger.warning("a chunk of partition %s waits: %s", chunk.source, unknown)
            break
        applied += 1
    return applied


def _note_applied(at: Pass, placement: Placement, chunk: Chunk) -> None:
    own = read_report(at.connection, placement.names)
    counts: Mapping[str, int] = own.applied.get(chunk.source, {})
    after = {**counts, chunk.series: max(counts.get(chunk.series, 0), chunk.place + 1)}
    note_report(at.connection, placement, replace(own, applied={**own.applied, chunk.source: after}))


def _of_move(applied: Mapping[str, Mapping[str, int]], move: Move) -> dict[str, dict[str, int]]:
    """Return the counts of applied chunks, without the chunks of other moves."""
    return {
        source: {series: count for series, count in counts.items() if series.startswith(f"{move.number}@")}
        for source, counts in applied.items()
    }


def _note(at: Pass, placement: Placement, report: Report) -> bool:
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        return note_report(at.connection, placement, report)


def _series(at: Pass, number: int) -> str:
    """Return the name of this database's series of chunks in a move. A restored database has another series."""
    row: Any = at.connection.execute(_INCARNATION).fetchone()
    return f"{number}@{row[0]}"
