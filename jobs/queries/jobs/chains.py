"""The chains of a job: the jobs that it follows, and the jobs that follow it."""

from collections.abc import Sequence
from dataclasses import dataclass

from jobs.models import ChainedStart, JobChain


@dataclass(frozen=True, slots=True)
class ChainLine:
    """One chain. `job` is the other job. `is_pending` is True if the chain still has to start its successor."""

    id: int
    job: int
    name: str
    overlap: str
    is_pending: bool


@dataclass(frozen=True, slots=True)
class Chains:
    """The chains of a job in both directions."""

    previous: Sequence[ChainLine]
    next: Sequence[ChainLine]


def read_chains(job_id: int) -> Chains:
    """Return the chains of a job, by the names of the other jobs."""
    chains = JobChain.objects.all()
    before = chains.filter(successor=job_id).order_by("predecessor__name")
    after = chains.filter(predecessor=job_id).order_by("successor__name")
    pending_here = set(ChainedStart.objects.filter(successor=job_id).values_list("predecessor_id", flat=True))
    pending_there = set(ChainedStart.objects.filter(predecessor_id=job_id).values_list("successor_id", flat=True))
    return Chains(
        previous=[
            ChainLine(*row, is_pending=row[1] in pending_here)
            for row in before.values_list("id", "predecessor_id", "predecessor__name", "overlap")
        ],
        next=[
            ChainLine(*row, is_pending=row[1] in pending_there)
            for row in after.values_list("id", "successor_id", "successor__name", "overlap")
        ],
    )
