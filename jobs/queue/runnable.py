"""What every statement that hands out documents asks of their job, beside its phase."""

from typing import Final, LiteralString

# Nothing holds the job: `lifecycle.job.JobState.may_be_stuffed` says the same of an active one.
RUNNABLE: Final[LiteralString] = (
    "(job.pause = 'no' AND job.\"window\" = 'inside' AND NOT job.resuming AND job.connectors_ready"
    " AND job.stop_request = 'none')"
)
