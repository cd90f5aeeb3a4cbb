"""A copy of the owners of groups, for a coordination store that is not the database."""

from typing import Any, Final

import psycopg

# Largest number of copied groups: a reader of the copy gets the names of all groups with one request. If there are more
# groups, the oldest ones are copied.
_MOST: Final = 10_000

# Locks: none. The copy is for display, and no decision depends on it.
_OWNERS = """
SELECT id, owner_id FROM jobs_throttlegroup WHERE node_scope = %(scope)s ORDER BY id LIMIT %(most)s
"""


def read_owners(connection: psycopg.Connection[Any], *, scope: str) -> dict[str, str | None]:
    """Return the groups of a scope by their ids, each with the id of its owner if it has one."""
    rows = connection.execute(_OWNERS, {"scope": scope, "most": _MOST}).fetchall()
    return {str(group): None if owner is None else str(owner) for group, owner in rows}
