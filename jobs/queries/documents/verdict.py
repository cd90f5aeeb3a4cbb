"""The reason why one document has not ended in the present run."""

import datetime as dt

from jobs.lifecycle.document import CLAIMED, Action, Stage
from jobs.lifecycle.job import Scan, Window
from jobs.lifecycle.schedule import next_opening_of
from jobs.models import Gate, GatedDocument, Job, QueueItem, ScheduleWindow
from jobs.queries.hosts.latest_requests import read_latest_requests
from jobs.queries.hosts.lines import HostStatus
from jobs.queries.hosts.waiting import narrow
from jobs.queries.jobs.facts import job_facts, read_changes, read_cluster
from jobs.queue.sql.order import RECHECKED
from jobs.verdicts.causes import Verdict
from jobs.verdicts.jobs import DocumentSeen, JobSeen, judge_document


def judge_item(item: QueueItem, host: HostStatus, *, now: dt.datetime) -> Verdict | None:
    """Return the verdict on a document; None for one that has ended, or that this run has not reached."""
    if item.stage not in CLAIMED and not is_to_be_read(item, now=now):
        return None
    job = item.job
    gate = _read_gate(item)
    budget = getattr(job, "budget", None)
    seen = DocumentSeen(
        is_claimed=item.stage in CLAIMED,
        worker=item.batch.worker.name if item.batch and item.batch.worker else "",
        check_time=item.check_time if item.stage == Stage.PENDING and item.run_no == job.run_no else None,
        gate=gate.name if gate else "",
        gate_by=gate.node.name if gate else "",
        gate_since=gate.closed_at if gate else None,
        budget_is_used=budget is not None and budget.admitted >= budget.most and item.admitted_run != job.run_no,
        other_job=_read_other_job(item),
    )
    known = narrow({host.id: host.known}, lane_id=item.lane_id)[host.id]
    return judge_document(seen, read_job_facts(job, now=now), read_cluster(job.node_scope, now=now), known, now=now)


def is_to_be_read(item: QueueItem, *, now: dt.datetime) -> bool:
    """True if the run of the document's job will read it, now or later. The conditions are the same as for stuffing."""
    job = item.job
    if item.run_no < job.run_no:
        return str(int(item.stage)) in RECHECKED[Scan(job.scan)].split(",")
    if item.stage == Stage.PENDING:
        return True
    is_due = item.check_time is not None and item.check_time <= now
    return item.stage == Stage.DONE and is_due and item.action == Action.PROCESS


def read_job_facts(job: Job, *, now: dt.datetime) -> JobSeen:
    """Read the facts of a job for the verdict on its documents."""
    windows = ScheduleWindow.objects.filter(job=job) if job.window != Window.INSIDE else ()
    coming = next_opening_of([window.times for window in windows], after=now)
    return job_facts(
        job.state,
        reason=job.reason,
        change=read_changes([job.pk]).get(job.pk),
        latest=read_latest_requests(now=now).of(job.pk),
        archive_hold=job.archive_hold,
        archive_held_since=job.archive_held_since,
        move_hold=job.move_hold,
        opens_at=coming[0] if coming else None,
    )


def _read_other_job(item: QueueItem) -> str:
    if item.stage in CLAIMED:
        return ""
    others = QueueItem.objects.filter(hash=item.hash, stage__in=CLAIMED).exclude(job=item.job_id)
    return others.values_list("job__name", flat=True).first() or ""


def _read_gate(item: QueueItem) -> Gate | None:
    if item.stage != Stage.PENDING or item.seq is not None or item.check_time is not None:
        return None
    names = GatedDocument.objects.filter(hash=item.hash, job_id=item.job_id).values("gate_id")
    return Gate.objects.filter(pk__in=names).select_related("node").first()
