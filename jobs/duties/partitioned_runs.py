"""
Runs over several partitions: the control partition leads, the others follow (`jobs.duties.partitioned_following`).

The control partition sends the wanted state of a job to each other partition as a fact. The other partition compares
the wanted state with its own, acts on the difference, and sends its state and its figures. The result does not depend
on the order or the number of facts, so each side may be down or be restored meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, LiteralString

from jobs.duties import partitioned_guard
from jobs.duties import partitioned_limits as limits
from jobs.duties.context import Pass
from jobs.duties.partitioned_jobs import DELETED, RUNNING, answer_round, read_jobs, try_transition, update
from jobs.lifecycle.job import Guard, Phase
from jobs.partitions import configuration, existing_jobs, facts, this_partition
from jobs.partitions.end_of_run import Figures, has_ended, is_settled
from jobs.partitions.facts import Fact, FactSender
from jobs.partitions.move_notes import is_on
from jobs.partitions.placement import Placement
from nodes.lifecycle import CLUSTER_SCOPE

_RUN: Final = "run"
# The definition of a job is sent before its run begins, because each reference has the number of the job.
_SHARE: Final[LiteralString] = """
INSERT INTO jobs_partitionedjob (job_id, number)
SELECT id, id FROM jobs_job AS job
 WHERE node_scope = %(scope)s AND phase = 'ready_for_startup'
   AND NOT EXISTS (SELECT FROM jobs_partitionedjob WHERE job_id = job.id)
ON CONFLICT DO NOTHING
"""

# These numbers change with each save of a definition, which adds a version, and with each deletion of old versions.
_VERSIONS: Final[LiteralString] = "SELECT count(*), max(id) FROM jobs_definitionversion"


def share_jobs(at: Pass) -> bool:
    """
    Share the jobs that are about to run with the other partitions, if this is the control partition.

    Return False if no run may begin, because slots move.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control or at.scope != CLUSTER_SCOPE:
        return True
    if is_on(at.connection):
        return False
    at.connection.execute(_SHARE, {"scope": at.scope})
    return True


def runs_elsewhere(at: Pass) -> dict[int, int]:
    """
    Return the number of the last run that another partition reported, by job, if this is the control partition.

    That number is above the number in this database if this database was restored from a backup that is older than the
    run.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return {}
    reports = _by_job(facts.received_facts(at.connection, placement.here, kind=_RUN))
    return {
        job.id: max(report["run_no"] for report in reports[job.number].values())
        for job in read_jobs(at)
        if job.number in reports
    }


def lead_runs(at: Pass) -> int:
    """
    Send the wanted state of each job to the other partitions, and find the runs that have ended. Return the number of
    changes.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return 0
    received, sender = facts.read_facts(at.connection, placement.here, _RUN, existing_jobs.KIND)
    reports = _by_job(received)
    jobs = [job for job in read_jobs(at) if job.phase not in DELETED]
    # Sent before all other facts about a new job: without this fact, a receiver would treat the job as deleted.
    changes = int(existing_jobs.send_living(sender, placement, [job.number for job in jobs]))
    for job in jobs:
        changes += _lead(at, placement, job, reports.get(job.number, {}), sender)
    return changes


def _lead(
    at: Pass, placement: Placement, job: Any, reports: Mapping[str, Mapping[str, Any]], sender: FactSender
) -> int:
    of_run = {name: report for name, report in reports.items() if report["run_no"] == job.run_no}
    changes = _abort_forgotten(at, job, reports)
    if job.phase == Phase.ACTIVE and job.may_finish_run < job.run_no and not job.move_hold:
        job, looked = _decide_end(at, placement, job, of_run)
        changes += looked
    # A partition whose removals wait for approval has not ended its run: the run continues after the answer.
    ended = [
        name
        for name in placement.others
        if (report := of_run.get(name)) is not None
        and report["phase"] == Phase.INACTIVE
        and report.get("guard") != Guard.WAITING
    ]
    if len(ended) == len(placement.others) and job.others_ended_run < job.run_no and job.phase in RUNNING:
        update(at, job, others_ended_run=job.run_no)
        changes += 1
    early = [name for name in ended if job.may_finish_run < job.run_no and job.phase == Phase.ACTIVE]
    sent_shares, ends_at_limit = limits.divide(at, placement, job, of_run, sender)
    if ends_at_limit and job.ends_at_limit_run < job.run_no:
        job, changes = update(at, job, ends_at_limit_run=job.run_no), changes + 1
    has_limit_ended = job.ends_at_limit_run >= job.run_no > 0
    if early and not has_limit_ended and job.stop_request == "none":
        name = early[0]
        reason = of_run[name]["reason"] or of_run[name]["run_end"] or "without a reason"
        try_transition(job.id, "abort", at=at, reason=f"partition {name} ended its run: {reason}")
    must_ask = partitioned_guard.decide(at, job, of_run, placement.others)
    if must_ask is not None:
        held = job.run_no if must_ask else job.held_run
        job, changes = update(at, job, held_run=held, decided_run=job.run_no), changes + 1
    wanted = {
        "run_no": job.run_no,
        "minimal": job.minimal,
        "from_the_beginning": job.from_the_beginning,
        "is_running": job.phase in RUNNING,
        "is_paused": job.pause != "no",
        "is_stopped": job.stop_request != "none",
        "may_finish": job.may_finish_run >= job.run_no > 0,
        "ends_at_limit": has_limit_ended,
        "guard": job.guard,
        "removals": _decision(job),
        "round": job.round_no,
    }
    if job.phase == Phase.STARTING_UP:
        # The definition is sent before the run, because a partition has to adopt the job first.
        changes += _send_job(placement, job, FactSender(at.connection, placement.here, "job"))
    if job.phase != Phase.READY_FOR_STARTUP:
        # Not before the run is prepared: until then the job has the number of its previous run.
        for name in placement.others:
            changes += sender.send(name, f"run:{job.number}", {**wanted, "share": sent_shares.get(name)})
    return changes


