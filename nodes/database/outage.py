"""
Errors of an outage of the database, and the reason of one.

Visitors without a login may read the reason: it contains no addresses and no names of users.
"""

from collections.abc import Iterator
from typing import Final

import psycopg
from django.db import InterfaceError, InternalError, OperationalError

# Errors of the driver and of Django. Some code uses plain connections, whose errors Django does not wrap. The last
# two have separate classes: the server ended the session, or became a standby.
OUTAGES: Final = (
    OperationalError,
    InterfaceError,
    psycopg.OperationalError,
    psycopg.InterfaceError,
    psycopg.errors.IdleInTransactionSessionTimeout,
    psycopg.errors.ReadOnlySqlTransaction,
)
_BY_CLASS: Final[tuple[tuple[type[psycopg.Error], str], ...]] = (
    (psycopg.errors.DiskFull, "its disk is full"),
    (psycopg.errors.CannotConnectNow, "it is starting or stopping"),
    (psycopg.errors.AdminShutdown, "it was stopped"),
    (psycopg.errors.TooManyConnections, "it has no free connection"),
    (psycopg.errors.ReadOnlySqlTransaction, "it is a standby and takes no changes"),
    (psycopg.errors.IdleInTransactionSessionTimeout, "it ended the session, because the request paused too long"),
    (psycopg.errors.InvalidPassword, "it refuses the password of DATABASE_URL"),
    (psycopg.errors.InvalidCatalogName, "it lacks the database that DATABASE_URL names"),
)
# The driver has no classes for errors that occur before a session exists.
_BY_WORDS: Final = (
    ("No space left", "its disk is full"),
    ("no space is left", "its disk is full"),
    ("Disk quota", "the quota of its disk is used up"),
    # This entry must come first: its message ends with the server's log, which may contain words of the other entries.
    ("embedded PostgreSQL", "the embedded server does not start; its log, server.log, says why"),
    ("starting up", "it is starting"),
    ("shutting down", "it is stopping"),
    ("too many clients", "it has no free connection"),
    ("Connection refused", "its server does not run or refuses connections"),
    ("No such file or directory", "its server does not run"),
    ("password authentication failed", "it refuses the password of DATABASE_URL"),
    ("does not exist", "it lacks the database that DATABASE_URL names"),
    ("timeout expired", "no answer came in time"),
)


def is_outage(error: BaseException | None) -> bool:
    """Return True if the database did not answer, or took no changes, also if Django wrapped the driver's error."""
    return isinstance(error, OUTAGES) or (isinstance(error, InternalError) and isinstance(error.__cause__, OUTAGES))


def reason_of_outage(error: BaseException | None) -> str:
    """Return the known reason of an outage as a clause; '' if none is known."""
    for one in _chain(error):
        for kind, reason in _BY_CLASS:
            if isinstance(one, kind):
                return reason
    for one in _chain(error):
        message = str(one)
        for words, reason in _BY_WORDS:
            if words in message:
                return reason
    return ""


def outage(error: BaseException | None) -> str:
    """Return the sentence about an outage, without the full stop at its end."""
    reason = reason_of_outage(error)
    return f"The database does not answer: {reason}" if reason else "The database does not answer"


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    while error is not None:
        yield error
        error = error.__cause__
