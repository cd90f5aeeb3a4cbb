"""The outputs of a job, and how far each is behind the crawl."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from jobs.connectors.output.registry import DEFAULT_OUTPUT
from jobs.models import OutputConnection

# The only kind of output in which documents appear after they were counted as indexed. For all other kinds, workers
# write a document before they count it.
_INDEX: Final = DEFAULT_OUTPUT


@dataclass(frozen=True, slots=True)
class OutputLine:
    """
    An output of a job. `behind_since` is the time of the oldest write that a search does not find yet; None if it finds
    all.
    """

    id: int
    name: str
    connector: str
    is_index: bool
    behind_since: dt.datetime | None


def read_output_lines(job_id: int, *, behind_since: dt.datetime | None) -> Sequence[OutputLine]:
    """Return the outputs of a job by name. `behind_since` is the lag of the search index."""
    rows = OutputConnection.objects.filter(jobs=job_id).order_by("name").values_list("pk", "name", "connector")
    return [
        OutputLine(pk, name, connector, connector == _INDEX, behind_since if connector == _INDEX else None)
        for pk, name, connector in rows
    ]