def _abort_forgotten(at: Pass, job: Any, reports: Mapping[str, Mapping[str, Any]]) -> int:
    """
    Abort a run if another partition has already had a later run, because that partition would never follow. Return the
    number of transitions, 0 or 1.
    """
    if job.phase not in {Phase.STARTING_UP, Phase.ACTIVE} or job.stop_request != "none":
        return 0
    for name, report in reports.items():
        if report["run_no"] > job.run_no:
            run_no = report["run_no"]
            reason = (
                f"partition {name} has had run {run_no}, which a restore of this partition forgot; start the job again"
            )
            return try_transition(job.id, "abort", at=at, reason=reason)
    return 0


def _decision(job: Any) -> str:
    """
    Return the decision for all partitions about the removals of the run: hold them or allow them; empty before the
    decision.
    """
    if job.held_run == job.run_no > 0:
        return "held"
    may_remove = job.may_finish_run >= job.run_no > 0 and job.phase != Phase.ACTIVE
    return "allowed" if may_remove or job.decided_run >= job.run_no > 0 else ""


def send_jobs(at: Pass) -> int:
    """
    Send the definitions of running jobs to the other partitions, because they may have changed. Return the number of
    changes.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return 0
    running = [job for job in read_jobs(at) if job.phase == Phase.ACTIVE]
    versions = at.connection.execute(_VERSIONS).fetchone()
    if not at.definitions.may_have_changed([job.id for job in running], versions, now=at.now):
        return 0
    return send_definitions(at, running)


def send_definitions(at: Pass, jobs: Sequence[Any]) -> int:
    """
    Send the definitions of these jobs to the other partitions, if this is the control partition. Return the number of
    changes.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control or not jobs:
        return 0
    sender = FactSender(at.connection, placement.here, "job")
    return sum(_send_job(placement, job, sender) for job in jobs)


def _send_job(placement: Placement, job: Any, sender: FactSender) -> bool:
    body = {"definitions": configuration.read(job.id)}
    return sender.send_all(placement, f"job:{job.number}", body)


def _decide_end(at: Pass, placement: Placement, job: Any, of_run: Mapping[str, Mapping[str, Any]]) -> tuple[Any, int]:
    """
    If all partitions have answered in this round, decide whether the run has ended. Return the job, and the
    number of changes.
    """
    answered = [name for name, report in of_run.items() if report["round"] == job.round_no and "figures" in report]
    if len(answered) < len(placement.others):
        return job, 0
    figures = {name: Figures.from_json(of_run[name]["figures"]) for name in answered}
    figures[placement.here] = answer_round(at, placement, job)
    last = job.last_round or {}
    is_of_run = last.get("run_no") == job.run_no
    before = {name: Figures.from_json(body) for name, body in last["figures"].items()} if is_of_run else None
    if has_ended(before, figures):
        return update(at, job, may_finish_run=job.run_no, last_round=None), 1
    seen = None
    if is_settled(figures):
        seen = {"run_no": job.run_no, "figures": {name: one.as_json() for name, one in figures.items()}}
    elif not figures[placement.here].quiet:
        # This partition has work, so the run cannot end yet, and the other partitions need not be asked again.
        return job, 0
    return update(at, job, round_no=job.round_no + 1, last_round=seen), 0


def _by_job(received: Iterable[Fact]) -> dict[int, dict[str, Mapping[str, Any]]]:
    """Return the newest reports of the other partitions, by job number and partition."""
    reports: dict[int, dict[str, Mapping[str, Any]]] = {}
    for fact in received:
        kind, _, number = fact.key.partition(":")
        if kind == _RUN:
            reports.setdefault(int(number), {})[fact.source] = fact.body
    return reports
