"""Changes that PostgreSQL refused or undid because of a concurrent change. The same change may succeed next."""

from typing import Final

import psycopg

CONFLICTS: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)
_TAKEN: Final = (psycopg.errors.UniqueViolation, psycopg.errors.ForeignKeyViolation)


def lost_a_conflict(error: BaseException | None) -> bool:
    """Return True for a deadlock or a serialization failure, also if Django wrapped the driver's error."""
    return _is_one_of(CONFLICTS, error)


def is_late_conflict(error: BaseException | None) -> bool:
    """
    Return True if a unique value was taken, or a referenced row was deleted.

    A form checks both before its change, so only a concurrent change causes this.
    """
    return _is_one_of(_TAKEN, error)


def _is_one_of(kinds: tuple[type[psycopg.Error], ...], error: BaseException | None) -> bool:
    return error is not None and (isinstance(error, kinds) or isinstance(error.__cause__, kinds))
