"""
Addresses as parents: hosts at one address share the limits of policies that hold for addresses.

A bin knows its address once its host was asked. It stands below that address only if a policy asks for it,
since those who hand out its documents wait for each other there.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

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
 WHERE bin.address <> '' AND bin.parent_id IS NULL AND (%(bins)s::bigint[] IS NULL OR bin.id = ANY(%(bins)s))
   AND {HOLDS_FOR_ADDRESSES}
"""
# Locks: the rows that it inserts; then Bin by id; then the rows that it inserts.
_MAKE: Final[LiteralString] = """
INSERT INTO jobs_bin (namespace, name, "interval", is_known, open_turns, open_requests)
SELECT DISTINCT 'address', name, 0, true, 0, 0 FROM unnest(%(addresses)s::text[]) AS address(name) ORDER BY name
ON CONFLICT (namespace, name) DO NOTHING
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


def keep_address(connection: psycopg.Connection[Any], *, bin_id: int, address: str) -> None:
    """Note where a bin's host is, and let the bin stand below that."""
    connection.execute("UPDATE jobs_bin SET address = %s WHERE id = %s", (address, bin_id))
    put_below_addresses(connection.cursor(), bins=[bin_id])


def put_below_addresses(cursor: Any, *, bins: Sequence[int] | None = None) -> None:
    """Let these bins, or all, stand below the address that they are known to have, if a policy holds for it."""
    cursor.execute(_BELOW, {"bins": None if bins is None else list(bins)})
    below = cursor.fetchall()
    if below:
        cursor.execute(_MAKE, {"addresses": [address for _, address in below]})
        cursor.execute(_LINK, {"bins": sorted(bin_id for bin_id, _ in below)})
