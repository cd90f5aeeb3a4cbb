"""A document in the outputs of its job: its version and its parts there, or why a stage of the pipeline refuses it."""

import datetime as dt
from dataclasses import dataclass

from jobs.connectors.repository.base import part_address
from jobs.models import IndexedDocument, PipelineRefusal, QueueItem


@dataclass(frozen=True, slots=True)
class HeldBy:
    """
    The document in one output; `version` is '' if the output does not have it.

    `refused` is the reason why a stage of the job's pipeline refused it, with the `stage` and its result `code`.
    """

    output: str
    connector: str
    version: str
    indexed_at: dt.datetime | None
    stage: str = ""
    code: str = ""
    refused: str = ""


def read_outputs(item: QueueItem) -> list[HeldBy]:
    """Return the document in each output of its job."""
    outputs = list(item.job.outputs.all())
    held = {row.output_id: row for row in IndexedDocument.objects.filter(hash=item.hash, output__in=outputs)}
    refused = {row.output_id: row for row in PipelineRefusal.objects.filter(job=item.job, hash=item.hash)}
    lines = []
    for output in outputs:
        row, refusal = held.get(output.pk), refused.get(output.pk)
        version, indexed_at = (row.version, row.indexed_at) if row else ("", None)
        reason = (refusal.stage, refusal.code, refusal.reason) if refusal else ("", "", "")
        lines.append(HeldBy(output.name, output.connector, version, indexed_at, *reason))
    return lines


@dataclass(frozen=True, slots=True)
class PartLine:
    """
    A part of a document in outputs of its job. `indexed_at` is the time of the last write to any of these outputs.
    """

    part: str
    address: str
    outputs: tuple[str, ...]
    indexed_at: dt.datetime


def read_parts(item: QueueItem) -> list[PartLine]:
    """
    Return all parts of a document, by path. No limit is needed here, because the number of parts is limited when they
    are written.
    """
    names = dict(item.job.outputs.values_list("pk", "name"))
    rows = IndexedDocument.objects.filter(parent=item.hash, output__in=list(names))
    by_part: dict[str, list[tuple[str, dt.datetime]]] = {}
    for part, output, indexed_at in rows.order_by("part", "output").values_list("part", "output", "indexed_at"):
        by_part.setdefault(part, []).append((names[output], indexed_at))
    return [
        PartLine(
            part,
            part_address(item.identifier, part),
            tuple(name for name, _ in held),
            max(indexed_at for _, indexed_at in held),
        )
        for part, held in by_part.items()
    ]
