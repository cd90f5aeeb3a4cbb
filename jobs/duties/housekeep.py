"""
Housekeeping of the main manager: folds deltas into counters, deletes ended batches, links bins to their addresses, and
keeps the index of addresses.
"""

from typing import Any, Final, LiteralString

import psycopg

from jobs.duties.context import Pass
from jobs.queue import address_index
from jobs.queue.counting import counters
from jobs.queue.pace import addresses
from jobs.queue.pace.hours import DELETE_TURNS
from jobs.queue.release import free_places
from jobs.queue.sql.low_water import raise_marks
from nodes.membership.fences import hold_term

# The oldest batches have the lowest ids. Locks: the deleted batches, then their turns, then the BinHour rows of these
# turns.
_FORGET_BATCHES: Final[LiteralString] = f"""
WITH old AS (
    SELECT id FROM jobs_batch
     WHERE id IN (SELECT id FROM jobs_batch ORDER BY id LIMIT 2000)
       AND state IN ('done', 'released') AND node_scope = %(scope)s AND created_at < %(now)s - interval '10 minutes'
     ORDER BY id FOR UPDATE SKIP LOCKED
), {DELETE_TURNS}
DELETE FROM jobs_batch WHERE id IN (SELECT id FROM old)
"""

_FORGET_BATCHES_OF_SCOPE: Final[LiteralString] = f"""
WITH old AS (
    SELECT id FROM jobs_batch WHERE node_scope = %(scope)s
), {DELETE_TURNS}
DELETE FROM jobs_batch WHERE id IN (SELECT id FROM old)
"""


def fold_counters(at: Pass) -> int:
    """Fold the counter deltas, and group failures; return 0, since no other work waits for it."""
    counters.fold(at.connection, term=at.held_term, now=at.now)
    return 0


def place_bins(at: Pass) -> int:
    """Link the next bins to their addresses as policies require it; return the number of examined bins."""
    return addresses.place_some(at.connection, term=at.held_term)


def write_address_blocks(at: Pass) -> int:
    """Move new addresses into blocks of the index of addresses; return the number of addresses."""
    return address_index.write_blocks(at.connection, term=at.held_term)


def renew_address_blocks(at: Pass) -> int:
    """Replace the blocks of a job if most of their documents left the queue; return the number of jobs."""
    return address_index.rewrite_sparse_blocks(at.connection, term=at.held_term)


def raise_low_water_marks(at: Pass) -> int:
    """Raise the low-water marks above finished work; return 0."""
    raise_marks(at.connection)
    return 0


def forget_old_batches(at: Pass) -> int:
    """
    Delete batches that ended some minutes ago, and count the requests of their turns by hour; return the number of
    deleted batches.
    """
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        return at.connection.execute(_FORGET_BATCHES, {"scope": at.scope, "now": at.now}).rowcount


def forget_scope(connection: psycopg.Connection[Any], *, scope: str) -> None:
    """
    Delete the groups and batches of a one-shot command once none of its documents is claimed.

    A worker that was killed after its last outcome left turns open, so their places are freed. The nodes and events of
    the command stay as history.
    """
    with connection.transaction():
        connection.execute(
            "UPDATE jobs_seed SET group_id = NULL WHERE group_id IN (SELECT id FROM jobs_throttlegroup WHERE node_scope = %s)",
            (scope,),
        )
        free_places(connection, scope=scope)
        connection.execute(_FORGET_BATCHES_OF_SCOPE, {"scope": scope})
        connection.execute("DELETE FROM jobs_throttlegroup WHERE node_scope = %s", (scope,))
