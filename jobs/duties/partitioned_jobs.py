"""
Jobs of several partitions: their rows, their figures, and the notes about their runs.

Two duties use these functions: `jobs.duties.partitioned_runs` in the control partition, and
`jobs.duties.partitioned_following` in the other partitions.
"""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.duties.context import Pass
from jobs.duties.finish import is_quiet
from jobs.lifecycle.job import Phase
from jobs.partitions.end_of_run import Figures
from jobs.partitions.placement import Placement
from jobs.queue.sql.rows import named_rows
from jobs.state.transitions import TransitionRefused, make_transition
from nodes.errors import Unknown
from nodes.membership.fences import hold_term

_AUTHOR: Final = "the control partition"
RUNNING: Final = (Phase.READY_FOR_STARTUP, Phase.STARTING_UP, Phase.ACTIVE, Phase.SHUTTING_DOWN)
# Phases of a deleted job, until its row no longer exists.
DELETED: Final = (
    Phase.READY_FOR_DELETE,
    Phase.DELETE_STARTING_UP,
    Phase.DELETING,
    Phase.READY_FOR_DELETE_NOTIFY,
    Phase.NOTIFYING_OF_DELETION,
)
_JOBS: Final[LiteralString] = """
SELECT job.id, job.name, job.phase, job.run_no, job.kind, job.scan, job.minimal, job.pause, job.seeding, job.move_hold, job.stop_request, job.run_end,
       job.reason, job.from_the_beginning, known.number, known.may_finish_run, known.others_ended_run, known.round_no, known.last_round,
       job.guard, job.guard_percent, job.guard_host_percent, job.guard_documents, job.guard_seeds,
       known.decided_run, known.held_run, CASE WHEN job.phase = 'active' THEN known.removals END AS removals,
       known.ends_at_limit_run, budget.most, budget.admitted, budget.total
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
  LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.run_no = job.run_no
 WHERE job.id = coalesce(%(job)s::bigint, job.id)
"""
# Sent rows stay until the run ends, so the number of rows is the number of sent references.
_SENT: Final[LiteralString] = """
SELECT target, count(*) FROM jobs_foreignreference
 WHERE source = %(here)s AND job_number = %(number)s AND run_no = %(run)s GROUP BY target
"""
_APPLIED: Final[LiteralString] = """
SELECT source, amount FROM jobs_appliedreferences WHERE job_number = %(number)s AND run_no = %(run)s
"""
_WAITS: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_foreignreference
                WHERE target = %(here)s AND job_number = %(number)s AND run_no = %(run)s)
"""
_UPDATES: Final[Mapping[str, LiteralString]] = {
    "may_finish_run": "UPDATE jobs_partitionedjob SET may_finish_run = %(value)s WHERE job_id = %(job)s",
    "decided_run": "UPDATE jobs_partitionedjob SET decided_run = %(value)s WHERE job_id = %(job)s",
    "held_run": "UPDATE jobs_partitionedjob SET held_run = %(value)s WHERE job_id = %(job)s",
    "ends_at_limit_run": "UPDATE jobs_partitionedjob SET ends_at_limit_run = %(value)s WHERE job_id = %(job)s",
    "others_ended_run": "UPDATE jobs_partitionedjob SET others_ended_run = %(value)s WHERE job_id = %(job)s",
    "round_no": "UPDATE jobs_partitionedjob SET round_no = %(value)s WHERE job_id = %(job)s",
    "last_round": "UPDATE jobs_partitionedjob SET last_round = %(value)s WHERE job_id = %(job)s",
}


def answer_round(at: Pass, placement: Placement, job: Any) -> Figures:
    """
    Count the figures of a partition for a round, in which the control partition decides whether a run has ended.

    A partition that is not quiet counts nothing, because its figures cannot prove the end of the run, and counting may
    be expensive: it may have sent millions of references.
    """
    return count_figures(at, placement, job) if is_quiet(at, job) else Figures(quiet=False, sent={}, applied={})


def count_figures(at: Pass, placement: Placement, job: Any) -> Figures:
    """
    Count the references that this partition sent and applied for a run, and decide whether the run is quiet in this
    partition.

    All figures are of one snapshot. So a document that is flushed at this moment counts as in progress, or its
    references count as sent.
    """
    about = {"here": placement.here, "number": job.number, "run": job.run_no}
    with at.connection.transaction():
        at.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        waits = at.connection.execute(_WAITS, about).fetchone()
        quiet = not job.seeding and job.pause == "no" and not (waits and waits[0]) and is_quiet(at, job)
        sent = dict(at.connection.execute(_SENT, about).fetchall())
        applied = dict(at.connection.execute(_APPLIED, about).fetchall())
    return Figures(quiet, sent, applied)


def read_jobs(at: Pass, *, job_id: int | None = None) -> list[Any]:
    """Return the rows of all jobs that several partitions crawl, or the row of one of these jobs."""
    with named_rows(at.connection) as cursor:
        return cursor.execute(_JOBS, {"job": job_id}).fetchall()


def update(at: Pass, job: Any, **changes: Any) -> Any:
    """Store new facts about a job's run; return its row with the changes."""
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        for column, value in changes.items():
            stored = Jsonb(value) if isinstance(value, dict) else value
            at.connection.execute(_UPDATES[column], {"value": stored, "job": job.id})
    return job._replace(**changes)


def try_transition(job_id: int, name: str, *, at: Pass, reason: str = "") -> int:
    """Make an operator's transition for the control partition; return 1 if it was possible."""
    try:
        make_transition(job_id, name, made_by=_AUTHOR, now=at.now, reason=reason)
    except (TransitionRefused, Unknown):
        return 0
    return 1
