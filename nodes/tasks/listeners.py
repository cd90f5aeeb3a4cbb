"""
Listeners: functions that receive the events of tasks, each event once, and those of a task in their order.

An event is a row that is written with its cause. Task workers deliver the rows and delete them, in one transaction. So
a write with the given connection happens once. Any other effect may be repeated if the worker is killed meanwhile. A
listener returns within a second: slow work must be a separate task.
"""

import datetime as dt
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg.rows import class_row

logger = logging.getLogger(__name__)

_MOST: Final = 100
# Locks: an advisory lock, so that one process at a time delivers, in the order of the events.
_TAKE_TURN: Final[LiteralString] = "SELECT pg_try_advisory_xact_lock(hashtext('crawlctl task events'))"
_READ: Final[LiteralString] = (
    f"SELECT id, at, task, attempt, kind, detail FROM tasks_taskevent ORDER BY id LIMIT {_MOST}"
)
_DELETE: Final[LiteralString] = "DELETE FROM tasks_taskevent WHERE id = ANY(%s)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """
    An event of a task: `started`, `ended` or `failed_finally`.

    `detail` has the kind, the group and the name of the task. For `ended` and `failed_finally` it also has `why` (empty
    if another attempt follows), and the class and the message of the exception.
    """

    id: int
    at: dt.datetime
    task: int
    attempt: int
    kind: str
    detail: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Listener:
    """A receiver of events. `receive` may write to the database with the connection that it is given."""

    name: str
    receive: Callable[[psycopg.Connection[Any], Event], object]


def deliver(connection: psycopg.Connection[Any], listeners: tuple[Listener, ...]) -> int:
    """Deliver the waiting events in their order. Return their number, and 0 if another process delivers."""
    delivered = 0
    while number := _deliver_some(connection, listeners):
        delivered += number
    return delivered


def _deliver_some(connection: psycopg.Connection[Any], listeners: tuple[Listener, ...]) -> int:
    with connection.transaction(), connection.cursor(row_factory=class_row(Event)) as cursor:
        turn = connection.execute(_TAKE_TURN).fetchone()
        if turn is None or not turn[0]:
            return 0
        events = cursor.execute(_READ).fetchall()
        for event in events:
            for listener in listeners:
                _notify(connection, listener, event)
        connection.execute(_DELETE, ([event.id for event in events],))
    return len(events)


def _notify(connection: psycopg.Connection[Any], listener: Listener, event: Event) -> None:
    try:
        # A failing listener loses its own writes, and delays no other listener.
        with connection.transaction():
            listener.receive(connection, event)
    except Exception:
        if connection.closed:
            # The event waits for another process. Errors such as a timeout leave the connection intact.
            raise
        logger.exception("the listener %s failed for the event %s of task %d", listener.name, event.kind, event.task)
