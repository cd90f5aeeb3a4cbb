"""
Work of a worker at the same time as its crawl: it clears outputs, removes documents that no job keeps, and restores
removed documents.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from jobs.connectors.output.registry import open_output
from jobs.loops.database import DatabaseThread
from jobs.queue.removing.clear_output import clear_some
from jobs.queue.removing.orphans import drop_orphans
from jobs.queue.removing.restore import restore_some

logger = logging.getLogger(__name__)

# Pause after each round, also after an error of an output (seconds).
_POLL: Final = 5.0


async def clear_outputs(
    database: DatabaseThread,
    *,
    woken: asyncio.Event,
    may_begin: Callable[[], bool],
    keeps_history: Callable[[], bool],
) -> None:
    """
    Clear outputs chunk by chunk each time `woken` is set, until cancelled. An output with an error is skipped until the
    next time.
    """
    while True:
        await woken.wait()
        woken.clear()
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
        await asyncio.sleep(_POLL)


async def _restore(database: DatabaseThread, *, may_begin: Callable[[], bool]) -> None:
    """
    Carry out the restorations of operators, chunk by chunk. A refused restoration is skipped until the next round.
    """
    refused: frozenset[int] = frozenset()
    while may_begin():
        done = await database.run(partial(restore_some, opens=open_output, apart_from=refused))
        if done.restoration is None:
            return
        if done.refused:
            logger.warning("cannot continue restoration %d now: %s", done.restoration, done.refused)
            refused |= {done.restoration}
