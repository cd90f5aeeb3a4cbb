"""Lists of documents by filters, a page at a time."""

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection, transaction
from django.db.utils import OperationalError
from psycopg.errors import QueryCanceled

from jobs.lifecycle.document import Stage
from jobs.models import (
    Outcome,
)
from jobs.queries.documents.conditions import (
    FEW_LANES,
    OF_HOST,
    containing,
    keeping_to_keys,
    keys_meant,
    lanes_if_few,
    outcomes_of_code,
)
from jobs.queue.sql.chosen_states import states_in

A_PAGE: Final = 50
# Milliseconds after which a list is given up: if few documents pass its filter, it may have to read all documents.
_TIMEOUT_MS: Final = 5000

# States to filter by, as conditions on the table. `job` is the document's job.
STATES: Final = states_in("job.run_no")

# Claimed documents have a separate index.
_CLAIMED: Final = "item.batch_id IS NOT NULL"

# In the order of the primary key, so that the next page is found by an index, and no earlier row is counted. Conditions
# are added from constants; values are parameters.
_COLUMNS: Final = """
item.hash, item.job_id, job.name, item.identifier, bin.name, item.stage, item.outcome,
       item.run_no = job.run_no, item.result_code, item.depth, item.fetched_at, item.failures, item.check_time,
       item.response_ms
"""
_LIST: Final = f"""
SELECT {_COLUMNS}
  FROM jobs_queueitem AS item
  JOIN jobs_job AS job ON job.id = item.job_id
  JOIN jobs_lane AS lane ON lane.id = item.lane_id
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 WHERE {{conditions}}
 ORDER BY {{order}}
 LIMIT %(limit)s
"""
# Counts the documents of a filter up to one more than may be sorted by a value. If the count reaches this limit, there
# are too many.
_FEW: Final = """
SELECT count(*) FROM (
       SELECT FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
        WHERE {conditions} LIMIT %(too_many)s) AS few
"""
# In the order of the next check: each lane gives its first documents by its index, and these are merged.
_BY_DUE: Final = f"""
SELECT {_COLUMNS}
  FROM unnest(%(lanes)s::bigint[]) AS wanted(lane_id)
 CROSS JOIN LATERAL (
       SELECT item.* FROM jobs_queueitem AS item JOIN jobs_job AS job ON job.id = item.job_id
        WHERE item.lane_id = wanted.lane_id AND item.check_time IS NOT NULL AND {{conditions}}
        ORDER BY item.check_time, item.hash, item.job_id
        LIMIT %(limit)s) AS item
  JOIN jobs_job AS job ON job.id = item.job_id
  JOIN jobs_lane AS lane ON lane.id = item.lane_id
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 ORDER BY item.check_time, item.hash, item.job_id
 LIMIT %(limit)s
"""
# If the counters have no document in a state, its list is empty, and no document is read. The columns of counters have
# the same names as the columns of documents, so the same condition works on both.
_IS_COUNTED: Final = """
(EXISTS (SELECT FROM jobs_jobcounter AS item JOIN jobs_job AS job ON job.id = item.job_id
          WHERE item.measure = 'stage' AND item.amount > 0 AND {state} AND (%(job)s::bigint IS NULL OR item.job_id = %(job)s))
 OR EXISTS (SELECT FROM jobs_counterdelta AS item JOIN jobs_job AS job ON job.id = item.job_id
             WHERE item.measure = 'stage' AND item.amount > 0 AND {state} AND (%(job)s::bigint IS NULL OR item.job_id = %(job)s)))
"""
_LANES: Final = "item.lane_id = ANY(%(lanes)s)"
_HOST: Final = f"item.lane_id IN (SELECT lane.id FROM jobs_lane AS lane {OF_HOST[0]} WHERE {OF_HOST[1]})"
_BEHIND: Final = "(item.hash, item.job_id) > (%(after_hash)s, %(after_job)s)"
_BEHIND_BY_DUE: Final = """
(item.check_time, item.hash, item.job_id) > (%(after_value)s::timestamptz, %(after_hash)s, %(after_job)s)
"""
_BEHIND_BY_VALUE: Final = """
({column}, item.hash, item.job_id) {beyond} (%(after_value)s::{type}, %(after_hash)s, %(after_job)s)
"""
# No index has result codes, so the condition also names the outcomes of the code, which the counters of jobs know.
# Failed and excluded documents have a separate index, and most documents with other outcomes have the same code.
_CODE: Final = "item.result_code = %(code)s AND item.outcome IN ({outcomes})"


