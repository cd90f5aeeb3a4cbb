"""Beside its crawl, a worker clears outputs, removes documents that no job keeps, and restores removed documents."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from jobs.connectors.output.registry import open_output
from jobs.loops.database import DatabaseThread
from jobs.queue.clear_output import clear_some
from jobs.queue.orphans import drop_orphans
from jobs.queue.restore import restore_some

logger = logging.getLogger(__name__)

# How often a worker looks for an output that is to be cleared, and tries again one that refused.
_POLL: Final = 5.0


async def clear_outputs(
    database: DatabaseThread, *, may_begin: Callable[[], bool], keeps_history: Callable[[], bool]
) -> None:
    """Clear outputs chunk by chunk, until cancelled; what refuses is left for the next time."""
    while True:
        await asyncio.sleep(_POLL)
        for clear in (clear_some, drop_orphans):
            refused: frozenset[int] = frozenset()
            while may_begin():
                done = await database.run(
                    partial(clear, opens=open_output, apart_from=refused, keeps_history=keeps_history())
                )
                if done.output is None:
                    break
                if done.refused:
                    logger.warning("output %d cannot be cleared now: %s", done.output, done.refused)
                    refused |= {done.output}
        await _restore(database, may_begin=may_begin)


async def _restore(database: DatabaseThread, *, may_begin: Callable[[], bool]) -> None:
    """Carry out the restorations of operators, chunk by chunk. A refused one is left for the next time."""
    refused: frozenset[int] = frozenset()
    while may_begin():
        done = await database.run(partial(restore_some, opens=open_output, apart_from=refused))
        if done.restoration is None:
            return
        if done.refused:
            logger.warning("restoration %d cannot go on now: %s", done.restoration, done.refused)
            refused |= {done.restoration}
