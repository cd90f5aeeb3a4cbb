"""
Runs over several partitions, in a partition that follows the control partition (`jobs.duties.partitioned_runs`).

The partition stores the jobs that the control partition sends, brings each run nearer to its wanted state, and sends
the state of the run back.
"""

import logging
from collections.abc import Mapping
from typing import Any

from jobs.duties import partitioned_limits as limits
from jobs.duties.context import Pass
from jobs.duties.moves import begin_run
from jobs.duties.partitioned_jobs import DELETED, RUNNING, answer_round, read_jobs, try_transition, update
from jobs.lifecycle.job import Guard, Phase
from jobs.models import PartitionedJob
from jobs.partitions import configuration, existing_jobs, facts, this_partition
from jobs.partitions.facts import FactSender
from jobs.partitions.placement import Placement
from jobs.partitions.slots import has_map
from jobs.queue.wake import wake_job
from nodes.errors import Invalid

logger = logging.getLogger(__name__)


def follow_runs(at: Pass) -> int:
    """
    Bring each job nearer to the state that the control partition wants, and report its state; return the number of
    changes.
    """
    placement = this_partition.placement()
    if placement is None or placement.is_control:
        return 0
    changes = _adopt_jobs(at, placement)
    received, sender = facts.read_facts(at.connection, placement.here, "run", existing_jobs.KIND)
    known = existing_jobs.find_living(received)
    wanted = {fact.key: fact.body for fact in received}
    for job in read_jobs(at):
        if known is not None and known.has_deleted(job.number):
            changes += _delete(at, job)
        elif (body := wanted.get(f"run:{job.number}")) is not None:
            changed = _follow(at, job, body)
            changes += changed
            for now in read_jobs(at, job_id=job.id) if changed else [job]:
                changes += _report(at, placement, now, sender, body)
    return changes


def _adopt_jobs(at: Pass, placement: Placement) -> int:
    """Store new and changed jobs of the control partition; return their number."""
    adopted = 0
    for fact in facts.not_adopted(at.connection, placement.here, kind="job"):
        if not has_map(at.connection):
            # Without the map of slots, a new partition would treat hosts of other partitions as its own.
            return 0
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
    if job.phase in DELETED or (job.phase in RUNNING and job.stop_request != "none"):
        return 0
    return try_transition(job.id, "abort" if job.phase in RUNNING else "delete", at=at)


def _follow(at: Pass, job: Any, wanted: Mapping[str, Any]) -> int:
    """Make the transition that brings a job nearer to its wanted state; return 1 if there was one."""
    is_running = job.phase in RUNNING
    if job.run_no < wanted["run_no"] and wanted["is_running"]:
        if job.phase == Phase.READY_FOR_STARTUP:
            return 0
        if is_running:
            return job.stop_request == "none" and try_transition(job.id, "abort", at=at)
        return _begin(at, job, wanted)
    if job.run_no == wanted["run_no"] and job.phase == Phase.INACTIVE and job.guard == Guard.WAITING:
        return _answer(at, job, wanted)
    if job.run_no != wanted["run_no"] or not is_running:
        return 0
    if limits.apply_share(at, job, wanted.get("share")):
        return 1
    if wanted.get("ends_at_limit"):
        if job.ends_at_limit_run < job.run_no:
            update(at, job, ends_at_limit_run=job.run_no)
        return 0
    if wanted["may_finish"] and job.may_finish_run < job.run_no:
        update(at, job, may_finish_run=job.run_no, others_ended_run=job.run_no)
        return 1
    if wanted.get("removals") and job.decided_run < job.run_no:
        held = job.run_no if wanted["removals"] == "held" else job.held_run
        update(at, job, held_run=held, decided_run=job.run_no)
        return 1
    if wanted["is_stopped"] or (not wanted["is_running"] and not wanted["may_finish"]):
        return job.stop_request == "none" and try_transition(job.id, "abort", at=at)
    if wanted["is_paused"] and job.pause == "no":
        return try_transition(job.id, "pause", at=at)
    if not wanted["is_paused"] and job.pause != "no" and not job.reason:
        return try_transition(job.id, "resume", at=at)
    return 0


def _answer(at: Pass, job: Any, wanted: Mapping[str, Any]) -> int:
    """Approve or reject the removals as the operator did in the control partition; return 1 for a transition."""
    if wanted["guard"] == Guard.ALLOWED:
        # Wake the lanes before the transition: stuffing does not read them until then, and they must not sleep
        # afterwards.
        wake_job(at.connection, job_id=job.id, now=at.now)
        return try_transition(job.id, "allow removals", at=at)
    is_refused = wanted["guard"] == Guard.NO and not wanted["is_running"]
    return try_transition(job.id, "refuse removals", at=at) if is_refused else 0


def _begin(at: Pass, job: Any, wanted: Mapping[str, Any]) -> int:
    name = "start minimal" if wanted["minimal"] else "start"
    run = {
        # Store the number before the wanted one, because the preparation of the run adds one to it.
        "run_no": wanted["run_no"] - 1,
        "from_the_beginning": wanted["from_the_beginning"],
        "window_ends_at": None,
    }
    try:
        return begin_run(at, job.id, name, facts=run)
    except Invalid as invalid:
        logger.warning("job %s cannot run here: %s", job.name, invalid)
        return 0


def _report(at: Pass, placement: Placement, job: Any, sender: FactSender, wanted: Mapping[str, Any]) -> int:
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
    sent_share = wanted.get("share") if wanted["run_no"] == job.run_no else None
    if (share := limits.confirmed(at, job, sent=sent_share)) is not None:
        report["share"] = share
    key = f"run:{job.number}"
    sent = sender.last(placement.control, key) or {}
    if job.phase == Phase.ACTIVE:
        # One answer for each round of a run: a later answer would belong to another round.
        has_answered = (sent.get("run_no"), sent.get("round")) == (job.run_no, round_no) and "figures" in sent
        report["figures"] = sent["figures"] if has_answered else answer_round(at, placement, job).as_json()
    return sender.send(placement.control, key, report)
