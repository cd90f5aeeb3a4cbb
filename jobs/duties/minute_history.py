"""The state of the cluster, which the main manager of the cluster keeps for each minute of 30 days."""

import datetime as dt
from typing import Any, Final, LiteralString

import psycopg

from jobs.duties.context import Pass
from jobs.duties.progress import OF_THE_CLUSTER
from jobs.queries.cluster.facts import add_up, as_text, difference, from_text
from jobs.queries.cluster.present import read_present
from nodes.membership.fences import hold_term

KEPT: Final = dt.timedelta(days=30)
# Interval of whole states. The other rows only have changes, so a reader of any minute begins at the whole state before
# it.
_WHOLE_EVERY: Final = dt.timedelta(hours=1)
_DELETED_AT_ONCE: Final = 1_000

# True if the present minute is not stored yet. The rows since the last whole state are read only in this case.
MINUTE_TO_KEEP: Final[LiteralString] = (
    f"{OF_THE_CLUSTER} AND NOT EXISTS (SELECT FROM jobs_clusterminute WHERE at >= date_trunc('minute', clock_timestamp()))"
)
_KNOWN: Final[LiteralString] = """
SELECT at, facts FROM jobs_clusterminute
 WHERE at >= (SELECT max(at) FROM jobs_clusterminute WHERE is_whole AND at > %(minute)s - %(every)s)
 ORDER BY at
"""
_ADD: Final[LiteralString] = """
INSERT INTO jobs_clusterminute (at, is_whole, facts) VALUES (%(minute)s, %(is_whole)s, %(facts)s)
ON CONFLICT (at) DO NOTHING
"""
_DELETE_OLD: Final[LiteralString] = """
DELETE FROM jobs_clusterminute
 WHERE at IN (SELECT at FROM jobs_clusterminute WHERE at < %(before)s ORDER BY at LIMIT %(some)s)
"""


def keep_minute(at: Pass) -> int:
    """Store the state of the cluster for this minute, unless it is stored; return 0."""
    minute = at.now.replace(second=0, microsecond=0)
    known = at.connection.execute(_KNOWN, {"minute": minute, "every": _WHOLE_EVERY}).fetchall()
    if known and known[-1][0] >= minute:
        return 0
    present = read_present(at.connection, scope=at.scope, minute=minute)
    facts = difference(add_up(from_text(facts) for _at, facts in known), present)
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        at.connection.execute(_ADD, {"minute": minute, "is_whole": not known, "facts": as_text(facts)})
        if not known:
            _delete_old(at.connection, before=at.now - KEPT)
    return 0


def _delete_old(connection: psycopg.Connection[Any], *, before: dt.datetime) -> None:
    connection.execute(_DELETE_OLD, {"before": before, "some": _DELETED_AT_ONCE})
