"""The filter of status reports."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from jobs.models import Job
from jobs.queries.documents.conditions import containing
from jobs.queries.reports.document_states import STATE_CONDITIONS, STATUS_CONDITIONS, State, Status
from jobs.queries.reports.execution import check_patterns
from jobs.queue.sql.chosen_states import states_in

_LISTED: Final = states_in("job.run_no")
_OF_HOST: Final = """
item.lane_id IN (SELECT lane.id FROM jobs_lane AS lane JOIN jobs_bin AS bin ON bin.id = lane.bin_id WHERE bin.name = %(host)s)
"""


@dataclass(frozen=True)
class StatusFilter:
    """
    The documents of a report; an empty field means no condition.

    A document is ready or waiting at the moment `now`, which may be any time. `identifier` is a regular expression of
    PostgreSQL. `listed_state` is a key of `_LISTED`: a state as in the list of documents. `contains` is a part of the
    address. `documents` are hashes.
    """

    now: dt.datetime
    repository_id: int | None = None
    job_ids: Sequence[int] = ()
    states: Sequence[State] = ()
    statuses: Sequence[Status] = ()
    identifier: str = ""
    host: str = ""
    codes: Sequence[str] = ()
    listed_state: str = ""
    contains: str = ""
    documents: Sequence[str] = ()

    def check(self) -> None:
        """
        Check the pattern.

        Raises:
            BadPattern: the pattern of the identifier is invalid.
        """
        if self.identifier:
            check_patterns({"identifier": self.identifier})

    @property
    def where(self) -> str:
        """Return the condition on a document `item` and its `job`."""
        asked = ["item.job_id = ANY(%(jobs)s)"]
        if self.states:
            asked.append(_any_of([STATE_CONDITIONS[state] for state in self.states]))
        if self.statuses:
            asked.append(_any_of([STATUS_CONDITIONS[status] for status in self.statuses]))
        if self.identifier:
            asked.append("item.identifier ~ %(identifier)s")
        if self.host:
            asked.append(_OF_HOST)
        if self.codes:
            asked.append("item.result_code = ANY(%(codes)s)")
        if self.listed_state:
            asked.append(_LISTED[self.listed_state])
        if self._containing:
            asked.append(self._containing[0])
        if self.documents:
            asked.append("item.hash = ANY(%(documents)s::uuid[])")
        return " AND ".join(asked)

    @property
    def values(self) -> dict[str, Any]:
        jobs = Job.objects.order_by("pk")
        if self.job_ids:
            jobs = jobs.filter(pk__in=self.job_ids)
        if self.repository_id is not None:
            jobs = jobs.filter(repository=self.repository_id)
        return {
            "jobs": list(jobs.values_list("pk", flat=True)),
            "now": self.now,
            "identifier": self.identifier,
            "host": self.host,
            "codes": list(self.codes),
            "documents": list(self.documents),
            **(self._containing[1] if self._containing else {}),
        }

    @cached_property
    def _containing(self) -> tuple[str, dict[str, Any]] | None:
        """
        Return the condition on a part of the address, and its parameters; None without such a part. The index of
        addresses is read only once, because the result is cached.
        """
        if not self.contains:
            return None
        return containing(self.contains, job_id=self.job_ids[0] if len(self.job_ids) == 1 else None)


def _any_of(conditions: Sequence[str]) -> str:
    return "(" + " OR ".join(f"({condition})" for condition in conditions) + ")"
