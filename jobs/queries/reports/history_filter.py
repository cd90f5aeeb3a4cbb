"""What of the history a report is about: sources, jobs, activities, a stretch of time, patterns."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from django.utils.functional import cached_property

from jobs.lifecycle.activity import OF_OUTPUTS, ActivityName
from jobs.models import OutputConnection, RepositoryConnection
from jobs.queries.reports.asking import check_patterns

# What is told of where nobody says how much: as much as is read at once in any case.
USUAL_STRETCH: Final = dt.timedelta(hours=1)


@dataclass(frozen=True)
class HistoryFilter:
    """
    What to tell of: from `since` until just before `until`; empty fields ask for nothing.

    `activities` are names as the history shows them: those of outputs with the output's name in
    parentheses, or without one for all outputs. `entity` and `code` are regular expressions.
    """

    since: dt.datetime
    until: dt.datetime
    repository_id: int | None = None
    job_id: int | None = None
    activities: Sequence[str] = field(default=())
    entity: str = ""
    code: str = ""

    def check(self) -> None:
        """
        Raises:
            BadPattern: a pattern is none.
        """
        check_patterns({name: getattr(self, name) for name in ("entity", "code") if getattr(self, name)})

    @cached_property
    def conditions(self) -> list[str]:
        """Conditions on rows `past` of the history, for `values`; that of the source is left to the statement."""
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
        return asked

    @cached_property
    def values(self) -> dict[str, Any]:
        """What the conditions ask for, and the sources: all of them, if none is named, so that their index serves."""
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
        }

    @property
    def where(self) -> str:
        """The whole condition on rows `past`."""
        return " AND ".join(["past.repository_id = ANY(%(repositories)s)", *self.conditions])


def list_activities() -> list[str]:
    """The names that can be asked for, without those that only connectors know."""
    outputs = [output for output in OutputConnection.objects.order_by("name") if output.connector != "null"]
    own = [name.value for name in ActivityName if name not in OF_OUTPUTS]
    return own + [f"{activity.value} ({output.name})" for activity in sorted(OF_OUTPUTS) for output in outputs]


def _all_sources() -> list[int]:
    return list(RepositoryConnection.objects.order_by("pk").values_list("pk", flat=True))


def _activities_of_outputs(names: Sequence[str]) -> dict[str, tuple[str, int]]:
    """Those of these names that name an output, each with its activity and the output."""
    if not any(name.endswith(")") for name in names):
        return {}
    outputs = list(OutputConnection.objects.all())
    known = {
        f"{activity.value} ({output.name})": (activity.value, output.pk)
        for activity in OF_OUTPUTS
        for output in outputs
    }
    return {name: known[name] for name in names if name in known}
