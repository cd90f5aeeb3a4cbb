"""The days of tombstones."""

from jobs.duties.context import Pass
from jobs.duties.days import make_days


def keep_tombstones(at: Pass) -> int:
    """Create the coming days of tombstones; return 0. Old days are dropped elsewhere (`jobs.duties.cleaning`)."""
    make_days(at, table="jobs_tombstone", column="removed_at")
    return 0
