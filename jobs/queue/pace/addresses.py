"""
Addresses as parents: hosts at one address share the limits of policies that apply per address.

A bin knows its address after the first request to its host. It gets that address as its parent only if a policy
requires it: stuffers of bins with the same parent wait for each other's locks.

A policy that starts to require it may reach any number of existing bins. The main manager gives the bins their parents
in steps (`place_some`). Each step stores its progress, so that the next main manager continues there.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.sql.rows import named_rows
from nodes.membership.fences import TermHeld, hold_term

# True if a policy requires that `bin` has its address as parent: a policy of its jobs, or one that applies everywhere.
HOLDS_FOR_ADDRESSES: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_throttlepolicy AS policy
         WHERE policy.per_address
           AND (policy.applies_everywhere
                OR EXISTS (SELECT FROM jobs_binlimit AS brought
                            WHERE brought.bin_id = bin.id AND brought.policy_id = policy.id)))"""
# Bins whose address is known and should be their parent, but that have no parent yet.
_BELOW: Final[LiteralString] = f"""
SELECT bin.id, bin.address FROM jobs_bin AS bin
 WHERE bin.address <> '' AND bin.parent_id IS NULL AND bin.id = ANY(%(bins)s)
   AND {HOLDS_FOR_ADDRESSES}
"""
# Locks: the rows that it inserts; then Bin by id; then the rows that it inserts.
_MAKE: Final[LiteralString] = """
WITH made AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known)
    SELECT DISTINCT 'address', name, 0, true FROM unnest(%(addresses)s::text[]) AS address(name) ORDER BY name
    ON CONFLICT (namespace, name) DO NOTHING
    RETURNING id
)
INSERT INTO jobs_binstate (bin_id) SELECT id FROM made
"""
_LINK: Final[LiteralString] = """
WITH child AS MATERIALIZED (
    SELECT bin.id, address.id AS parent_id FROM jobs_bin AS bin
      JOIN jobs_bin AS address ON address.namespace = 'address' AND address.name = bin.address
     WHERE bin.id = ANY(%(bins)s)
     ORDER BY bin.id
       FOR NO KEY UPDATE OF bin
), linked AS (
    UPDATE jobs_bin AS bin SET parent_id = child.parent_id FROM child WHERE bin.id = child.id
)
INSERT INTO jobs_binlimit (bin_id, job_id, policy_id)
SELECT DISTINCT child.parent_id, brought.job_id, brought.policy_id
  FROM child JOIN jobs_binlimit AS brought ON brought.bin_id = child.id
 ORDER BY 1, 2, 3
ON CONFLICT (bin_id, policy_id, job_id) DO NOTHING
"""

# Locks: the row that it writes.
_WANT: Final[LiteralString] = """
INSERT INTO jobs_binplacing (policy_id, after)
SELECT id, 0 FROM jobs_throttlepolicy WHERE id = %(policy)s AND per_address
ON CONFLICT (policy_id) DO UPDATE SET after = 0
"""
WANTED_PLACINGS: Final[LiteralString] = "SELECT FROM jobs_binplacing"
# Locks: BinPlacing, skipping locked rows: each scope has its own main manager.
_NEXT: Final[LiteralString] = """
SELECT wanted.policy_id, wanted.after, policy.applies_everywhere
  FROM jobs_binplacing AS wanted JOIN jobs_throttlepolicy AS policy ON policy.id = wanted.policy_id
 ORDER BY wanted.policy_id LIMIT 1
   FOR NO KEY UPDATE OF wanted SKIP LOCKED
"""
_NEXT_OF_ALL: Final[LiteralString] = "SELECT id FROM jobs_bin WHERE id > %(after)s ORDER BY id LIMIT %(most)s"
_NEXT_BROUGHT: Final[LiteralString] = """
SELECT DISTINCT bin_id AS id FROM jobs_binlimit WHERE policy_id = %(policy)s AND bin_id > %(after)s
 ORDER BY bin_id LIMIT %(most)s
"""
# Number of bins of one step, which takes a few tens of milliseconds. None of their documents is handed out meanwhile.
_PLACED_AT_ONCE: Final = 1_000


def want_placed(cursor: Any, *, policy_id: int | None) -> None:
    """Request parents for the bins of this policy, if the policy applies per address."""
    cursor.execute(_WANT, {"policy": policy_id})


def place_some(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """
    Give the next bins of a requested placing their addresses as parents; return the number of examined bins.

    Raises:
        FenceRefused: another node is the main manager.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        hold_term(connection, term)
        wanted = cursor.execute(_NEXT).fetchone()
        if wanted is None:
            return 0
        statement = _NEXT_OF_ALL if wanted.applies_everywhere else _NEXT_BROUGHT
        facts = {"policy": wanted.policy_id, "after": wanted.after, "most": _PLACED_AT_ONCE}
        bins = [row.id for row in cursor.execute(statement, facts)]
        if not bins:
            cursor.execute("DELETE FROM jobs_binplacing WHERE policy_id = %(policy)s", facts)
            return 0
        set_address_parents(cursor, bins=bins)
        cursor.execute("UPDATE jobs_binplacing SET after = %s WHERE policy_id = %s", (bins[-1], wanted.policy_id))
    return len(bins)


def keep_address(connection: psycopg.Connection[Any], *, bin_id: int, address: str) -> None:
    """Store the address of a bin's host, and link the bin below that address if a policy requires it."""
    connection.execute("UPDATE jobs_bin SET address = %s WHERE id = %s", (address, bin_id))
    set_address_parents(connection.cursor(), bins=[bin_id])


def set_address_parents(cursor: Any, *, bins: Sequence[int]) -> None:
    """Give these bins their known addresses as parents, where a policy requires it."""
    cursor.execute(_BELOW, {"bins": list(bins)})
    below = cursor.fetchall()
    if below:
        cursor.execute(_MAKE, {"addresses": [address for _, address in below]})
        cursor.execute(_LINK, {"bins": sorted(bin_id for bin_id, _ in below)})
