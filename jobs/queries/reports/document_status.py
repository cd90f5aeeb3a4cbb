"""Document status: each document with its result so far and its next step."""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.lifecycle.document import Action, Stage
from jobs.lifecycle.job import Kind, Phase, Scan
from jobs.partitions.merged import Silent
from jobs.queries.reports.document_filter import StatusFilter
from jobs.queries.reports.document_states import Facts, State, Status, state_of, status_of
from jobs.queries.reports.execution import BadPosition, read_position, run_report, write_position

_ORDER: Final = "documents"

FACTS: Final = """
item.hash, item.job_id, job.name AS job, item.identifier, item.stage, item.indexed_before,
       item.run_no = job.run_no AS is_of_this_run, job.scan, job.phase, job.kind, item.action, item.seq IS NOT NULL AS has_number,
       item.check_time, item.failures, item.failing_since, item.most_failures, item.failing_until, item.result_code
"""
# In the order of the primary key, so that the next page is found by an index, and no earlier row is counted.
_LIST: Final = f"""
SELECT {FACTS}
  FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
 WHERE {{where}}
   AND (%(last_hash)s::uuid IS NULL OR (item.hash, item.job_id) > (%(last_hash)s::uuid, %(last_job)s::bigint))
 ORDER BY item.hash, item.job_id LIMIT %(limit)s
"""


@dataclass(frozen=True, slots=True)
class DocumentStatusLine:
    """
    A document and its state.

    `scheduled_at` is when `action` is due, None without a schedule; a document that is already due has the time of the
    report. `retry_count` is the number of failed attempts in a row, `failing_since` the time of the first. The document
    is given up after `retry_limit` attempts, or at `retry_until`, if its connector set these. `partition` is the other
    partition that has it; "" for this one.
    """

    hash: uuid.UUID
    job_id: int
    identifier: str
    job: str
    state: State
    status: Status
    scheduled_at: dt.datetime | None
    action: Action | None
    retry_count: int
    failing_since: dt.datetime | None
    retry_limit: int | None
    retry_until: dt.datetime | None
    result_code: str
    partition: str = ""

    @property
    def position(self) -> Sequence[Any]:
        return [self.hash.hex, self.job_id]


@dataclass(frozen=True, slots=True)
class DocumentStatusPage:
    """A page of documents; `next` is the `after` of the page that follows, None at the end."""

    lines: Sequence[DocumentStatusLine]
    next: str | None
    silent: Sequence[Silent] = ()


def read_document_status(
    wanted: StatusFilter, *, limit: int, after: str | Sequence[Any] | None = None
) -> DocumentStatusPage:
    """
    Return a page of documents in the order of their keys.

    Raises:
        BadPattern, BadPosition: an argument is invalid.
        TooSlow: the statement took too long.
    """
    wanted.check()
    last_hash, last_job = _read_key(after) if after else (None, None)
    values = {**wanted.values, "last_hash": last_hash, "last_job": last_job, "limit": limit + 1}
    found = run_report(_LIST.format(where=wanted.where), values)
    lines = [line_of(row, now=wanted.now) for row in found[:limit]]
    end = lines[-1] if len(found) > limit else None
    return DocumentStatusPage(lines, write_position(end.position, of=_ORDER) if end else None)


def _read_key(after: str | Sequence[Any]) -> tuple[uuid.UUID, int]:
    match read_position(after, of=_ORDER):
        case [str() as key, int() as job]:
            return uuid.UUID(hex=key), job
        case _:
            raise BadPosition


def line_of(row: Any, *, now: dt.datetime) -> DocumentStatusLine:
    """Return the line of a row that has the columns of `FACTS`."""
    facts = Facts(
        stage=Stage(row.stage),
        indexed_before=row.indexed_before,
        is_of_this_run=row.is_of_this_run,
        scan=Scan(row.scan),
        phase=Phase(row.phase),
        action=Action(row.action),
        has_number=row.has_number,
        check_time=row.check_time,
        recurs=row.kind == Kind.CONTINUOUS,
    )
    status = status_of(facts, now=now)
    is_scheduled = status in _SCHEDULED
    return DocumentStatusLine(
        hash=row.hash,
        job_id=row.job_id,
        identifier=row.identifier,
        job=row.job,
        state=state_of(facts),
        status=status,
        scheduled_at=(row.check_time or now) if is_scheduled else None,
        action=facts.action if is_scheduled else None,
        retry_count=row.failures,
        failing_since=row.failing_since,
        retry_limit=row.most_failures if row.failures else None,
        retry_until=row.failing_until if row.failures else None,
        result_code=row.result_code,
    )


_SCHEDULED: Final = frozenset(
    {
        Status.READY_FOR_PROCESSING,
        Status.READY_FOR_EXPIRATION,
        Status.WAITING_FOR_PROCESSING,
        Status.WAITING_FOR_EXPIRATION,
    }
)
