"""All running jobs, without the limit of lists: rules of notifications must see each of them."""

from collections.abc import Sequence
from typing import Final

from jobs.lifecycle.job import Phase
from jobs.models import Job
from jobs.queries.jobs.counts import count_present_runs
from nodes.database.shared_results import cached_in_moment

# Number of jobs that one statement reads or counts.
_CHUNK: Final = 500
# Columns that a state and a line need. Large columns are not read.
_COLUMNS: Final = (
    *("id", "name", "kind", "phase", "pause", "window", "stop_request", "resuming", "seeding", "minimal"),
    *("connectors_ready", "guard", "run_no", "started_at"),
)


@cached_in_moment
def read_running_jobs() -> Sequence[Job]:
    """Return each job whose run has not ended, in the order of their keys."""
    found: list[Job] = []
    rest = Job.objects.exclude(phase=Phase.INACTIVE).only(*_COLUMNS).order_by("pk")
    while True:
        chunk = list(rest.filter(pk__gt=found[-1].pk if found else 0)[:_CHUNK])
        found += chunk
        if len(chunk) < _CHUNK:
            return found


def count_processed(job_ids: Sequence[int]) -> dict[int, int]:
    """Return the processed documents of each job's present run."""
    chunks = (job_ids[first : first + _CHUNK] for first in range(0, len(job_ids), _CHUNK))
    return {job_id: counts.processed for chunk in chunks for job_id, counts in count_present_runs(chunk).items()}
