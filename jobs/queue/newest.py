"""
How the state of a lane or a bin is found, and written, which each turn changes.

Each change leaves a version behind. Beside the open snapshot of a backup none of them can be cleared away, so after
some hours a row has hundreds, and an index leads to all of them. So the key of a state grows with each change:
`version` is one more. Who looks for the state comes from the end of its index, and meets the one that counts first;
and a new version is held against no other in a unique index.

The state is the row that is locked for a lane or a bin. Who writes one that he has not locked before names the version
that he has seen, and all later ones (`since`): if somebody has changed the row between the snapshot of the statement and
its lock, PostgreSQL goes on to what he wrote.
There is always one row, which the database holds when a transaction ends (decision 0029); a version that does not grow with a
change is not wrong, only dear.
"""

from typing import Final, LiteralString

# How a state is locked: its lock is waited for, or it is left out.
WAITING: Final[LiteralString] = "FOR NO KEY UPDATE"
SKIPPING: Final[LiteralString] = "FOR NO KEY UPDATE SKIP LOCKED"


def newest(
    columns: LiteralString,
    *,
    of: LiteralString,
    number: LiteralString,
    since: LiteralString = "0",
    lock: LiteralString = "",
) -> LiteralString:
    """A subquery, to be joined laterally: so many columns of the state `of` the "lane" or "bin" with this number."""
    return (
        f"(SELECT {columns} FROM jobs_{of}state WHERE {of}_id = {number} AND version >= {since}"
        f" ORDER BY version DESC LIMIT 1 {lock})"
    )


def held_newest(*, of: LiteralString, numbers: LiteralString) -> LiteralString:
    """
    A query that locks the states of the lanes or bins whose numbers a query gives, in their order.

    It says the `id` and the `version` that was seen of each: who writes them names that and all later ones.
    """
    return f"""
SELECT seen.id, seen.version
  FROM (SELECT state.*
          FROM ({numbers}) AS named(id)
         CROSS JOIN LATERAL {newest(f"{of}_id AS id, version", of=of, number="named.id")} AS state
         ORDER BY state.id) AS seen
 CROSS JOIN LATERAL {newest("", of=of, number="seen.id", since="seen.version", lock=WAITING)} AS held"""
