"""The write-ahead log that this server keeps for partitions that do not take its rows."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

# The setting of PostgreSQL is in megabytes, and -1 means that the log has no limit.
_KEPT: Final[LiteralString] = """
SELECT split_part(slot_name::text, '_to_', 2) AS name, coalesce(wal_status, 'lost') = 'lost' AS is_lost,
       coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint AS kept,
       (SELECT nullif(setting::bigint, -1) * 1024 * 1024 FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS most
  FROM pg_replication_slots
 WHERE database = current_database() AND starts_with(slot_name::text, %(prefix)s)
 ORDER BY 1
"""
# Part of the limit above which the attention list has a line about the partition.
_PART: Final = 0.5
# Kept log above which the attention list has a line if the server has no limit (bytes).
_MUCH: Final = 1024**3


@dataclass(frozen=True, slots=True)
class Behind:
    """
    Another partition that does not take its rows. `kept` bytes of the write-ahead log are kept for it; `most` is the
    limit, None without one.

    Above the limit, the server deletes this log. When the partition returns, the exchange begins again with all rows of
    the run.
    """

    name: str
    is_lost: bool
    kept: int
    most: int | None

    @property
    def is_too_far_behind(self) -> bool:
        return self.is_lost or self.kept > (_MUCH if self.most is None else _PART * self.most)


def read_behind(cursor: Any, *, here: str) -> Sequence[Behind]:  # noqa: ANN401 (one of Django, or of psycopg)
    """Return the partitions for which this server keeps much of its log, or has lost it."""
    cursor.execute(_KEPT, {"prefix": f"crawlctl_{here}_to_"})
    return [one for one in (Behind(*row) for row in cursor.fetchall()) if one.is_too_far_behind]
