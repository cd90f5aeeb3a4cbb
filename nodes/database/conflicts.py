"""Transactions that PostgreSQL undid in favour of another transaction. The same transaction may succeed next."""

from typing import Final

import psycopg

CONFLICTS: Final = (psycopg.errors.DeadlockDetected, psycopg.errors.SerializationFailure)


def lost_a_conflict(error: BaseException | None) -> bool:
    """Return True for a deadlock or a serialization failure, also if Django wrapped the driver's error."""
    return error is not None and (isinstance(error, CONFLICTS) or isinstance(error.__cause__, CONFLICTS))
