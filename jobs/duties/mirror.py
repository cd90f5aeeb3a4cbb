"""What a store of coordination beside the database is shown of the groups."""

from typing import Any, Final

import psycopg

# Names of so many are read in one go there. Who looks at that store sees the oldest of more.
_MOST: Final = 10_000

# Locks: none. It is shown, and decides nothing.
_OWNERS = """
SELECT id, owner_id FROM jobs_throttlegroup WHERE node_scope = %(scope)s ORDER BY id LIMIT %(most)s
"""


def read_owners(connection: psycopg.Connection[Any], *, scope: str) -> dict[str, str | None]:
    """Return the groups of a scope by their numbers, each with the id of its owner if it has one."""
    rows = connection.execute(_OWNERS, {"scope": scope, "most": _MOST}).fetchall()
    return {str(group): None if owner is None else str(owner) for group, owner in rows}
