"""The filter of history reports: sources, jobs, activities, a span of time, patterns."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.functional import cached_property

from jobs.lifecycle.activity import OF_JOBS, OF_OUTPUTS, ActivityName
from jobs.models import OutputConnection, RepositoryConnection
from jobs.queries.reports.execution import check_patterns

# Default span of a report, which is read quickly in any case.
DEFAULT_SPAN: Final = dt.timedelta(hours=1)


@dataclass(frozen=True)
class HistoryFilter:
    """
    The activities of a report: from `since` until just before `until`; an empty field means no condition.

    `activities` are names as the history shows them: activities of outputs have the output's name in parentheses, or
    none for all outputs. `entity` and `code` are regular expressions. `omits_jobs` leaves out the activities of jobs.
    Each partition records the start and the end of a job, so a sum over all partitions would count these several times.
    """

    since: dt.datetime
    until: dt.datetime
    repository_id: int | None = None
    job_id: int | None = None
    activities: Sequence[str] = field(default=())
    entity: str = ""
    code: str = ""
    omits_jobs: bool = False

    def check(self) -> None:
        """
        Check the patterns.

        Raises:
            BadPattern: a pattern is invalid.
        """
        check_patterns({name: getattr(self, name) for name in ("entity", "code") if getattr(self, name)})

    @cached_property
    def conditions(self) -> list[str]:
        """
        Return conditions on rows `past` of the history, for `values`; the statement adds the condition on the source.
        """
        asked = ["past.started_at >= %(since)s", "past.started_at < %(until)s"]
        if self.job_id is not None:
            asked.append("past.job_id = %(job)s")
        if self.activities:
            asked.append(
                "(past.activity = ANY(%(activities)s) OR (past.activity, past.output_id) IN"
                " (SELECT * FROM unnest(%(output_activities)s::text[], %(outputs)s::bigint[])))"
            )
        if self.entity:
            asked.append("past.entity ~ %(entity)s")
        if self.code:
            asked.append("past.result_code ~ %(code)s")
        if self.omits_jobs:
            asked.append("past.activity <> ALL(%(of_jobs)s)")
        return asked

    @cached_property
    def values(self) -> dict[str, Any]:
        """
        Return the values of the conditions, and the sources. Without a given source, these are all sources, so that the
        index by source is used.
        """
        sources = [self.repository_id] if self.repository_id is not None else _all_sources()
        of_outputs = _activities_of_outputs(self.activities)
        return {
            "since": self.since,
            "until": self.until,
            "repositories": sources,
            "job": self.job_id,
            "activities": [name for name in self.activities if name not in of_outputs],
            "output_activities": [activity for activity, _ in of_outputs.values()],
            "outputs": [output for _, output in of_outputs.values()],
            "entity": self.entity,
            "code": self.code,
            "of_jobs": sorted(OF_JOBS),
        }

    @property
    def where(self) -> str:
        """Return the whole condition on rows `past`."""
        return " AND ".join(["past.repository_id = ANY(%(repositories)s)", *self.conditions])


def list_activities() -> list[str]:
    """Return the names of activities for a filter. Names that only connectors define are missing."""
    outputs = [output for output in OutputConnection.objects.order_by("name") if output.connector != "null"]
    own = [name.value for name in ActivityName if name not in OF_OUTPUTS]
    return own + [f"{activity.value} ({output.name})" for activity in sorted(OF_OUTPUTS) for output in outputs]


def _all_sources() -> list[int]:
    return list(RepositoryConnection.objects.order_by("pk").values_list("pk", flat=True))


def _activities_of_outputs(names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Return the names among these that name an output, each with its activity and the output."""
    if not any(name.endswith(")") for name in names):
        return {}
    outputs = list(OutputConnection.objects.all())
    known = {
        f"{activity.value} ({output.name})": (activity.value, output.pk)
        for activity in OF_OUTPUTS
        for output in outputs
    }
    return {name: known[name] for name in names if name in known}
