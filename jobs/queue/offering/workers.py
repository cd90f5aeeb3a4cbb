"""
The running workers of a scope, as a manager knows them, and the wake-ups that notify them of its offers.

An offer wakes only workers that can use it: first the preferred worker of its hosts. If that worker does not take the
batch in time, some of the idlest other workers are woken for it. Each worker has a separate channel, because a server
passes a notification to all sessions that listen on its channel.
"""

import datetime as dt
import random
import uuid
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.offering.hold import Stuffed
from jobs.queue.sql.low_water import LOWEST_BATCH

# Time for which the list of workers is used: a manager offers several times a second.
_KNOWN_FOR: Final = dt.timedelta(seconds=1)
# Age of a batch at which other workers may take it (`jobs.queue.take`), and a little more.
_LATE: Final = dt.timedelta(milliseconds=300)
# Least time between two searches for late batches.
_LATE_CHECK_INTERVAL: Final = dt.timedelta(milliseconds=250)
# Least number of workers that are woken for batches without a preferred worker. If there are more such batches, one
# worker is woken for each.
_FOR_OPEN: Final = 4

_WORKERS: Final[LiteralString] = """
SELECT id, capacity FROM nodes_node WHERE scope = %(scope)s AND kind = 'worker' AND status = 'running'
"""
# The idlest workers that may take a batch that has become late since the last search, by their last heartbeats.
_IDLEST_WORKERS: Final[LiteralString] = f"""
WITH late AS MATERIALIZED (
    SELECT preferred, tag FROM jobs_batch
     WHERE state = 'available' AND node_scope = %(scope)s AND id >= {LOWEST_BATCH} AND worker_id IS NULL
       AND created_at > %(since)s AND created_at <= %(until)s
     LIMIT 64
)
SELECT id FROM nodes_node AS node
 WHERE EXISTS (SELECT FROM late) AND scope = %(scope)s AND kind = 'worker' AND status = 'running'
   AND EXISTS (SELECT FROM late WHERE (late.tag = '' OR late.tag = ANY(node.tags)) AND late.preferred IS DISTINCT FROM node.id)
 ORDER BY coalesce((progress ->> 'claimed')::int, 0), random()
 LIMIT least(16, 2 * (SELECT count(*) FROM late))
"""
_SEND: Final[LiteralString] = "SELECT pg_notify(channel, '') FROM unnest(%(channels)s::text[]) AS channel"


@dataclass(slots=True)
class Workers:
    """
    The `ids` of the running workers, the number of documents that all of them together can hold, and the capacity of
    the smallest worker.
    """

    ids: list[uuid.UUID] = field(default_factory=list)
    capacity: int = 0
    least_capacity: int = 0
    _read_at: dt.datetime | None = None
    _checked_until: dt.datetime | None = None

    def read(self, connection: psycopg.Connection[Any], *, scope: str, now: dt.datetime) -> None:
        """Read the workers, unless they were read a moment ago."""
        # A negative age shows that the clock was set back.
        if self.ids and self._read_at is not None and dt.timedelta() <= now - self._read_at < _KNOWN_FOR:
            return
        rows = connection.execute(_WORKERS, {"scope": scope}).fetchall()
        self._read_at, self.ids = now, [row[0] for row in rows]
        self.capacity = sum(row[1] for row in rows)
        self.least_capacity = min((row[1] for row in rows), default=0)

    def notify(
        self,
        connection: psycopg.Connection[Any],
        *,
        scope: str,
        offered: Iterable[Stuffed],
        notified: Collection[uuid.UUID | None],
        channel_of: Callable[[uuid.UUID], str],
        now: dt.datetime,
    ) -> None:
        """
        Wake the workers that can use an offer, and others for late batches.

        `notified` has the workers of batches that were offered before, or None for batches of any worker. These workers
        take batches by themselves when they have room. `channel_of` returns the channel of a worker.
        """
        wanted: set[uuid.UUID] = set()
        open_batches = 0
        for one in offered:
            wanted |= one.preferred
            open_batches += one.open_batches
        if open_batches and None not in notified:
            most = min(len(self.ids), max(open_batches, _FOR_OPEN))
            wanted |= set(random.sample(self.ids, most))
        wanted -= set(notified)
        if notified:
            wanted |= self._helpers(connection, scope=scope, now=now)
        if wanted:
            connection.execute(_SEND, {"channels": [channel_of(worker) for worker in sorted(wanted)]})

    def _helpers(self, connection: psycopg.Connection[Any], *, scope: str, now: dt.datetime) -> set[uuid.UUID]:
        """Return other workers to wake for batches that were not taken in time. Each batch is considered once."""
        until = now - _LATE
        since = self._checked_until or until - _LATE_CHECK_INTERVAL
        if since > until:
            # The clock was set back.
            since = until - _LATE_CHECK_INTERVAL
        if until - since < _LATE_CHECK_INTERVAL:
            return set()
        self._checked_until = until
        rows = connection.execute(_IDLEST_WORKERS, {"scope": scope, "since": since, "until": until}).fetchall()
        return {row[0] for row in rows}
