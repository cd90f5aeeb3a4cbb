"""The execution of reports, with checked patterns, a timeout, and errors as sentences."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from django.core import signing
from django.db import DataError, InternalError, OperationalError, connection, transaction
from psycopg.errors import InvalidRegularExpression, QueryCanceled
from psycopg.rows import namedtuple_row

from nodes.errors import Invalid, TooSlow

_STATEMENT_TIMEOUT_SECONDS: Final = 15
_timeout: ContextVar[int | None] = ContextVar("timeout_seconds", default=None)
_TOO_SLOW: Final = "The report took more than {seconds} seconds. Choose a shorter time, fewer jobs, or a simpler pattern, or export it."
_LONGEST_PATTERN: Final = 1_000

# By its cost estimates, the planner would compile a statement that reads many rows, so `jit` is off. `work_mem` is
# large, so that the sorts of a report use no files.
_FOR_THIS_REPORT: Final = """
SELECT set_config('statement_timeout', %s, true), set_config('jit', 'off', true), set_config('work_mem', '64MB', true)
"""
# The planner assumes that the work on a row is cheap. So it would use only one processor for a query that computes the
# class of each row and sorts by this class.
_BY_MANY: Final = "SELECT set_config('parallel_tuple_cost', '0.002', true)"


class BadPattern(Invalid):
    """An invalid regular expression; `field` is the field of the pattern."""

    def __init__(self, field: str, reason: str) -> None:
        self.field, self.reason = field, reason
        super().__init__({field: [f"Invalid regular expression (PostgreSQL): {reason}."]})


class BadPosition(Invalid):
    """The position of the page does not belong to this report."""

    def __init__(self) -> None:
        super().__init__({"cursor": ["Invalid page for this report. Start from the first page."]})


@contextmanager
def with_timeout(seconds: int) -> Iterator[None]:
    """Give each report within the `with` block this time limit in place of the default one."""
    before = _timeout.set(seconds)
    try:
        yield
    finally:
        _timeout.reset(before)


def timeout_seconds() -> int:
    """Return the time limit of a report (seconds)."""
    return _timeout.get() or _STATEMENT_TIMEOUT_SECONDS


def check_patterns(patterns: Mapping[str, str]) -> None:
    """
    Compile each pattern in PostgreSQL. `patterns` maps fields to their patterns.

    Raises:
        BadPattern: a pattern is not a regular expression.
    """
    for field, pattern in patterns.items():
        if len(pattern) > _LONGEST_PATTERN:
            raise BadPattern(field, f"it has more than {_LONGEST_PATTERN} characters")
        try:
            with transaction.atomic(), connection.cursor() as cursor:
                cursor.execute("SELECT '' ~ %s", [pattern])
        except DataError as error:
            if isinstance(error.__cause__, InvalidRegularExpression):
                message = error.__cause__.diag.message_primary or ""
                raise BadPattern(field, message.removeprefix("invalid regular expression: ")) from None
            raise
        except InternalError:
            # The compiled pattern would be larger than any value of PostgreSQL.
            raise BadPattern(field, "it needs too much memory") from None


def run_report(statement: str, values: Mapping[str, Any], *, by_many: bool = False) -> list[Any]:
    """
    Return the rows of a report as named tuples. With `by_many`, several processors compute them: each row needs much
    work.

    Raises:
        TooSlow: the statement took too long.
    """
    seconds = timeout_seconds()
    try:
        with transaction.atomic():
            with connection.cursor() as cursor:
                cursor.execute(_FOR_THIS_REPORT, [f"{seconds}s"])
                if by_many:
                    cursor.execute(_BY_MANY)
            with connection.connection.cursor(row_factory=namedtuple_row) as cursor:
                return list(cursor.execute(statement, values).fetchall())
    except QueryCanceled:
        raise TooSlow(_TOO_SLOW.format(seconds=seconds)) from None
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            raise TooSlow(_TOO_SLOW.format(seconds=seconds)) from None
        raise


def write_position(values: Sequence[Any], *, of: str) -> str:
    """Return an opaque text for the position after a row. `of` names the report and its order."""
    return signing.dumps(list(values), salt=f"report {of}", compress=True)


def read_position(position: str | Sequence[Any], *, of: str) -> Sequence[Any]:
    """
    Return the values of a position that `write_position` wrote. Values are returned unchanged.

    Raises:
        BadPosition: the position does not belong to this report in this order.
    """
    if not isinstance(position, str):
        return position
    try:
        values: list[Any] = signing.loads(position, salt=f"report {of}")
    except signing.BadSignature:
        raise BadPosition from None
    return values
