"""The waiting documents of running jobs and of the busiest hosts by cause, at one moment."""

import datetime as dt
from collections.abc import Mapping
from typing import Final

from jobs.models import Charge
from jobs.queries.hosts.lines import read_host_statuses
from jobs.queries.hosts.selection import find_busiest
from jobs.queries.jobs.hosts import read_hosts_of
from jobs.queries.jobs.lines import JobLine, read_running_jobs
from jobs.verdicts.causes import Cause
from jobs.verdicts.charges import Sample, add_up, charge_now
from jobs.verdicts.jobs import HostOfJob
from nodes.database.shared_results import Moment

# Number of jobs whose own hosts are read: the jobs with the most waiting documents. The waiting documents of other jobs
# are assigned to causes by the busiest hosts of all jobs.
_JOBS_WITH_HOSTS: Final = 20

Subject = tuple[Charge.Subject, int]


class Charging:
    """
    The waiting documents by cause, as a manager last read them, and the earliest time at which it reads them again.
    """

    def __init__(self) -> None:
        self.last: Sample[Subject] | None = None
        self.rests_until = float("-inf")


def read_waiting_by_cause(*, now: dt.datetime) -> Mapping[Subject, Mapping[Cause, int]]:
    """
    Return the waiting documents by cause: of all running jobs together, of each job, and of the busiest hosts. Return
    nothing if no job runs.
    """
    with Moment().present():
        jobs = read_running_jobs(now=now)
        if not jobs:
            return {}
        busiest = read_host_statuses(find_busiest(), now=now)
        everywhere = [HostOfJob(line.verdict, line.known.queued, line.in_progress) for line in busiest]
        free = sorted((job for job in jobs if job.hold is None), key=lambda job: -job.counts.pending)
        with_hosts = {job.id for job in free[:_JOBS_WITH_HOSTS]}
        of_jobs = {
            job.id: _of_job(job, now=now)
            if job.id in with_hosts
            else charge_now(hold=job.hold, hosts=everywhere, waiting=job.counts.pending)
            for job in jobs
        }
    return {
        (Charge.Subject.ALL, 0): add_up(list(of_jobs.values())),
        **{(Charge.Subject.JOB, number): waiting for number, waiting in of_jobs.items()},
        **{
            (Charge.Subject.HOST, line.id): {line.verdict.cause: line.known.queued}
            for line in busiest
            if line.known.queued
        },
    }


def _of_job(job: JobLine, *, now: dt.datetime) -> dict[Cause, int]:
    hosts = read_hosts_of(job, now=now)
    return charge_now(
        hold=None,
        hosts=[HostOfJob(host.verdict, host.pending + host.at_workers, host.active) for host in hosts],
        waiting=job.counts.pending + sum(host.at_workers for host in hosts),
    )
