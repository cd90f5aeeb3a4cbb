"""All documents of a filter, in parts, with everything that is known about each. Exports use it."""

import uuid
from collections.abc import Sequence
from typing import Any, Final

from jobs.models.document import Outcome
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_status import FACTS, DocumentStatusLine, line_of
from jobs.queries.reports.execution import run_report

# In the order of the primary key, which no document changes. So a document that exists from the first part to the last
# is in exactly one part.
_PART: Final = f"""
WITH item AS MATERIALIZED (
    SELECT item.* FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
     WHERE {{where}} {{behind}} ORDER BY item.hash, item.job_id LIMIT %(limit)s
)
SELECT {FACTS}, bin.name AS host, item.run_no, item.outcome, item.depth, item.redirects, item.version, item.fetched_at,
       item.changed_at, item.response_ms
  FROM item JOIN jobs_job AS job ON job.id = item.job_id
  LEFT JOIN jobs_lane AS lane ON lane.id = item.lane_id
  LEFT JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 ORDER BY item.hash, item.job_id
"""
_BEHIND: Final = "AND (item.hash, item.job_id) > (%(last_hash)s::uuid, %(last_job)s::bigint)"
_COUNT: Final = """
SELECT count(*) AS documents FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id WHERE {where}
"""
# The key of a document: its hash and its job.
Key = tuple[uuid.UUID, int]


def read_part(
    wanted: StatusFilter, *, after: Key | None, limit: int
) -> tuple[Sequence[tuple[Any, DocumentStatusLine]], Key | None]:
    """
    Return the next rows, each with its line in the report, and the key after which the next call continues; None at the
    end.

    Raises:
        BadPattern, TooSlow: as for the report.
    """
    wanted.check()
    last_hash, last_job = after or (None, None)
    values = {**wanted.values, "last_hash": last_hash, "last_job": last_job, "limit": limit}
    rows = run_report(_PART.format(where=wanted.where, behind=_BEHIND if after else ""), values)
    lines = [(row, line_of(row, now=wanted.now)) for row in rows]
    return lines, (rows[-1].hash, rows[-1].job_id) if len(rows) == limit else None


def count_documents(wanted: StatusFilter) -> int:
    """
    Return the number of documents of a filter.

    Raises:
        BadPattern, TooSlow: as for the report.
    """
    wanted.check()
    return int(run_report(_COUNT.format(where=wanted.where), wanted.values)[0].documents)


def result_of(row: Any) -> str:
    """Return the result class of a document; '' if it has never ended."""
    return "" if row.outcome == Outcome.NONE else str(Outcome(row.outcome).label)
