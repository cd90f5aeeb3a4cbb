"""
Checks a form by a trial run of the function that would store it.

Only the function that stores a job or a connection knows the rules for valid values. No form repeats these rules. So
the check of a form calls this function and rolls back the transaction. The form shows the errors of the function.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def dry_run() -> Iterator[None]:
    """Return a context manager that rolls back all writes of its block. Exceptions are passed on."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
