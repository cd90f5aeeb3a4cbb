"""Notification channels of background tasks, and their payloads."""

from typing import Any, Final
from uuid import UUID

import psycopg

# Channel of managers. A notification means that a task may be due, or a worker may be free. Payload: empty.
RECRUIT: Final = "crawlctl_tasks"


def of_worker(worker: UUID) -> str:
    """Return the channel on which a worker is notified of its next task. Payload: empty."""
    return f"crawlctl_task_{worker.hex}"


def notify(connection: psycopg.Connection[Any], channel: str) -> None:
    """Notify the listeners of a channel once the transaction commits."""
    connection.execute("SELECT pg_notify(%s, '')", (channel,))
