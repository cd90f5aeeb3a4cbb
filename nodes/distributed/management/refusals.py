"""The errors of commands that run distributed jobs."""

from collections.abc import Iterator
from contextlib import contextmanager

from django.core.management.base import CommandError

from nodes.coordination.port import CoordinationError, Refused
from nodes.distributed.process import DatabaseReplaced, RunsNotEnded


@contextmanager
def refusals_of_jobs() -> Iterator[None]:
    """
    Turn errors of distributed jobs into errors of a command.

    Raises: CommandError: exit code 2 for invalid values; exit code 1 for a store that does not answer, a replaced
    database, and runs that do not end.
    """
    try:
        yield
    except (ValueError, Refused) as error:
        raise CommandError(str(error), returncode=2) from error
    except (CoordinationError, DatabaseReplaced, RunsNotEnded) as error:
        raise CommandError(f"The distributed jobs end: {error}", returncode=1) from error