@dataclass(frozen=True, slots=True)
class Order:
    """An order of a list, by a column of documents. `is_downwards` is true if the highest value comes first."""

    column: str
    type: str
    is_downwards: bool = False

    @property
    def columns(self) -> str:
        """Return the columns that order the rows, each with its direction."""
        direction = " DESC" if self.is_downwards else ""
        return ", ".join(f"item.{name}{direction}" for name in (self.column, "hash", "job_id"))


DUE: Final = "due"
# Only the order by the next check has an index. For each other order, at most `MOST_ORDERED` documents are sorted.
ORDERS: Final[Mapping[str, Order]] = {
    DUE: Order("check_time", "timestamptz"),
    "depth": Order("depth", "int"),
    "-depth": Order("depth", "int", is_downwards=True),
    "age": Order("fetched_at", "timestamptz", is_downwards=True),
    "-age": Order("fetched_at", "timestamptz"),
    "response": Order("response_ms", "int"),
    "-response": Order("response_ms", "int", is_downwards=True),
}
MOST_ORDERED: Final = 10_000


@dataclass(frozen=True, slots=True)
class DocumentKey:
    """
    The last document on a page of a list. The next page continues after it. The key has a value if the list is sorted
    by a column.
    """

    hash: uuid.UUID
    job_id: int
    value: dt.datetime | int | None = None


@dataclass(frozen=True, slots=True)
class DocumentFilter:
    """
    The documents to list; an empty field means no condition. `state` is a key of STATES. `contains` is a part of the
    address, of at least `address_index.GRAM` bytes.

    `sort` is one of ORDERS. The list has only documents with a value to sort by, such as a next check.
    """

    job_id: int | None = None
    state: str = ""
    host: str = ""
    code: str = ""
    address: str = ""
    contains: str = ""
    sort: str = ""
    after: DocumentKey | None = None


@dataclass(frozen=True, slots=True)
class DocumentLine:
    hash: uuid.UUID
    job_id: int
    job_name: str
    identifier: str
    host: str
    stage: Stage
    outcome: Outcome
    is_of_this_run: bool
    code: str
    depth: int
    fetched_at: dt.datetime | None
    failures: int
    check_time: dt.datetime | None
    response_ms: int | None


@dataclass(frozen=True, slots=True)
class DocumentList:
    """One page of documents. The next page continues after `next_key`; None on the last page."""

    lines: Sequence[DocumentLine]
    next_key: DocumentKey | None


class FilterTooWide(Exception):
    """The list would have to read too many documents."""

    def __init__(self) -> None:
        super().__init__(
            f"Too many documents to look through in {_TIMEOUT_MS // 1000} seconds. Choose a job or a host as well."
        )


class OrderTooWide(Exception):
    """The list has too many documents, or too many lanes, for this order."""

    def __init__(self, *, is_by_due: bool = False) -> None:
        what = (
            f"by their next check within at most {FEW_LANES:,} lanes"
            if is_by_due
            else f"if at most {MOST_ORDERED:,} match"
        )
        super().__init__(
            f"Documents are ordered {what}. Choose a job or a host{'' if is_by_due else ', or a narrower filter'}."
        )


