"""
Chains: a job starts after another one has ended well.

The transaction that ends the predecessor inserts a row for each successor. This duty starts the successor and deletes
the row in one transaction, so each end has exactly one start. The start is the work of a duty and not of a background
task, because crawls must go on without task workers.
"""

from typing import Final, LiteralString

from django.db import connection, transaction

from jobs.duties.context import Pass
from jobs.duties.moves import begin_run, move
from jobs.duties.one_by_one import one_by_one
from jobs.lifecycle.job import Overlap, Phase, RunEnd
from jobs.models import ChainedStart, Job, JobChain
from jobs.queries.jobs.lines import read_job_line
from jobs.queue.sql.rows import named_rows
from jobs.state import journal
from jobs.state.transitions import lock_job
from nodes.errors import Invalid, Unknown
from nodes.membership.fences import hold_term

# Starts that are due. A start that waits for the end of its job's run is due when the job is inactive.
CHAINED_STARTS: Final[LiteralString] = """
SELECT pending.successor_id FROM jobs_chainedstart AS pending JOIN jobs_job AS job ON job.id = pending.successor_id
 WHERE job.node_scope = %(scope)s AND (NOT pending.waits OR job.phase = 'inactive')
"""
_MADE_BY: Final = "manager"
_DELETED: Final = frozenset(
    {
        Phase.READY_FOR_DELETE,
        Phase.DELETE_STARTING_UP,
        Phase.DELETING,
        Phase.READY_FOR_DELETE_NOTIFY,
        Phase.NOTIFYING_OF_DELETION,
    }
)


def insert_chained_starts(at: Pass, job_id: int) -> bool:
    """Insert a start for each successor of a job, in the transaction that ended the job. Return True."""
    chains = list(JobChain.objects.filter(predecessor=job_id).select_related("successor"))
    if not chains:
        return True
    job = Job.objects.get(pk=job_id)
    why_not = _why_not_well(at, job)
    if not why_not:
        ChainedStart.objects.bulk_create(
            ChainedStart(
                successor_id=chain.successor_id,
                predecessor_id=job.pk,
                predecessor_name=job.name,
                run_no=job.run_no,
                overlap=chain.overlap,
                at=at.now,
            )
            for chain in chains
        )
    names = ", ".join(chain.successor.name for chain in chains)
    said = f"did not end well ({why_not}), so its chains start nothing: {names}" if why_not else f"starts next: {names}"
    journal.record(job, kind="chain", message=said, made_by=_MADE_BY, now=at.now)
    return True


def start_successors(at: Pass) -> int:
    """Start the successors of jobs that have ended well. Return the number of checked jobs."""
    with named_rows(at.connection) as cursor:
        found = sorted({row.successor_id for row in cursor.execute(CHAINED_STARTS, {"scope": at.scope})})
    return one_by_one(found, lambda successor: _settle(at, successor), name=lambda successor: f"job {successor}")


def _why_not_well(at: Pass, job: Job) -> str:
    """
    Return the reason why a job that has just ended did not end well; '' if it did. The attention list has the same
    rule.
    """
    if job.run_end != RunEnd.FINISHED:
        return job.run_end.replace("_", " ")
    line = read_job_line(job.pk, now=at.now)
    return "its run failed" if line is None or line.last_run_failed else ""


@transaction.atomic
def _settle(at: Pass, successor: int) -> int:
    # Locks: MainTerm, Job, ChainedStart.
    hold_term(connection.connection, at.held_term)
    try:
        job = lock_job(successor)
    except Unknown:
        return 1
    pending = list(ChainedStart.objects.filter(successor=job).select_for_update().order_by("id"))
    if pending and job.phase == Phase.INACTIVE:
        # All starts that waited for the end of the same run become one start.
        due = [start for start in pending if start.waits] or pending[:1]
        _start(at, job, due)
        job.refresh_from_db()
        pending = [start for start in pending if start not in due]
    for start in pending:
        if not start.waits:
            _overlap(at, job, start)
    return 1


def _start(at: Pass, job: Job, due: list[ChainedStart]) -> None:
    after = ", ".join(map(_in_words, due))
    try:
        begin_run(at, job.pk, "follow", facts={"window_ends_at": None}, reason=f"{after} ended well")
    except Invalid as invalid:
        message = f"could not start after {after}: {invalid}"
        journal.record(job, kind="chain", message=message, made_by=_MADE_BY, now=at.now)
    ChainedStart.objects.filter(pk__in=[start.pk for start in due]).delete()


def _overlap(at: Pass, job: Job, start: ChainedStart) -> None:
    """Skip or defer a start whose job already runs, or end that run first, by the overlap rule of the chain."""
    after = _in_words(start)
    if start.overlap == Overlap.SKIP or job.phase in _DELETED or job.phase == Phase.INACTIVE:
        message = f"did not start after {after}: it was “{job.status}”"
        start.delete()
    elif start.overlap == Overlap.REPLACE:
        reason = f"{after} ended well, so a new run replaces this one"
        facts = {"retry_at": None, "schedule_checked_at": at.now}
        is_aborted = move(at, job.pk, "abort", facts=facts, reason=reason)
        message = "" if is_aborted else f"starts once it has ended: {after} ended well"
        _let_wait(start)
    else:
        message = f"starts once more when its run has ended: {after} ended well"
        _let_wait(start)
    if message:
        journal.record(job, kind="chain", message=message, made_by=_MADE_BY, now=at.now)


def _let_wait(start: ChainedStart) -> None:
    ChainedStart.objects.filter(pk=start.pk).update(waits=True)


def _in_words(start: ChainedStart) -> str:
    return f"job {start.predecessor_name} (run {start.run_no})"
