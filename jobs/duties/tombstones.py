"""The days of tombstones."""

from jobs.duties.context import Pass
from jobs.duties.days import make_days


def keep_tombstones(at: Pass) -> int:
    """Create the coming days of tombstones; return 0. The cleaning drops old days (`jobs.duties.cleaning`)."""
    make_days(at, table="jobs_tombstone", column="removed_at")
    return 0