def list_documents(wanted: DocumentFilter) -> DocumentList:
    """
    Return a page of the documents that pass the filter, in the order of their keys, or of a value.

    Raises:
        FilterTooWide: the statement would take too long.
        OrderTooWide: too many documents pass the filter to be ordered.
    """
    order = ORDERS.get(wanted.sort)
    # These two orders have an index, so they read only the documents of the page. Each other order sorts all documents.
    sorts = order is not None and wanted.sort != DUE
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT set_config('statement_timeout', %s, true)", [str(_TIMEOUT_MS)])
            conditions, values = _conditions(wanted)
            is_of_few = sorts or any(name in values for name in ("lanes", "found")) or _CLAIMED in conditions
            with keeping_to_keys(is_of_few=is_of_few):
                rows = _read(cursor, wanted, order, conditions, values)
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise FilterTooWide from None
        raise
    lines = [
        DocumentLine(hash_, job, name, identifier, host, Stage(stage), Outcome(outcome), current, *rest)
        for hash_, job, name, identifier, host, stage, outcome, current, *rest in rows[:A_PAGE]
    ]
    more = len(rows) > A_PAGE
    return DocumentList(lines, key_of(lines[-1], order) if more else None)


def _read(
    cursor: Any, wanted: DocumentFilter, order: Order | None, conditions: list[str], values: Mapping[str, Any]
) -> Sequence[Any]:
    if order is not None and wanted.sort != DUE:
        _refuse_too_wide_order(cursor, conditions, values)
    if order is not None and wanted.after:
        conditions.append(_behind(order, is_by_due=wanted.sort == DUE))
    elif wanted.after:
        conditions.append(_BEHIND)
    columns = order.columns if order is not None else "item.hash, item.job_id"
    statement = _BY_DUE if wanted.sort == DUE else _LIST
    cursor.execute(statement.format(conditions=" AND ".join(conditions), order=columns), values)
    rows: Sequence[Any] = cursor.fetchall()
    return rows


def _refuse_too_wide_order(cursor: Any, conditions: Sequence[str], values: Mapping[str, Any]) -> None:
    cursor.execute(_FEW.format(conditions=" AND ".join(conditions)), {**values, "too_many": MOST_ORDERED + 1})
    if cursor.fetchone()[0] > MOST_ORDERED:
        raise OrderTooWide


def _behind(order: Order, *, is_by_due: bool) -> str:
    if is_by_due:
        return _BEHIND_BY_DUE
    beyond = "<" if order.is_downwards else ">"
    return _BEHIND_BY_VALUE.format(column=f"item.{order.column}", beyond=beyond, type=order.type)


def key_of(line: DocumentLine, order: Order | None) -> DocumentKey:
    """Return the key behind which the next page begins if this is the last line of a page."""
    return DocumentKey(line.hash, line.job_id, getattr(line, order.column) if order is not None else None)


def _conditions(wanted: DocumentFilter) -> tuple[list[str], dict[str, Any]]:
    conditions = ["true"]
    values: dict[str, Any] = {"limit": A_PAGE + 1, "job": wanted.job_id}
    if wanted.job_id is not None:
        conditions.append("item.job_id = %(job)s")
    if wanted.state:
        conditions += [STATES[wanted.state], _IS_COUNTED.format(state=STATES[wanted.state])]
        if wanted.state == "working":
            conditions.append(_CLAIMED)
    lanes = lanes_if_few(job_id=wanted.job_id, host=wanted.host)
    if wanted.sort == DUE and lanes is None:
        raise OrderTooWide(is_by_due=True)
    if lanes is not None:
        conditions.append(_LANES)
        values["lanes"] = lanes
    elif wanted.host:
        conditions.append(_HOST)
        values["host"] = wanted.host
    if wanted.code:
        outcomes = outcomes_of_code(wanted.code, job_id=wanted.job_id)
        conditions.append(_CODE.format(outcomes=", ".join(map(str, outcomes))) if outcomes else "false")
        values["code"] = wanted.code
    if wanted.address:
        conditions.append("item.hash = ANY(%(addresses)s::uuid[])")
        values["addresses"] = keys_meant(wanted.address)
    if wanted.contains:
        condition, facts = containing(wanted.contains, job_id=wanted.job_id)
        conditions.append(condition)
        values |= facts
    if wanted.after:
        key = wanted.after
        values |= {"after_hash": key.hash, "after_job": key.job_id, "after_value": key.value}
    if wanted.sort and wanted.sort != DUE:
        conditions.append(f"item.{ORDERS[wanted.sort].column} IS NOT NULL")
    return conditions, values
