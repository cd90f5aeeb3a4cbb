"""The reason why one document has not ended in the present run."""

import datetime as dt

from jobs.lifecycle.document import CLAIMED, Stage
from jobs.models import Gate, GatedDocument, QueueItem
from jobs.queries.hosts.latest_requests import read_latest_requests
from jobs.queries.hosts.lines import HostStatus
from jobs.queries.hosts.waiting import narrow
from jobs.queries.jobs.facts import job_seen, read_changes, read_cluster
from jobs.verdicts.causes import Verdict
from jobs.verdicts.jobs import DocumentSeen, judge_document


def judge_item(item: QueueItem, host: HostStatus, *, now: dt.datetime) -> Verdict | None:
    """Return the verdict on a document; None for one that has ended, or is not of this run."""
    job = item.job
    if item.run_no != job.run_no or item.stage not in {Stage.PENDING, *CLAIMED}:
        return None
    gate = _read_gate(item)
    budget = getattr(job, "budget", None)
    seen = DocumentSeen(
        is_claimed=item.stage in CLAIMED,
        worker=item.batch.worker.name if item.batch and item.batch.worker else "",
        check_time=item.check_time,
        gate=gate.name if gate else "",
        gate_by=gate.node.name if gate else "",
        gate_since=gate.closed_at if gate else None,
        budget_is_used=budget is not None and budget.admitted >= budget.most and item.admitted_run != job.run_no,
    )
    of_job = job_seen(
        job.state,
        reason=job.reason,
        change=read_changes([job.pk]).get(job.pk),
        latest=read_latest_requests(now=now).of(job.pk),
        archive_hold=job.archive_hold,
        archive_held_since=job.archive_held_since,
    )
    known = narrow({host.id: host.known}, lane_id=item.lane_id)[host.id]
    return judge_document(seen, of_job, read_cluster(job.node_scope, now=now), known, now=now)


def _read_gate(item: QueueItem) -> Gate | None:
    if item.stage != Stage.PENDING or item.seq is not None or item.check_time is not None:
        return None
    names = GatedDocument.objects.filter(hash=item.hash, job_id=item.job_id).values("gate_id")
    return Gate.objects.filter(pk__in=names).select_related("node").first()
