"""
Tables as one test: all rows run, and the test fails once with every difference.

A row costs a hundredth of a parametrized test, which each process of pytest collects, sets up and reports.
"""

import functools
import inspect
import itertools
import traceback
from contextlib import nullcontext

from django.db import connection, transaction

# Number of lines of a failed row that a report shows.
_SHOWN = 12


def each_row(names, rows, ids=None):
    """
    Run a test once for each row. The arguments are those of `pytest.mark.parametrize`.

    The rows share the fixtures of the test. In a test with the fixture `db`, the database forgets what a row wrote.
    """
    names = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    named = list(_named(names, rows, ids))
    assert named, "a table without a row proves nothing"

    def decorate(test):
        assert not inspect.isgeneratorfunction(test)
        if inspect.iscoroutinefunction(test):

            async def run(**fixtures):
                differences = _Differences()
                for name, values in named:
                    with differences.row(name):
                        await test(**fixtures, **values)
                differences.report(len(named))

        else:

            def run(**fixtures):
                differences = _Differences()
                for name, values in named:
                    with differences.row(name), _undoing_writes():
                        test(**fixtures, **values)
                differences.report(len(named))

        signature = inspect.signature(test)
        left = [parameter for name, parameter in signature.parameters.items() if name not in names]
        assert len(left) == len(signature.parameters) - len(names), f"{test.__name__} does not take {names}"
        run = functools.wraps(test)(run)
        run.__signature__ = signature.replace(parameters=left)
        return run

    return decorate


def _named(names, rows, ids):
    """Yield the name and the arguments of each row."""
    given = itertools.repeat(None) if ids is None or callable(ids) else iter(ids)
    # A dictionary or another iterable gives the rows, and `ids` has at least as many entries.
    for row, known in zip(rows, given, strict=False):
        is_param = hasattr(row, "marks")
        assert not is_param or not row.marks, "a row has no marks"
        values = row.values if is_param else row if len(names) > 1 else (row,)
        words = [ids(value) if callable(ids) else value for value in values]
        name = (is_param and row.id) or known or "-".join(str(word)[:60] for word in words)
        yield name, dict(zip(names, values, strict=True))


def _undoing_writes():
    """Return a context after which the database is as before, if the test runs in a transaction."""
    return _rolled_back() if connection.in_atomic_block else nullcontext()


class _rolled_back:  # noqa: N801 - used as a context
    def __enter__(self):
        self._atomic = transaction.atomic()
        self._atomic.__enter__()

    def __exit__(self, *failure):
        if not connection.needs_rollback:
            transaction.set_rollback(True)
        self._atomic.__exit__(*failure)


class _Differences:
    """The failures of the rows of one table."""

    def __init__(self):
        self._failed = {}

    def row(self, name):
        return _Row(self._failed, name)

    def report(self, count):
        if self._failed:
            shown = "\n\n".join(f"[{name}]\n{_error_with_line(error)}" for name, error in self._failed.items())
            first = next(iter(self._failed.values()))
            raise AssertionError(f"{len(self._failed)} of {count} rows differ:\n\n{shown}") from first


class _Row:
    def __init__(self, failed, name):
        self._failed, self._name = failed, name

    def __enter__(self):
        return None

    def __exit__(self, kind, error, _traceback):
        # A skip, an interrupt and a timeout end the whole test. A call of pytest.fail fails this row only.
        if error is None or not (isinstance(error, Exception) or kind.__name__ == "Failed"):
            return False
        name = self._name
        while name in self._failed:
            name += "'"
        self._failed[name] = error
        return True


def _error_with_line(error):
    """Return the message of an error, and the line where it was raised."""
    frame = traceback.extract_tb(error.__traceback__)[-1]
    lines = "".join(traceback.format_exception_only(error)).splitlines()
    return "\n".join([f"{frame.filename}:{frame.lineno}", *lines[:_SHOWN]])
