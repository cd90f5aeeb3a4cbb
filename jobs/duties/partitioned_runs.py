"""
Runs over several partitions: the control partition leads, the others follow.

The control partition tells each other one the wanted state of a job as a fact; the other compares it with its own state,
acts on the difference, and tells its state and its figures. Nothing depends on the order or the number of facts, so
each side may be away or be restored in between.
"""

import logging
from collections.abc import Mapping
from typing import Any, Final, LiteralString

from psycopg.types.json import Jsonb

from jobs.duties import partitioned_guard
from jobs.duties import partitioned_limits as limits
from jobs.duties.context import Pass
from jobs.duties.finish import is_quiet
from jobs.duties.moves import begin_run
from jobs.lifecycle.job import Guard, Phase
from jobs.models import PartitionedJob
from jobs.partitions import configuration, facts, here, living
from jobs.partitions.facts import Telling
from jobs.partitions.placement import Placement
from jobs.partitions.quiet import Figures, has_ended, is_settled
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import wake_job
from jobs.state.transitions import TransitionRefused, make_transition
from nodes.errors import Invalid, Unknown
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import hold_term

logger = logging.getLogger(__name__)

_AUTHOR: Final = "the control partition"
_RUNNING: Final = (Phase.READY_FOR_STARTUP, Phase.STARTING_UP, Phase.ACTIVE, Phase.SHUTTING_DOWN)
# Phases of a deleted job, until its row no longer exists.
_DELETED: Final = (
    Phase.READY_FOR_DELETE,
    Phase.DELETE_STARTING_UP,
    Phase.DELETING,
    Phase.READY_FOR_DELETE_NOTIFY,
    Phase.NOTIFYING_OF_DELETION,
)
# The job of a run is shared before the run begins: its number is in each reference.
_SHARE: Final[LiteralString] = """
INSERT INTO jobs_partitionedjob (job_id, number)
SELECT id, id FROM jobs_job AS job
 WHERE node_scope = %(scope)s AND phase = 'ready_for_startup'
   AND NOT EXISTS (SELECT FROM jobs_partitionedjob WHERE job_id = job.id)
ON CONFLICT DO NOTHING
"""
_JOBS: Final[LiteralString] = """
SELECT job.id, job.name, job.phase, job.run_no, job.kind, job.scan, job.minimal, job.pause, job.seeding, job.stop_request, job.run_end,
       job.reason, job.from_the_beginning, known.number, known.may_finish_run, known.others_ended_run, known.round_no, known.last_round,
       job.guard, job.guard_percent, job.guard_host_percent, job.guard_documents, job.guard_seeds,
       known.decided_run, known.held_run, CASE WHEN job.phase = 'active' THEN known.removals END AS removals,
       known.ends_at_limit_run, budget.most, budget.admitted, budget.total
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
  LEFT JOIN jobs_budget AS budget ON budget.job_id = job.id AND budget.run_no = job.run_no
 WHERE job.id = coalesce(%(job)s::bigint, job.id)
"""
# Rows that were sent stay until the run ends, so their number is that of all sent references.
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


def share_jobs(at: Pass) -> None:
    """Share the jobs that are about to run with the other partitions, if this is the control partition."""
    placement = here.placement()
    if placement is not None and placement.is_control and at.scope == CLUSTER_SCOPE:
        at.connection.execute(_SHARE, {"scope": at.scope})


# --- The control partition -------------------------------------------------------------------------


def lead_runs(at: Pass) -> int:
    """Tell the other partitions the wanted state of each job, and find out which runs have ended; return the changes."""
    placement = here.placement()
    if placement is None or not placement.is_control:
        return 0
    reports = _by_job(at, placement)
    telling = Telling(at.connection, placement.here, "run", living.KIND)
    jobs = [job for job in _read_jobs(at) if job.phase not in _DELETED]
    # Before all that is told about a new job: it would be taken for a deleted one.
    changes = int(living.tell_living(telling, placement, [job.number for job in jobs]))
    for job in jobs:
        changes += _lead(at, placement, job, reports.get(job.number, {}), telling)
    return changes


