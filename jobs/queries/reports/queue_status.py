"""Queue status: the number of documents in each status, in total or by class of identifier; exact at any size."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Kind
from jobs.partitions.merged import Silent
from jobs.queries.reports.classes import EVERYTHING, class_of
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_states import QUEUED, STATUS_CONDITIONS, Status
from jobs.queries.reports.execution import check_patterns, read_position, run_report, write_position
from jobs.queue.sql.low_water import LOWEST_DELTA

ORDER: Final = "queue"


def _first_that_holds(*statuses: Status, otherwise: Status) -> str:
    cases = " ".join(f"WHEN {STATUS_CONDITIONS[status]} THEN '{status}'" for status in statuses)
    return f"CASE {cases} ELSE '{otherwise}' END"


# The status of the documents that a row of a counter counts: pending documents are ready, and claimed ones are being
# processed.
_STANDING: Final = (
    f"CASE WHEN item.stage = {Stage.ACTIVE:d} THEN '{Status.PROCESSING}' ELSE "
    + _first_that_holds(
        Status.DELETING, Status.HOPCOUNT_EXCEEDED, Status.INACTIVE, otherwise=Status.READY_FOR_PROCESSING
    )
    + " END"
)
_PENDING: Final = _first_that_holds(
    Status.WAITING_FOREVER,
    Status.WAITING_FOR_PROCESSING,
    Status.WAITING_FOR_EXPIRATION,
    Status.READY_FOR_EXPIRATION,
    otherwise=Status.READY_FOR_PROCESSING,
)

_COUNTS: Final = ",\n       ".join(
    f"count(*) FILTER (WHERE {condition}) AS {status}" for status, condition in STATUS_CONDITIONS.items()
)
_BY_CLASS: Final = f"""
WITH counted AS (
SELECT {{class_}} AS identifier_class, count(*) AS documents,
       {_COUNTS}
  FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
 WHERE {{where}}
 GROUP BY 1
)
SELECT * FROM counted
 WHERE %(last)s::bigint IS NULL OR (-documents, identifier_class) > (-%(last)s::bigint, %(last_class)s)
 ORDER BY documents DESC, identifier_class LIMIT %(limit)s
"""

# If the filter has neither a pattern nor a state, the counters are read, and most documents are not. Counters have
# stages and runs, but no times and actions. So documents are read only for pending documents without a number in the
# queue (they have a separate index), and for documents that will expire. All other pending documents are ready.
# Claimed documents are few, and have an index. One statement reads everything, in one snapshot.
_OF_ALL: Final = f"""
WITH job AS MATERIALIZED (SELECT * FROM jobs_job WHERE id = ANY(%(jobs)s)
), counted AS (
    SELECT job_id, run_no, stage, amount FROM jobs_jobcounter WHERE measure = 'stage' AND job_id = ANY(%(jobs)s)
     UNION ALL
    SELECT job_id, run_no, stage, amount FROM jobs_counterdelta
      WHERE measure = 'stage' AND job_id = ANY(%(jobs)s) AND id >= {LOWEST_DELTA}
), standing AS (
    SELECT {_STANDING} AS status, sum(item.amount)::bigint AS amount
      FROM counted AS item JOIN job ON job.id = item.job_id GROUP BY 1
), apart AS (
    SELECT {_PENDING} AS status, count(*) AS amount
      FROM jobs_queueitem AS item JOIN job ON job.id = item.job_id
     WHERE {QUEUED} AND item.seq IS NULL GROUP BY 1
     UNION ALL
    SELECT {_PENDING} AS status, count(*)
      FROM jobs_queueitem AS item JOIN job ON job.id = item.job_id AND job.kind = '{Kind.CONTINUOUS}'
     WHERE {QUEUED} AND item.seq IS NOT NULL AND item.action = {Action.EXPIRE:d} GROUP BY 1
     UNION ALL
    SELECT '{Status.EXPIRING}', count(*)
      FROM jobs_queueitem AS item JOIN job ON job.id = item.job_id
     WHERE {STATUS_CONDITIONS[Status.EXPIRING]}
)
SELECT status, sum(amount)::bigint AS amount FROM (
    SELECT status, amount FROM standing
     UNION ALL
    SELECT status, amount FROM apart
     UNION ALL
    -- Subtracted, since the counters have them as ready or as being processed.
    SELECT CASE status WHEN '{Status.EXPIRING}' THEN '{Status.PROCESSING}' ELSE '{Status.READY_FOR_PROCESSING}' END, -amount
      FROM apart
) AS every GROUP BY status
"""


@dataclass(frozen=True, slots=True)
class QueueLine:
    """The number of documents of a class of identifiers in each status."""

    identifier_class: str
    documents: int
    counts: Mapping[Status, int]


@dataclass(frozen=True, slots=True)
class QueuePage:
    """A page of classes, the largest first; `next` is the `after` of the page that follows."""

    lines: Sequence[QueueLine]
    next: str | None
    silent: Sequence[Silent] = ()


def read_queue_status(
    wanted: StatusFilter, *, identifier_class: str = EVERYTHING, limit: int, after: str | Sequence[Any] | None = None
) -> QueuePage:
    """
    Return the number of documents in each status, by class of identifier.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: the statement took too long.
    """
    wanted.check()
    check_patterns({"identifier_class": identifier_class})
    last, last_class = read_position(after, of=ORDER) if after else (None, None)
    if identifier_class == EVERYTHING and not wanted.states and not wanted.identifier and not after:
        return QueuePage(_count_all(wanted), None)
    statement = _BY_CLASS.format(
        class_=class_of("item.identifier", identifier_class, parameter="identifier_class"), where=wanted.where
    )
    values: dict[str, Any] = {
        **wanted.values,
        "identifier_class": identifier_class,
        "last": last,
        "last_class": last_class,
        "limit": limit + 1,
    }
    found = run_report(statement, values)
    lines = [
        QueueLine(row.identifier_class, row.documents, {status: getattr(row, status) for status in Status})
        for row in found[:limit]
    ]
    more = len(found) > limit
    return QueuePage(
        lines, write_position([lines[-1].documents, lines[-1].identifier_class], of=ORDER) if more else None
    )


def _count_all(wanted: StatusFilter) -> list[QueueLine]:
    amounts = {row.status: row.amount for row in run_report(_OF_ALL, wanted.values)}
    counts = {
        status: amounts.get(status, 0) if not wanted.statuses or status in wanted.statuses else 0 for status in Status
    }
    documents = sum(counts.values())
    return [QueueLine("", documents, counts)] if documents else []
