"""
docs/lifecycle.md, generated from the tables: `python -m jobs.lifecycle.diagram > docs/lifecycle.md`.

A test compares the file with the output.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jobs.lifecycle import document, job
from jobs.lifecycle.arrows import target_of
from jobs.lifecycle.table import Transition
from nodes import lifecycle
from nodes.decisions import items

_HEAD = """# Lifecycles

This page shows the states of jobs, documents, groups and nodes, with every transition.
It is printed from the tables in `jobs/lifecycle/` and `nodes/` by `python -m jobs.lifecycle.diagram`; do not edit it.
"""

_OF_GROUPS = (
    "A group is all running seeds of one policy in one scope (`nodes/decisions/items.py`).\nIts row names its owner."
)
_OF_NODES = "A node is one run of one process (`nodes/lifecycle.py`).\nThe database refuses every change of a node that has ended."


def page() -> str:
    """Return the whole page in Markdown."""
    return "\n".join(
        (
            _HEAD,
            *_section("Jobs", job.TRANSITIONS.values(), _job_target),
            "### Names in ManifoldCF",
            "",
            "The state of a job is a tuple of facts, from which ManifoldCF's status is derived.\nPages show the plain words.",
            "",
            *_names(),
            "",
            *_section("Documents", document.TRANSITIONS.values(), _document_target),
            *_plain_section("Throttle groups", _OF_GROUPS, items.ITEM_TRANSITIONS),
            *_plain_section("Nodes", _OF_NODES, lifecycle.TRANSITIONS),
        )
    )


def _section(title: str, transitions: Iterable[Transition], target: Callable[[Transition, str], str]) -> Iterator[str]:
    rows = list(transitions)
    yield f"## {title}"
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    for row in rows:
        for source in sorted(row.sources):
            # A transition that stays in its situation changes other facts only. The diagram leaves such transitions
            # out, because they would hide the others.
            if (leads_to := target(row, source)) != source:
                yield f"    {_slug(source)} --> {_slug(leads_to)}: {row.name}"
    yield "```"
    yield ""
    yield "| transition | from | sets | by | when |"
    yield "|---|---|---|---|---|"
    for row in rows:
        sets = [
            _sets(row.becomes),
            *(f"from {source}: {_sets(becomes)}" for source, becomes in sorted(row.unlike.items())),
        ]
        guard = ", and ".join(part for part in (_sets(row.requires), row.guard) if part) or "always"
        yield f"| {row.name} | {', '.join(sorted(row.sources))} | {'; '.join(sets)} | {row.owner.value} | {guard} |"
    yield ""


def _plain_section(
    title: str, words: str, transitions: Sequence[items.ItemTransition] | Sequence[lifecycle.NodeTransition]
) -> Iterator[str]:
    """Yield the section of a lifecycle whose state is a single value, such as that of nodes."""
    yield f"## {title}"
    yield ""
    yield words
    yield ""
    yield "```mermaid"
    yield "stateDiagram-v2"
    for row in transitions:
        for source in sorted(source or "absent" for source in row.sources):
            if (target := row.target or "absent") != source:
                yield f"    {source} --> {target}: {row.cause}"
    yield "```"
    yield ""
    yield "| transition | from | to | by | when |"
    yield "|---|---|---|---|---|"
    for row in transitions:
        sources = ", ".join(sorted(source or "absent" for source in row.sources))
        yield f"| {row.cause} | {sources} | {row.target or 'absent'} | {row.by} | {row.guard} |"
    yield ""


def _job_target(row: Transition, source: str) -> str:
    """Return the situation to which a transition leads, from one of its sources."""
    return target_of(row, _example_of(source))


def _example_of(situation: str) -> job.JobState:
    """Return the simplest state of a situation."""
    states = (replace(state, guard=guard) for state in job.states_by_name().values() for guard in job.Guard)
    return next(state for state in states if job.situation_of(state) == situation)


def _document_target(row: Transition, source: str) -> str:
    if row.becomes.get("rescan") is True:
        return "active, to be rescanned" if source == "active" else f"{source}, wanted again"
    stage = row.becomes.get("stage")
    return "absent" if stage is None and "stage" in row.becomes else str(_value(stage)).replace("_", " ")


def _names() -> Iterator[str]:
    yield "| status | plain words |"
    yield "|---|---|"
    for name, state in sorted(job.states_by_name().items()):
        yield f"| {name} | {job.plain_name(state)} |"


def _sets(becomes: Mapping[str, object]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in becomes.items())


def _value(value: object) -> str:
    name = getattr(value, "name", None)
    return str(name if name is not None else value).lower()


def _slug(text: str) -> str:
    return text.replace(", ", "_").replace(" ", "_")


if __name__ == "__main__":
    sys.stdout.write(page())