def _lead(at: Pass, placement: Placement, job: Any, reports: Mapping[str, Mapping[str, Any]], telling: Telling) -> int:
    of_run = {name: report for name, report in reports.items() if report["run_no"] == job.run_no}
    changes = 0
    if job.phase == Phase.ACTIVE and job.may_finish_run < job.run_no:
        job, changes = _look_for_the_end(at, placement, job, of_run)
    # A run whose removals wait for approval goes on after the answer.
    ended = [
        name
        for name in placement.others
        if (report := of_run.get(name)) is not None
        and report["phase"] == Phase.INACTIVE
        and report.get("guard") != Guard.WAITING
    ]
    if len(ended) == len(placement.others) and job.others_ended_run < job.run_no and job.phase in _RUNNING:
        _update(at, job, others_ended_run=job.run_no)
        changes += 1
    early = [name for name in ended if job.may_finish_run < job.run_no and job.phase == Phase.ACTIVE]
    told_shares, ends_at_limit = limits.divide(at, placement, job, of_run, telling)
    if ends_at_limit and job.ends_at_limit_run < job.run_no:
        job, changes = _update(at, job, ends_at_limit_run=job.run_no), changes + 1
    has_limit_ended = job.ends_at_limit_run >= job.run_no > 0
    if early and not has_limit_ended and job.stop_request == "none":
        name = early[0]
        reason = of_run[name]["reason"] or of_run[name]["run_end"] or "without a reason"
        _try(job.id, "abort", at=at, reason=f"partition {name} ended its run: {reason}")
    must_ask = partitioned_guard.decide(at, job, of_run, placement.others)
    if must_ask is not None:
        held = job.run_no if must_ask else job.held_run
        job, changes = _update(at, job, held_run=held, decided_run=job.run_no), changes + 1
    wanted = {
        "run_no": job.run_no,
        "minimal": job.minimal,
        "from_the_beginning": job.from_the_beginning,
        "is_running": job.phase in _RUNNING,
        "is_paused": job.pause != "no",
        "is_stopped": job.stop_request != "none",
        "may_finish": job.may_finish_run >= job.run_no > 0,
        "ends_at_limit": has_limit_ended,
        "guard": job.guard,
        "removals": _decision(job),
        "round": job.round_no,
    }
    if job.phase == Phase.STARTING_UP:
        # Before the run: a partition adopts the job first.
        changes += _tell_job(placement, job, Telling(at.connection, placement.here, "job"))
    if job.phase != Phase.READY_FOR_STARTUP:
        # A run that is not prepared yet has the number of the one before.
        for name in placement.others:
            changes += telling.tell(name, f"run:{job.number}", {**wanted, "share": told_shares.get(name)})
    return changes


def _decision(job: Any) -> str:
    """Return what the partitions do with the removals of the run: hold them, or allow them; empty before that is known."""
    if job.held_run == job.run_no > 0:
        return "held"
    may_remove = job.may_finish_run >= job.run_no > 0 and job.phase != Phase.ACTIVE
    return "allowed" if may_remove or job.decided_run >= job.run_no > 0 else ""


def tell_jobs(at: Pass) -> int:
    """Tell the other partitions the definitions of running jobs, which may have changed; return the changes."""
    placement = here.placement()
    if placement is None or not placement.is_control:
        return 0
    running = [job for job in _read_jobs(at) if job.phase == Phase.ACTIVE]
    if not running:
        return 0
    telling = Telling(at.connection, placement.here, "job")
    return sum(_tell_job(placement, job, telling) for job in running)


def _tell_job(placement: Placement, job: Any, telling: Telling) -> bool:
    body = {"definitions": configuration.read(job.id)}
    return telling.tell_all(placement, f"job:{job.number}", body)


def _look_for_the_end(
    at: Pass, placement: Placement, job: Any, of_run: Mapping[str, Mapping[str, Any]]
) -> tuple[Any, int]:
    """Evaluate the round of questions if all partitions have answered; return the job, and the number of changes."""
    answered = [name for name, report in of_run.items() if report["round"] == job.round_no and "figures" in report]
    if len(answered) < len(placement.others):
        return job, 0
    figures = {name: Figures.from_json(of_run[name]["figures"]) for name in answered}
    figures[placement.here] = _figures(at, placement, job)
    last = job.last_round or {}
    is_of_run = last.get("run_no") == job.run_no
    before = {name: Figures.from_json(body) for name, body in last["figures"].items()} if is_of_run else None
    if has_ended(before, figures):
        return _update(at, job, may_finish_run=job.run_no, last_round=None), 1
    seen = None
    if is_settled(figures):
        seen = {"run_no": job.run_no, "figures": {name: one.as_json() for name, one in figures.items()}}
    elif not figures[placement.here].quiet:
        # This partition has work, so the others need not be asked again yet.
        return job, 0
    return _update(at, job, round_no=job.round_no + 1, last_round=seen), 0


