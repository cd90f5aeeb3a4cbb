"""
docs/lifecycle.md, printed from the tables: `python -m jobs.lifecycle.diagram > docs/lifecycle.md`.

A test holds the file against what this prints.
"""

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import Any

from jobs.lifecycle import document, job
from jobs.lifecycle.table import Transition

_HEAD = """# Lifecycles

Printed from `jobs/lifecycle/` by `python -m jobs.lifecycle.diagram`; do not edit.
"""


def page() -> str:
    """The whole page in Markdown."""
    return "\n".join(
        (
            _HEAD,
            *_section("Jobs", job.TRANSITIONS.values(), _job_target),
            "### Names in ManifoldCF",
            "",
            "ManifoldCF's statuses are derived from the dimensions. Those marked are reached today.",
            "",
            *_names(),
            "",
            *_section("Documents", document.TRANSITIONS.values(), _document_target),
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
            yield f"    {_slug(source)} --> {_slug(target(row, source))}: {row.name}"
    yield "```"
    yield ""
    yield "| transition | from | sets | by | when |"
    yield "|---|---|---|---|---|"
    for row in rows:
        sets = ", ".join(f"{name} = {_value(value)}" for name, value in row.becomes.items())
        yield f"| {row.name} | {', '.join(sorted(row.sources))} | {sets} | {row.owner.value} | {row.guard or 'always'} |"
    yield ""


def _job_target(row: Transition, source: str) -> str:
    """The situation that a transition leads to, from one of its sources."""
    for state in _states():
        if job.situation_of(state) == source:
            becomes: dict[str, Any] = dict(row.becomes)
            after = replace(state, **becomes)
            return job.situation_of(after) or after.phase.value
    return "?"


def _document_target(row: Transition, _source: str) -> str:
    if row.becomes.get("rescan") is True:
        return "active, to be rescanned"
    stage = row.becomes.get("stage")
    return "absent" if stage is None and "stage" in row.becomes else str(_value(stage)).replace("_", " ")


def _states() -> Iterator[job.JobState]:
    for phase in job.Phase:
        yield job.JobState(phase)
    for pause in job.Pause:
        yield job.JobState(job.Phase.ACTIVE, pause=pause)
    yield job.JobState(job.Phase.ACTIVE, stop_request=job.StopRequest.ABORT)


def _names() -> Iterator[str]:
    reached = {job.manifoldcf_name(state) for state in _states()}
    yield "| status | plain words | reached |"
    yield "|---|---|---|"
    for name, state in sorted(job.states_by_name().items()):
        yield f"| {name} | {job.plain_name(state)} | {'yes' if name in reached else ''} |"


def _value(value: object) -> str:
    name = getattr(value, "name", None)
    return str(name if name is not None else value).lower()


def _slug(text: str) -> str:
    return text.replace(", ", "_").replace(" ", "_")


if __name__ == "__main__":
    sys.stdout.write(page())
