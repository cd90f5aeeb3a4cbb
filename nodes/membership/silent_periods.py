"""
Silent periods: times of half an hour or more in which no node and no task worker sent a heartbeat.

A clock of the database that was set forward leaves the same trace as a time in which nothing ran. So for a day after a
silent period, deletions by age count from its beginning, the last heartbeat by a trusted clock. A wrong clock then
deletes no row too early, and operators have a day to correct the clock.
"""

import datetime as dt
import logging
from typing import Any, Final, LiteralString

import psycopg

from nodes.lifecycle import CLUSTER_SCOPE

logger = logging.getLogger(__name__)

# Shortest silent period. A shorter jump goes unnoticed: rows are then deleted earlier, by less than this time. An error
# of time zones is at least half an hour.
_SHORTEST: Final[LiteralString] = "interval '29 minutes'"
# Time after a silent period during which deletions count from its beginning.
_TRUSTED_FOR: Final[LiteralString] = "interval '1 day'"
_SINCE: Final[LiteralString] = "(event.detail ->> 'silent_since')::timestamptz"
_RECENT: Final[LiteralString] = f"""
      FROM nodes_nodeevent AS event
     WHERE event.scope = '{CLUSTER_SCOPE}' AND event.kind = 'changed' AND event.detail ? 'silent_since'
       AND event.at > clock_timestamp() - {_TRUSTED_FOR} AND event.at <= clock_timestamp()
"""
# All nodes of a cluster beat after a silent period. Only the first beat inserts the event.
_RECORD: Final[LiteralString] = f"""
INSERT INTO nodes_nodeevent (at, scope, kind, message, detail)
SELECT clock_timestamp(), '{CLUSTER_SCOPE}', 'changed',
       format('No node was alive since %%s. Retention counts from that time for a day. '
              'If the clock of the database is wrong, correct it now.', date_trunc('second', silent.since)),
       jsonb_build_object('by', 'crawlctl', 'silent_since', silent.since)
  FROM (<silent>) AS silent
 WHERE silent.since < clock_timestamp() - {_SHORTEST}
   AND NOT EXISTS (SELECT {_RECENT} AND {_SINCE} <= silent.since + interval '1 minute')
"""  # noqa: S608 (a constant)
_LAST_BEAT: Final[LiteralString] = """
SELECT greatest((SELECT max(heartbeat_at) FROM nodes_node), (SELECT max(last_seen_at) FROM tasks_taskworker)) AS since
"""
_RECORD_AT_START: Final[LiteralString] = _RECORD.replace("<silent>", _LAST_BEAT)
# For the statements of beats, whose updated row is `beaten`: the tables still have the rows before the beat. A process
# that was suspended alone makes no silent period, so a late beat reads the last beat of all processes.
_LATE_BEAT: Final[LiteralString] = f"""
SELECT last.since FROM beaten JOIN <table> AS mine USING (id), LATERAL ({_LAST_BEAT}) AS last
 WHERE mine.<beat_at> < clock_timestamp() - {_SHORTEST}
"""  # noqa: S608 (a constant)
RECORD_AT_BEAT_OF_NODE: Final[LiteralString] = _RECORD.replace(
    "<silent>", _LATE_BEAT.replace("<table>", "nodes_node").replace("<beat_at>", "heartbeat_at")
)
RECORD_AT_BEAT_OF_TASK_WORKER: Final[LiteralString] = _RECORD.replace(
    "<silent>", _LATE_BEAT.replace("<table>", "tasks_taskworker").replace("<beat_at>", "last_seen_at")
)
# `least` ignores NULL values.
_TRUSTED: Final[LiteralString] = f"""
SELECT least(%(now)s,
             (SELECT since FROM ({_LAST_BEAT}) AS last WHERE since < clock_timestamp() - {_SHORTEST}),
             (SELECT min({_SINCE}) {_RECENT}))
"""  # noqa: S608 (a constant)


def notice_silent_period(connection: psycopg.Connection[Any]) -> None:
    """Record a silent period that ends now. The caller has a transaction, and registers a process."""
    if connection.execute(_RECORD_AT_START, {}).rowcount:
        logger.info("no node was alive for half an hour or more: retention counts from the last heartbeat for a day")


def moment_of_ages(connection: psycopg.Connection[Any], *, now: dt.datetime) -> dt.datetime:
    """
    Return the moment from which deletions count ages: `now`, or the beginning of a silent period that ended within a
    day.
    """
    row = connection.execute(_TRUSTED, {"now": now}).fetchone()
    assert row is not None
    moment: dt.datetime = row[0]
    return moment