# --- The other partitions --------------------------------------------------------------------------


def follow_runs(at: Pass) -> int:
    """Do what the control partition wants, and tell it the state of each job; return the number of changes."""
    placement = here.placement()
    if placement is None or placement.is_control:
        return 0
    changes = _adopt_jobs(at, placement)
    known = living.read_living(at.connection)
    wanted = {fact.key: fact.body for fact in facts.heard(at.connection, placement.here, kind="run")}
    telling = Telling(at.connection, placement.here, "run")
    for job in _read_jobs(at):
        if known is not None and known.has_deleted(job.number):
            changes += _delete(at, job)
        elif (body := wanted.get(f"run:{job.number}")) is not None:
            changed = _follow(at, job, body)
            changes += changed
            for now in _read_jobs(at, job_id=job.id) if changed else [job]:
                changes += _report(at, placement, now, telling, body)
    return changes


def _adopt_jobs(at: Pass, placement: Placement) -> int:
    """Store new and changed jobs of the control partition; return how many."""
    adopted = 0
    for fact in facts.not_adopted(at.connection, placement.here, kind="job"):
        number = int(fact.key.partition(":")[2])
        try:
            job_id = configuration.adopt(fact.body["definitions"])
        except Invalid as invalid:
            logger.warning("the control partition's job %d cannot be stored here: %s", number, invalid)
            continue
        PartitionedJob.objects.update_or_create(number=number, defaults={"job_id": job_id})
        facts.note_adopted(at.connection, placement.here, fact)
        adopted += 1
    return adopted


def _delete(at: Pass, job: Any) -> int:
    """Delete a job that the control partition has deleted, after the end of its run; return 1 for a transition."""
    if job.phase in _DELETED or (job.phase in _RUNNING and job.stop_request != "none"):
        return 0
    return _try(job.id, "abort" if job.phase in _RUNNING else "delete", at=at)


def _follow(at: Pass, job: Any, wanted: Mapping[str, Any]) -> int:
    """Make the transition that brings a job nearer to its wanted state; return 1 if there was one."""
    is_running = job.phase in _RUNNING
    if job.run_no < wanted["run_no"] and wanted["is_running"]:
        if job.phase == Phase.READY_FOR_STARTUP:
            return 0
        if is_running:
            return job.stop_request == "none" and _try(job.id, "abort", at=at)
        return _begin(at, job, wanted)
    if job.run_no == wanted["run_no"] and job.phase == Phase.INACTIVE and job.guard == Guard.WAITING:
        return _answer(at, job, wanted)
    if job.run_no != wanted["run_no"] or not is_running:
        return 0
    if limits.apply_share(at, job, wanted.get("share")):
        return 1
    if wanted.get("ends_at_limit"):
        if job.ends_at_limit_run < job.run_no:
            _update(at, job, ends_at_limit_run=job.run_no)
        return 0
    if wanted["may_finish"] and job.may_finish_run < job.run_no:
        _update(at, job, may_finish_run=job.run_no, others_ended_run=job.run_no)
        return 1
    if wanted.get("removals") and job.decided_run < job.run_no:
        held = job.run_no if wanted["removals"] == "held" else job.held_run
        _update(at, job, held_run=held, decided_run=job.run_no)
        return 1
    if wanted["is_stopped"] or (not wanted["is_running"] and not wanted["may_finish"]):
        return job.stop_request == "none" and _try(job.id, "abort", at=at)
    if wanted["is_paused"] and job.pause == "no":
        return _try(job.id, "pause", at=at)
    if not wanted["is_paused"] and job.pause != "no" and not job.reason:
        return _try(job.id, "resume", at=at)
    return 0


def _answer(at: Pass, job: Any, wanted: Mapping[str, Any]) -> int:
    """Answer the question about removals as the operator did in the control partition; return 1 for an answer."""
    if wanted["guard"] == Guard.ALLOWED:
        # Before the transition: no stuffer reads the lanes until then, and after it they must not sleep.
        wake_job(at.connection, job_id=job.id, now=at.now)
        return _try(job.id, "allow removals", at=at)
    is_refused = wanted["guard"] == Guard.NO and not wanted["is_running"]
    return _try(job.id, "refuse removals", at=at) if is_refused else 0


def _begin(at: Pass, job: Any, wanted: Mapping[str, Any]) -> int:
    name = "start minimal" if wanted["minimal"] else "start"
    run = {
        # The preparation of a run raises the number by one.
        "run_no": wanted["run_no"] - 1,
        "from_the_beginning": wanted["from_the_beginning"],
        "window_ends_at": None,
    }
    try:
        return begin_run(at, job.id, name, facts=run)
    except Invalid as invalid:
        logger.warning("job %s cannot run here: %s", job.name, invalid)
        return 0


