"""
Asking the domain whether a form may be saved.

What a job or a connection can be is decided by the function that stores it, and by nothing in a form.
So a form is checked by doing what it asks for and taking it back: its errors are the domain's own.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from django.db import transaction


@contextmanager
def rehearsal() -> Iterator[None]:
    """What is written inside is taken back at the end; what is raised inside goes on."""
    with transaction.atomic():
        yield
        transaction.set_rollback(True)
