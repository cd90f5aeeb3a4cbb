"""Operations of administrators on chains of jobs."""

from typing import Final

from django.db import connection, transaction

from jobs.lifecycle.job import Overlap
from jobs.models import ChainedStart, Job, JobChain
from jobs.state import journal
from nodes.database.clock import read_clock
from nodes.errors import Invalid, Unknown

# Permission to change chains.
MAY_CHAIN: Final = "jobs.change_job"
# Largest number of successors of one job.
_MOST: Final = 100
# Lets one transaction at a time change chains. Otherwise, two of them could close a circle that neither of them sees.
_ONE_AT_A_TIME: Final = "SELECT pg_advisory_xact_lock(hashtext('crawlctl chains of jobs'))"


@transaction.atomic
def add(predecessor: int, successor: int, *, overlap: object = Overlap.SKIP, made_by: str) -> JobChain:
    """
    Let one job start after another one has ended well, or change the overlap of this chain. Return the chain.

    Raises:
        Invalid: the jobs would start each other without end, or a value is unknown.
        Unknown: a job does not exist.
    """
    if overlap not in list(Overlap):
        raise Invalid({"overlap": [f"Write one of {', '.join(Overlap)}."]})
    with connection.cursor() as cursor:
        cursor.execute(_ONE_AT_A_TIME)
    jobs = Job.objects.only("name").in_bulk([predecessor, successor])
    for job_id in (predecessor, successor):
        if job_id not in jobs:
            raise Unknown("job", job_id)
    chain = JobChain.objects.filter(predecessor=predecessor, successor=successor).first()
    if chain is None:
        if circle := _path(successor, predecessor):
            names = Job.objects.in_bulk(circle)
            path = " → ".join(names[job_id].name for job_id in [predecessor, *circle])
            raise Invalid({"successor": [f"These jobs would start each other without end: {path}."]})
        if JobChain.objects.filter(predecessor=predecessor).count() >= _MOST:
            raise Invalid({"predecessor": [f"A job starts at most {_MOST} other jobs."]})
        chain = JobChain(predecessor=jobs[predecessor], successor=jobs[successor], created_by=made_by)
    chain.overlap = Overlap(str(overlap))
    chain.save()
    chain.refresh_from_db()
    said = f"starts after job {jobs[predecessor].name} has ended well (overlap: {chain.overlap})"
    _record(jobs[successor], said, made_by=made_by)
    _record(jobs[predecessor], f"starts job {jobs[successor].name} after it has ended well", made_by=made_by)
    return chain


@transaction.atomic
def remove(chain_id: int, *, made_by: str) -> None:
    """
    Remove a chain and its pending starts.

    Raises:
        Unknown: the chain does not exist.
    """
    chains = JobChain.objects.select_related("predecessor", "successor").select_for_update(of=("self",))
    chain = chains.filter(pk=chain_id).first()
    if chain is None:
        raise Unknown("chain", chain_id)
    ChainedStart.objects.filter(predecessor_id=chain.predecessor_id, successor=chain.successor_id).delete()
    chain.delete()
    said = f"no longer starts after job {chain.predecessor.name} has ended"
    _record(chain.successor, said, made_by=made_by)
    _record(chain.predecessor, f"no longer starts job {chain.successor.name} after it has ended", made_by=made_by)


def _path(start: int, end: int) -> list[int]:
    """
    Return the ids of the jobs from one job to another along chains, both included; an empty list if no chains connect
    them.
    """
    came_from: dict[int, int | None] = {start: None}
    front = [start]
    while front and end not in came_from:
        found = JobChain.objects.filter(predecessor__in=front).order_by("id")
        pairs = [pair for pair in found.values_list("predecessor", "successor") if pair[1] not in came_from]
        came_from |= {successor: predecessor for predecessor, successor in reversed(pairs)}
        front = list({successor for _, successor in pairs})
    path: list[int] = []
    job: int | None = end if end in came_from else None
    while job is not None:
        path.append(job)
        job = came_from[job]
    return path[::-1]


def _record(job: Job, message: str, *, made_by: str) -> None:
    journal.record(job, kind="chain", message=message, made_by=made_by, now=read_clock())
