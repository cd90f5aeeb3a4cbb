"""
A clock of the database that was set back: with the stored moments, dead nodes would count as alive, and all waits would
be too long.

Heartbeats have the time of the database, so a heartbeat in the future shows a jump, even if nothing ran meanwhile. Each
registration of a process, and the main manager, search for such a heartbeat. Moments that lie in the future become the
present, and waits that began in the future become shorter by the jump. So no wait becomes shorter than intended.

After a jump forward, all earlier nodes are silent and all waits are over, which needs no correction. Only deletions by
age wait (`silent_periods.py`).

Lock order: MainTerm, Node, then what the statements of other packages lock.
"""

import datetime as dt
import logging
from contextlib import nullcontext
from typing import Any, Final, LiteralString

import psycopg

from nodes.database.connections import ConnectionWithTimeouts, without_timeouts
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.silent_periods import notice_silent_period

logger = logging.getLogger(__name__)

# Largest lead of a stored moment that does not count as a jump. Transactions read the clock before they commit, so
# their moments may be slightly ahead of each other.
AHEAD: Final[LiteralString] = "interval '2 seconds'"
A_HEARTBEAT_IS_AHEAD: Final[LiteralString] = f"""
EXISTS (SELECT FROM nodes_node WHERE heartbeat_at > clock_timestamp() + {AHEAD})
"""
_SEEN: Final[LiteralString] = f"""
SELECT clock.now, last.heartbeat_at - clock.now AS jump
  FROM (SELECT clock_timestamp() AS now) AS clock, (SELECT max(heartbeat_at) AS heartbeat_at FROM nodes_node) AS last
 WHERE last.heartbeat_at > clock.now + {AHEAD}
"""  # noqa: S608 (a constant)
# Locks: MainTerm by scope.
_TERMS: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT scope FROM nodes_mainterm WHERE since > %(now)s ORDER BY scope FOR NO KEY UPDATE
)
UPDATE nodes_mainterm AS term SET since = %(now)s FROM locked WHERE term.scope = locked.scope
"""
# Locks: Node by id. A live node beats again, and a dead one is silent from now on.
_NODES: Final[LiteralString] = """
WITH locked AS MATERIALIZED (
    SELECT id FROM nodes_node WHERE greatest(started_at, heartbeat_at, stopped_at) > %(now)s
     ORDER BY id FOR NO KEY UPDATE
)
UPDATE nodes_node AS node
   SET started_at = least(started_at, %(now)s), heartbeat_at = least(heartbeat_at, %(now)s),
       stopped_at = CASE WHEN stopped_at > %(now)s THEN %(now)s ELSE stopped_at END
  FROM locked WHERE node.id = locked.id
"""
# Locks: members of distributed jobs.
_MEMBERS: Final[LiteralString] = """
UPDATE nodes_coordinationmember
   SET heartbeat_at = least(heartbeat_at, %(now)s), steady_since = least(steady_since, %(now)s)
 WHERE greatest(heartbeat_at, steady_since) > %(now)s
"""
# Locks: locks of items. A lock that ends later than any lease is from before the jump, so no living holder loses one.
_LOCKS_OF_ITEMS: Final[LiteralString] = """
WITH lease AS (
    SELECT greatest(interval '10 minutes', 2 * make_interval(secs => max(timeout_seconds))) AS longest
      FROM nodes_coordinationmember
)
UPDATE nodes_itemlock
   SET expires_at = CASE WHEN expires_at > %(now)s + lease.longest THEN expires_at - %(jump)s ELSE expires_at END,
       since = least(since, %(now)s), paced_from = least(paced_from, %(now)s)
  FROM lease
 WHERE expires_at > %(now)s + lease.longest OR since > %(now)s OR paced_from > %(now)s
"""
_JOURNAL: Final[LiteralString] = """
INSERT INTO nodes_nodeevent (at, scope, kind, message, detail)
VALUES (%(now)s, %(scope)s, 'changed', %(message)s, jsonb_build_object('by', 'crawlctl'))
"""
_statements_of_others: list[LiteralString] = []


def follow_at_jump(statement: LiteralString) -> None:
    """
    Register a statement that every correction after a jump executes. The statement corrects moments in tables of
    another package. Its parameters are `now`, and `jump`, by which the clock was set back.
    """
    if statement not in _statements_of_others:
        _statements_of_others.append(statement)


def notice_jump(connection: psycopg.Connection[Any]) -> bool:
    """
    Return True if a heartbeat in the future showed a jump, which is corrected. The caller has a transaction.

    If all heartbeats are old, a silent period is recorded.
    """
    notice_silent_period(connection)
    row = connection.execute(_SEEN).fetchone()
    if row is None:
        return False
    correct_moments(connection, now=row[0], jump=row[1])
    return True


def correct_moments(connection: psycopg.Connection[Any], *, now: dt.datetime, jump: dt.timedelta) -> None:
    """Correct all stored moments after the clock was set back. The caller has a transaction."""
    facts = {"now": now, "jump": jump}
    # A large crawl has many hosts and documents. If the limit of statements ended a correction, no node could start.
    is_limited = isinstance(connection, ConnectionWithTimeouts)
    with without_timeouts(connection) if is_limited else nullcontext():
        for statement in (_TERMS, _NODES, _MEMBERS, _LOCKS_OF_ITEMS, *_statements_of_others):
            connection.execute(statement, facts)
    message = f"the clock of the database was set back by {jump}: nodes, hosts and waits follow it"
    connection.execute(_JOURNAL, {"now": now, "scope": CLUSTER_SCOPE, "message": message})
    logger.warning("%s", message)
