"""The table of tombstones has a partition for each day, which this duty creates in advance."""

from jobs.duties.context import Pass
from jobs.duties.daily_tables import make_days


def keep_tombstones(at: Pass) -> int:
    """
    Create the partitions of the coming days; return 0. The cleaning drops old partitions (`jobs.duties.cleaning`).
    """
    make_days(at, table="jobs_tombstone", column="removed_at")
    return 0
