"""
The check of a form by the functions that would store it.

Only the function that stores a job or a connection decides what is valid. No form repeats its rules. So the check of a
form stores it and rolls back the transaction. The form shows the errors of that function.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def dry_run() -> Iterator[None]:
    """Roll back all writes of the block. Exceptions are passed on."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
