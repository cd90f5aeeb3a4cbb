"""The progress of all jobs, or of one, over a span of time in equal steps."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from django.db import connection

from jobs.queue.counting.progress import COARSENED, LONGEST, MINUTE

_STEPS: Final = [MINUTE, *(longer for _step, longer, _age in COARSENED)]
assert LONGEST[0] in _STEPS
# Least length (seconds) with which a step that has just begun counts, so that one flush more or less does not show.
_SHORTEST: Final = 10.0


class Span(NamedTuple):
    """A span of time, and the length of its steps."""

    length: dt.timedelta
    step: dt.timedelta


# The spans of charts by name.
SPANS: Final[Mapping[str, Span]] = {
    "5min": Span(dt.timedelta(minutes=5), dt.timedelta(minutes=1)),
    "1h": Span(dt.timedelta(hours=1), dt.timedelta(minutes=1)),
    "24h": Span(dt.timedelta(days=1), dt.timedelta(minutes=15)),
    "7d": Span(dt.timedelta(days=7), dt.timedelta(hours=2)),
    "30d": Span(dt.timedelta(days=30), dt.timedelta(hours=8)),
}
DEFAULT_SPAN: Final = "1h"

# A span has at most 2,016 rows, whatever the number of jobs. The states of a step come from its last sample.
_PROGRESS: Final = """
SELECT date_bin(%(step)s, at, 'epoch') AS begins_at, sum(documents)::bigint, sum(bytes)::bigint, sum(requests)::bigint,
       (array_agg(ARRAY[waiting, active, indexed, unchanged, failed, excluded] ORDER BY at DESC)
        FILTER (WHERE waiting IS NOT NULL))[1:1]
  FROM jobs_progress
 WHERE job_id = %(job)s AND step = ANY(%(steps)s) AND at >= %(begin)s AND at <= %(now)s
 GROUP BY begins_at
"""


@dataclass(frozen=True, slots=True)
class States:
    """Documents of running jobs by their state."""

    waiting: int = 0
    active: int = 0
    indexed: int = 0
    unchanged: int = 0
    failed: int = 0
    excluded: int = 0


@dataclass(frozen=True, slots=True)
class Step:
    """
    One step: its start, the seconds of it that have passed, the documents, bytes and requests in it, and the states of
    documents at its end.
    """

    at: dt.datetime
    seconds: float
    documents: int = 0
    bytes: int = 0
    requests: int = 0
    states: States = States()

    @property
    def documents_per_second(self) -> float:
        return self.documents / self.seconds

    @property
    def bytes_per_second(self) -> float:
        return self.bytes / self.seconds


def add_steps(parts: Sequence[Sequence[Step]]) -> Sequence[Step]:
    """Return the steps of the first part. The figures of each step are the sums over all parts that have this step."""
    own, *others = parts
    found = [{step.at: step for step in other} for other in others]
    return [_sum([step, *(steps[step.at] for steps in found if step.at in steps)]) for step in own]


def _sum(steps: Sequence[Step]) -> Step:
    states = {name: sum(getattr(step.states, name) for step in steps) for name in States.__dataclass_fields__}
    return replace(
        steps[0],
        documents=sum(step.documents for step in steps),
        bytes=sum(step.bytes for step in steps),
        requests=sum(step.requests for step in steps),
        states=States(**states),
    )


def read_progress(span: Span, *, now: dt.datetime, job_id: int = 0) -> Sequence[Step]:
    """Return the steps of a span up to now, the oldest first: of all jobs, or of one."""
    seconds = span.step.total_seconds()
    last = dt.datetime.fromtimestamp(now.timestamp() // seconds * seconds, dt.UTC)
    begin = last - span.length + span.step
    facts: dict[str, Any] = {"step": span.step, "steps": _STEPS, "job": job_id, "begin": begin, "now": now}
    with connection.cursor() as cursor:
        cursor.execute(_PROGRESS, facts)
        found = {row[0]: row[1:] for row in cursor.fetchall()}
    steps = []
    for number in range(round(span.length / span.step)):
        at = begin + number * span.step
        passed = min(seconds, max(_SHORTEST, (now - at).total_seconds()))
        documents, read, requests, sampled = found.get(at, (0, 0, 0, None))
        states = States(*sampled[0]) if sampled else States()
        steps.append(Step(at, passed, documents, read, requests, states))
    if steps and found.get(last, (None,))[-1] is None and len(steps) > 1:
        # The present step has no sample yet.
        steps[-1] = replace(steps[-1], states=steps[-2].states)
    return steps
