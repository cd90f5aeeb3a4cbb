"""
Addresses as parents: hosts at one address share the limits of policies that hold for addresses.

A bin knows its address once its host was asked. It stands below that address only if a policy asks for it,
since those who hand out its documents wait for each other there.

A policy that comes to ask for it may reach any number of bins that are there already: the main puts them below their addresses
some at a time (`place_some`), and how far it has come is written with each of these steps, so that whoever is main next goes on there.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.rows import named_rows
from nodes.fences import TermHeld, hold_term

# Whether a policy asks that the `bin` stands below its address: one that its jobs brought, or one that holds everywhere.
HOLDS_FOR_ADDRESSES: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_throttlepolicy AS policy
         WHERE policy.per_address
           AND (policy.holds_everywhere
                OR EXISTS (SELECT FROM jobs_binlimit AS brought
                            WHERE brought.bin_id = bin.id AND brought.policy_id = policy.id)))"""
# Bins that know their address and should stand below it.
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
# Locks: BinPlacing, skipping what is locked: each scope has a main.
_NEXT: Final[LiteralString] = """
SELECT wanted.policy_id, wanted.after, policy.holds_everywhere
  FROM jobs_binplacing AS wanted JOIN jobs_throttlepolicy AS policy ON policy.id = wanted.policy_id
 ORDER BY wanted.policy_id LIMIT 1
   FOR NO KEY UPDATE OF wanted SKIP LOCKED
"""
_NEXT_OF_ALL: Final[LiteralString] = "SELECT id FROM jobs_bin WHERE id > %(after)s ORDER BY id LIMIT %(most)s"
_NEXT_BROUGHT: Final[LiteralString] = """
SELECT DISTINCT bin_id AS id FROM jobs_binlimit WHERE policy_id = %(policy)s AND bin_id > %(after)s
 ORDER BY bin_id LIMIT %(most)s
"""
# Bins of one step: a few tens of ms, in which nobody is handed out anything of them.
_PLACED_AT_ONCE: Final = 1_000


def want_placed(cursor: Any, *, policy_id: int | None) -> None:
    """Have the bins of a policy, if there is one, put below their addresses, if it asks for that."""
    cursor.execute(_WANT, {"policy": policy_id})


def place_some(connection: psycopg.Connection[Any], *, term: TermHeld) -> int:
    """
    Put some of the bins below their addresses for which that is wanted; returns how many were looked at.

    Raises:
        FenceRefused: somebody else is main.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        hold_term(connection, term)
        wanted = cursor.execute(_NEXT).fetchone()
        if wanted is None:
            return 0
        statement = _NEXT_OF_ALL if wanted.holds_everywhere else _NEXT_BROUGHT
        facts = {"policy": wanted.policy_id, "after": wanted.after, "most": _PLACED_AT_ONCE}
        bins = [row.id for row in cursor.execute(statement, facts)]
        if not bins:
            cursor.execute("DELETE FROM jobs_binplacing WHERE policy_id = %(policy)s", facts)
            return 0
        put_below_addresses(cursor, bins=bins)
        cursor.execute("UPDATE jobs_binplacing SET after = %s WHERE policy_id = %s", (bins[-1], wanted.policy_id))
    return len(bins)


def keep_address(connection: psycopg.Connection[Any], *, bin_id: int, address: str) -> None:
    """Note where a bin's host is, and let the bin stand below that."""
    connection.execute("UPDATE jobs_bin SET address = %s WHERE id = %s", (address, bin_id))
    put_below_addresses(connection.cursor(), bins=[bin_id])


def put_below_addresses(cursor: Any, *, bins: Sequence[int]) -> None:
    """Let these bins stand below the address that they are known to have, if a policy holds for it."""
    cursor.execute(_BELOW, {"bins": list(bins)})
    below = cursor.fetchall()
    if below:
        cursor.execute(_MAKE, {"addresses": [address for _, address in below]})
        cursor.execute(_LINK, {"bins": sorted(bin_id for bin_id, _ in below)})
