"""
Parts of statements that read, lock and write the states of lanes and bins, which change with each turn.

Each change leaves a dead row version behind. While a backup has a snapshot open, vacuum cannot remove these dead
versions. So after some hours a row has hundreds of them, and an index leads to all of them. So the key of a state grows
with each change: `version` is one more. A search for the state starts at the end of its index and meets the newest
entry first. A unique index would compare each new version with others, so the index is not unique. The planner expects
ten versions (decision 0047), so that it reads the end of the index, instead of all versions.

To lock a lane or a bin, a statement locks the row of its state. A statement reads states, locks them, and writes them.
Each step searches for the version that the step before has seen, and for all later versions. If another transaction
changed the row between the snapshot and the lock, PostgreSQL continues with the changed row. There is always one row,
which the database checks when a transaction ends (decision 0029). A change that does not raise the version is correct,
but expensive for later searches.
"""

from typing import LiteralString


def read_states(columns: LiteralString, *, of: LiteralString, number: LiteralString) -> LiteralString:
    """Return a subquery for a lateral join: these columns of the state `of` the "lane" or "bin" with this number."""
    return f"(SELECT {columns} FROM jobs_{of}state WHERE {of}_id = {number} ORDER BY version DESC LIMIT 1)"


def lock_states(
    *, of: LiteralString, seen: LiteralString, columns: LiteralString = "seen.*", skipping: bool = False
) -> LiteralString:
    """
    Return a query that locks the states of the lanes or bins that the query `seen` yields, in the order of their ids.

    `seen` yields at least an `id` and a `version`, which is 0 if no state was read. The columns are of `seen`, and of
    the locked state (`held`). Rows that another transaction has locked are left out if `skipping`, or waited for.
    """
    return f"""
SELECT {columns}
  FROM (SELECT * FROM ({seen}) AS named ORDER BY id) AS seen
 CROSS JOIN LATERAL (SELECT * FROM jobs_{of}state WHERE {of}_id = seen.id AND version >= seen.version
                      ORDER BY version DESC LIMIT 1 FOR NO KEY UPDATE {"SKIP LOCKED" if skipping else ""}) AS held"""


def lock_newest_states(*, of: LiteralString, numbers: LiteralString) -> LiteralString:
    """Return a query that locks the states of the lanes or bins whose ids a query yields: their `id` and `version`."""
    return lock_states(
        of=of,
        seen=f"""
        SELECT state.* FROM ({numbers}) AS named(id)
         CROSS JOIN LATERAL {read_states(f"{of}_id AS id, version", of=of, number="named.id")} AS state""",
    )


def write_states(values: LiteralString, *, of: LiteralString, held: LiteralString) -> LiteralString:
    """
    Return an update of the states (`state`) of the lanes or bins that `held` names by `id` and `version`.

    `held` is the name of a common table expression, or a query in parentheses. `values` can use its columns as
    `held.…`.
    """
    return f"""
UPDATE jobs_{of}state AS state SET {values}, version = state.version + 1
  FROM {held} AS held WHERE state.{of}_id = held.id AND state.version >= held.version"""
