"""The story of one document: all facts about it, to find out why it is, or is not, in the index."""

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from jobs.connectors.repository.base import Carried
from jobs.lifecycle.document import Stage
from jobs.models import CarryDown, HopCount, Job, Outcome, OutLinks, QueueItem
from jobs.queries.documents.history import HistoryLine, read_history
from jobs.queries.documents.outputs import HeldBy, PartLine, read_outputs, read_parts
from jobs.queries.documents.verdict import judge_item
from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.queue.flushing.carried import merged
from jobs.verdicts.causes import Verdict

_LINKS_SHOWN: Final = 50


@dataclass(frozen=True, slots=True)
class LinkLine:
    """A link target; `identifier` is '' if the job does not know it."""

    hash: uuid.UUID
    identifier: str
    stage: Stage | None
    outcome: Outcome | None
    code: str
    is_of_this_run: bool = False


@dataclass(frozen=True, slots=True)
class DocumentStory:
    """All facts about one document, to find out why it is, or is not, in the index."""

    item: QueueItem
    job: Job
    host: HostStatus
    worker: str
    held_by: Sequence[HeldBy]
    parts: Sequence[PartLine]
    links: Sequence[LinkLine]
    links_in_all: int
    is_redirect: bool
    # Hops from a seed for each limited type of link; None means more than the limit.
    hops: Mapping[str, int | None]
    # The values that the document's parents pass to it.
    carried: Carried
    # The reason why the document has not ended in this run; None if it has ended, or if this run has not reached it.
    verdict: Verdict | None
    history: Sequence[HistoryLine]
    # Another partition that has the document, and the id of its job there; '' if this partition has it.
    partition: str = ""
    job_there: int = 0

    @property
    def is_of_this_run(self) -> bool:
        return self.item.run_no == self.job.run_no

    @property
    def is_held(self) -> bool:
        return any(held.version for held in self.held_by)


def read_story(*, job_id: int, document: uuid.UUID, now: dt.datetime) -> DocumentStory | None:
    """Read all facts about one document; None if the job does not know it."""
    item = QueueItem.objects.select_related("job", "lane", "batch__worker").filter(job_id=job_id, hash=document).first()
    if item is None:
        return None
    host = read_host_statuses([item.lane.bin_id], now=now)[0]
    out = OutLinks.objects.filter(job_id=job_id, hash=document).first()
    targets = list(out.targets) if out else []
    return DocumentStory(
        item=item,
        job=item.job,
        host=host,
        worker=item.batch.worker.name if item.batch and item.batch.worker else "",
        held_by=read_outputs(item),
        parts=read_parts(item),
        links=_read_links(item.job, targets[:_LINKS_SHOWN]),
        links_in_all=len(targets),
        is_redirect=out.is_redirect if out else False,
        hops=_read_hops(item.job, document),
        carried=_read_carried(item.job, document),
        verdict=judge_item(item, host, now=now),
        history=read_history(item),
    )


def _read_hops(job: Job, document: uuid.UUID) -> Mapping[str, int | None]:
    if not job.hop_limits:
        return {}
    counts = {row.link_type: row.distance for row in HopCount.objects.filter(job=job, hash=document)}
    return {
        link_type: counts[link_type] if counts.get(link_type, most + 1) <= most else None
        for link_type, most in sorted(job.hop_limits.items())
    }


def _read_carried(job: Job, document: uuid.UUID) -> Carried:
    if not job.carries:
        return {}
    return merged(CarryDown.objects.filter(job=job, child=document).values_list("carried", flat=True)) or {}


def _read_links(job: Job, targets: Sequence[uuid.UUID]) -> list[LinkLine]:
    known = {item.hash: item for item in QueueItem.objects.filter(job=job, hash__in=targets)}
    return [
        LinkLine(
            target,
            item.identifier,
            Stage(item.stage),
            Outcome(item.outcome),
            item.result_code,
            item.run_no == job.run_no,
        )
        if (item := known.get(target))
        else LinkLine(target, "", None, None, "")
        for target in targets
    ]
