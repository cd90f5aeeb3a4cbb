"""
Finding and writing the state of a lane or a bin, which changes with each turn.

Each change leaves a dead row version behind. While a backup has a snapshot open, vacuum cannot remove these, so after
some hours a row has hundreds, and an index leads to all of them. So the key of a state grows with each change:
`version` is one more. A search for the state starts at the end of its index and meets the newest entry first. A new
version is compared with no other one in a unique index. The planner expects ten versions (decision 0047), so that it
reads the end of the index, instead of all versions.

The state is the row that is locked for a lane or a bin. A statement that writes a row which it has not locked before
names the version that it has seen and all later ones (`since`). If another transaction changed the row between the
snapshot and the lock, PostgreSQL continues with the changed row. There is always one row, which the database checks
when a transaction ends (decision 0029). A change that does not raise the version is correct, but expensive for later
searches.
"""

from typing import Final, LiteralString

# Lock clauses for a state: wait for a locked row, or skip it.
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
    """Return a subquery for a lateral join: these columns of the state `of` the "lane" or "bin" with this id."""
    return (
        f"(SELECT {columns} FROM jobs_{of}state WHERE {of}_id = {number} AND version >= {since}"
        f" ORDER BY version DESC LIMIT 1 {lock})"
    )


def held_newest(*, of: LiteralString, numbers: LiteralString) -> LiteralString:
    """
    Return a query that locks the states of the lanes or bins whose ids a query yields, in the order of ids.

    It yields `id` and the `version` that it has seen; an update names this version and all later ones.
    """
    return f"""
SELECT seen.id, seen.version
  FROM (SELECT state.*
          FROM ({numbers}) AS named(id)
         CROSS JOIN LATERAL {newest(f"{of}_id AS id, version", of=of, number="named.id")} AS state
         ORDER BY state.id) AS seen
 CROSS JOIN LATERAL {newest("", of=of, number="seen.id", since="seen.version", lock=WAITING)} AS held"""
