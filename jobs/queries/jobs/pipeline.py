"""The pipeline of a job as a tree, with the numbers of refused documents."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection

from jobs.connectors.transformation import registry
from jobs.connectors.transformation.pipeline import SOURCE, PipelineWanted, read_pipeline
from jobs.models import Job

# Largest number of refusals that are counted, so that the page stays fast.
MOST_COUNTED: Final = 10_000
_REFUSED: Final = """
SELECT stage, output_id, count(*)
  FROM (SELECT stage, output_id FROM jobs_pipelinerefusal WHERE job_id = %s LIMIT %s) AS refusal
 GROUP BY stage, output_id
"""


@dataclass(frozen=True, slots=True)
class Node:
    """
    A stage or an output of the tree. `refused` counts the documents that a stage refused for an output, once for each
    output.
    """

    name: str
    label: str
    refused: int
    is_output: bool
    inner: Sequence["Node"] = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """The nodes that follow the source. `has_more` is true if there are more refusals than were counted."""

    nodes: Sequence[Node]
    has_more: bool
    most: int = MOST_COUNTED


def read_tree(job: Job) -> Tree:
    """Return the pipeline of a job. Without stages, its outputs follow the source."""
    wanted = read_pipeline(job.pipeline)
    of_stages: Counter[str] = Counter()
    of_outputs: Counter[int] = Counter()
    counted = 0
    if wanted.stages:
        with connection.cursor() as cursor:
            cursor.execute(_REFUSED, [job.pk, MOST_COUNTED + 1])
            for stage, output, amount in cursor.fetchall():
                of_stages[stage] += amount
                of_outputs[output] += amount
                counted += amount
    outputs = {output.pk: output.name for output in job.outputs.order_by("name")}
    return Tree(_below(SOURCE, wanted, outputs, of_stages, of_outputs), has_more=counted > MOST_COUNTED)


def _below(
    name: str, wanted: PipelineWanted, outputs: dict[int, str], of_stages: Counter[str], of_outputs: Counter[int]
) -> list[Node]:
    kinds = registry.installed()
    stages = [
        Node(
            stage.name,
            str(kinds[stage.kind].label) if stage.kind in kinds else stage.kind,
            of_stages[stage.name],
            is_output=False,
            inner=_below(stage.name, wanted, outputs, of_stages, of_outputs),
        )
        for stage in wanted.stages
        if stage.input == name
    ]
    ends = [
        Node(output, "", of_outputs[number], is_output=True)
        for number, output in outputs.items()
        if wanted.input_of(number) == name
    ]
    return stages + ends
