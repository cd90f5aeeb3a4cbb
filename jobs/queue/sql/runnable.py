"""The condition on the job, in addition to its phase, in every statement that hands out documents."""

from typing import Final, LiteralString

# The job is not held; `lifecycle.job.JobState.may_be_stuffed` has the same condition for an active one. A job also
# waits while its archive takes no more (`duties/archives.py`), and while slots move between partitions.
RUNNABLE: Final[LiteralString] = (
    "(job.pause = 'no' AND job.\"window\" = 'inside' AND NOT job.resuming AND job.connectors_ready"
    " AND job.stop_request = 'none' AND job.archive_hold = '' AND job.move_hold = 0)"
)
