"""A worker notifies outputs of the end of runs. Some outputs answer slowly, so this does not delay its crawl."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from functools import partial
from typing import Any

import psycopg

from jobs.connectors.output.base import OutputError
from jobs.connectors.output.registry import open_output
from jobs.connectors.schema import BadSpecification
from jobs.loops.database import DatabaseThread
from jobs.queue import notifications, wake
from jobs.queue.notifications import NotificationClaimed
from jobs.state import channels

logger = logging.getLogger(__name__)


async def notify_outputs(
    database: DatabaseThread,
    *,
    worker: uuid.UUID,
    scope: str,
    woken: asyncio.Event,
    may_begin: Callable[[], bool],
    keeps_history: Callable[[], bool],
) -> None:
    """
    Claim notifications one by one and perform them once `woken`, until cancelled.

    After a cancellation, the claimed notification is free for other workers.
    """
    while True:
        await woken.wait()
        woken.clear()
        while may_begin():
            claimed = await database.run(partial(notifications.claim, worker=worker, scope=scope))
            if claimed is None:
                break
            began = time.monotonic()
            refused = await asyncio.to_thread(_notify, claimed)
            settle = partial(
                notifications.settle,
                worker=worker,
                notification_id=claimed.notification_id,
                refused=refused,
                seconds=time.monotonic() - began,
                keeps_history=keeps_history(),
            )
            await database.run(partial(_settle, settle=settle))


def _settle(connection: psycopg.Connection[Any], *, settle: Callable[[psycopg.Connection[Any]], bool]) -> None:
    """Store the result of a notification, and wake the main manager."""
    if settle(connection):
        wake.notify(connection, channels.CONTROL, "")


def _notify(claimed: NotificationClaimed) -> str:
    """Notify one output; return the reason of a failure, or ''."""
    try:
        open_output(claimed).job_complete()
    except (OutputError, BadSpecification) as refused:
        return str(refused)
    except Exception as defect:
        logger.exception("defect of the output %s during a notification", claimed.connector)
        return f"it has a defect ({type(defect).__name__})"
    return ""