def _report(at: Pass, placement: Placement, job: Any, telling: Telling, wanted: Mapping[str, Any]) -> int:
    round_no = wanted["round"]
    report: dict[str, Any] = {
        "run_no": job.run_no,
        "phase": job.phase,
        "pause": job.pause,
        "run_end": job.run_end,
        "reason": job.reason,
        "guard": job.guard,
        "round": round_no,
    }
    if job.removals and job.removals["run_no"] == job.run_no:
        report["removals"] = job.removals
    told_share = wanted.get("share") if wanted["run_no"] == job.run_no else None
    if (share := limits.confirmed(at, job, told=told_share)) is not None:
        report["share"] = share
    key = f"run:{job.number}"
    told = telling.last(placement.control, key) or {}
    if job.phase == Phase.ACTIVE:
        # One answer to each round of a run: a later one would be no answer to its question.
        has_answered = (told.get("run_no"), told.get("round")) == (job.run_no, round_no) and "figures" in told
        report["figures"] = told["figures"] if has_answered else _figures(at, placement, job).as_json()
    return telling.tell(placement.control, key, report)


# --- Both ------------------------------------------------------------------------------------------


def _figures(at: Pass, placement: Placement, job: Any) -> Figures:
    """
    Count what a partition sent and applied for a run, and find out whether it is quiet.

    In one snapshot: a document that is flushed meanwhile counts as in progress, or its references as sent.
    """
    about = {"here": placement.here, "number": job.number, "run": job.run_no}
    with at.connection.transaction():
        at.connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        waits = at.connection.execute(_WAITS, about).fetchone()
        quiet = not job.seeding and job.pause == "no" and not (waits and waits[0]) and is_quiet(at, job)
        sent = dict(at.connection.execute(_SENT, about).fetchall())
        applied = dict(at.connection.execute(_APPLIED, about).fetchall())
    return Figures(quiet, sent, applied)


def _read_jobs(at: Pass, *, job_id: int | None = None) -> list[Any]:
    with named_rows(at.connection) as cursor:
        return cursor.execute(_JOBS, {"job": job_id}).fetchall()


def _by_job(at: Pass, placement: Placement) -> dict[int, dict[str, Mapping[str, Any]]]:
    """Return the newest reports of the other partitions, by job number and partition."""
    reports: dict[int, dict[str, Mapping[str, Any]]] = {}
    for fact in facts.heard(at.connection, placement.here, kind="run"):
        reports.setdefault(int(fact.key.partition(":")[2]), {})[fact.source] = fact.body
    return reports


def _update(at: Pass, job: Any, **changes: Any) -> Any:
    """Store what is known about a job's run; return its row with the changes."""
    with at.connection.transaction():
        hold_term(at.connection, at.office)
        for column, value in changes.items():
            stored = Jsonb(value) if isinstance(value, dict) else value
            at.connection.execute(_UPDATES[column], {"value": stored, "job": job.id})
    return job._replace(**changes)


_UPDATES: Final[Mapping[str, LiteralString]] = {
    "may_finish_run": "UPDATE jobs_partitionedjob SET may_finish_run = %(value)s WHERE job_id = %(job)s",
    "decided_run": "UPDATE jobs_partitionedjob SET decided_run = %(value)s WHERE job_id = %(job)s",
    "held_run": "UPDATE jobs_partitionedjob SET held_run = %(value)s WHERE job_id = %(job)s",
    "ends_at_limit_run": "UPDATE jobs_partitionedjob SET ends_at_limit_run = %(value)s WHERE job_id = %(job)s",
    "others_ended_run": "UPDATE jobs_partitionedjob SET others_ended_run = %(value)s WHERE job_id = %(job)s",
    "round_no": "UPDATE jobs_partitionedjob SET round_no = %(value)s WHERE job_id = %(job)s",
    "last_round": "UPDATE jobs_partitionedjob SET last_round = %(value)s WHERE job_id = %(job)s",
}


def _try(job_id: int, name: str, *, at: Pass, reason: str = "") -> int:
    """Make an operator's transition for the control partition; return 1 if it was possible."""
    try:
        make_transition(job_id, name, made_by=_AUTHOR, now=at.now, reason=reason)
    except (TransitionRefused, Unknown):
        return 0
    return 1
