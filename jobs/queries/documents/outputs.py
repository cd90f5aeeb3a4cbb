"""A document in the outputs of its job: its version there, or why a stage of the pipeline refuses it."""

import datetime as dt
from dataclasses import dataclass

from jobs.models import IndexedDocument, PipelineRefusal, QueueItem


@dataclass(frozen=True, slots=True)
class HeldBy:
    """
    The document in one output; `version` is '' if the output does not have it.

    `refused` is the reason of a stage of the job's pipeline for that, with the `stage` and its result `code`.
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
