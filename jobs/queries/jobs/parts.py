"""The part of each partition in a job's run: its hosts, results by code, failing groups, and waiting time by cause."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, NamedTuple

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Phase
from jobs.models import Charge, Job, Outcome
from jobs.partitions import this_partition
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Silent, local_job
from jobs.queries.charges import read_charges
from jobs.queries.cluster.failing_groups import FailingGroup, read_failing_groups
from jobs.queries.documents.search_lag import longest_lag, read_search_lag
from jobs.queries.hosts.latest_requests import RequestsOfJobs, read_latest_requests
from jobs.queries.jobs.facts import read_next_ready_at
from jobs.queries.jobs.hosts import HOSTS_SHOWN, HostLine, RunOfJob, count_hosts, read_hosts_of
from jobs.queue.sql.low_water import LOWEST_DELTA
from jobs.verdicts.causes import Cause
from nodes.database.clock import read_clock

# Largest number of jobs whose parts in other partitions are cached for open pages.
_JOBS_CACHED: Final = 64

_CODES: Final = f"""
SELECT outcome, code, sum(amount)::bigint AS amount
  FROM (SELECT measure, stage, outcome, code, amount FROM jobs_jobcounter WHERE job_id = %(job)s AND run_no = %(run)s
         UNION ALL
        SELECT measure, stage, outcome, code, amount FROM jobs_counterdelta
          WHERE job_id = %(job)s AND run_no = %(run)s AND id >= {LOWEST_DELTA}) AS both_
 WHERE measure = 'stage' AND stage = %(done)s
 GROUP BY outcome, code
HAVING sum(amount) > 0
 ORDER BY amount DESC, code
"""


@dataclass(frozen=True, slots=True)
class CodeCount:
    """The number of documents that ended in this run with one outcome and result code."""

    code: str
    outcome: Outcome
    count: int


@dataclass(frozen=True, slots=True)
class PartOfJob:
    """
    The part of one partition in the run of a job, or of all partitions.

    If `are_more_hosts`, the number `known_hosts` is a lower limit. `charges` are document-seconds of the last minutes
    by cause. `search_behind_since` is the time of the oldest text that the search index lacks, of any job. `latest` are
    the latest requests in each partition, and `next_due_at` is the time at which the next document may be handed out,
    if the job runs. `silent` are the partitions that did not answer.
    """

    run_no: int
    hosts: Sequence[HostLine]
    known_hosts: int
    are_more_hosts: bool
    codes: Sequence[CodeCount]
    failing: Sequence[FailingGroup]
    charges: Mapping[Cause, float]
    search_behind_since: dt.datetime | None
    latest: Sequence[RequestsOfJobs] = ()
    next_due_at: dt.datetime | None = None
    silent: Sequence[Silent] = ()


class _Run(NamedTuple):
    id: int
    run_no: int
    runs: bool


def read_part(job: RunOfJob, *, now: dt.datetime) -> PartOfJob:
    """Return the part of a job's run that the database of this thread has."""
    hosts = read_hosts_of(job, now=now)
    known_hosts, are_more_hosts = (len(hosts), False) if len(hosts) < HOSTS_SHOWN else count_hosts(job)
    return PartOfJob(
        run_no=job.run_no,
        hosts=hosts,
        known_hosts=known_hosts,
        are_more_hosts=are_more_hosts,
        codes=_read_codes(job),
        failing=read_failing_groups(job_id=job.id),
        charges=read_charges(Charge.Subject.JOB, job.id, now=now),
        search_behind_since=read_search_lag(),
    )


def with_next_looks(part: PartOfJob, job_id: int, *, now: dt.datetime) -> PartOfJob:
    """Return the part of a running job with its latest requests and its `next_due_at`."""
    latest = read_latest_requests(now=now).of_jobs([job_id])
    return replace(part, latest=[latest], next_due_at=read_next_ready_at([job_id]))


def with_other_partitions(own: PartOfJob, *, job_id: int, run_no: int, runs: bool) -> PartOfJob:
    """Return a part together with the parts of other partitions in the same run, which are some seconds old."""
    others, silent = _others(job_id=job_id, run_no=run_no, runs=runs)
    return replace(together([own, *others]), silent=silent)


def read_hosts_everywhere(job: RunOfJob, *, now: dt.datetime) -> Sequence[HostLine]:
    """Return the busiest hosts of a job in all partitions. Figures of other partitions may be some seconds old."""
    own = read_hosts_of(job, now=now)
    others, _silent = _others(job_id=job.id, run_no=job.run_no, runs=job.runs)
    return _busiest([own, *(part.hosts for part in others)])


def _others(*, job_id: int, run_no: int, runs: bool) -> tuple[list[PartOfJob], Sequence[Silent]]:
    """
    Return the parts of other partitions in this run, and the partitions that did not answer. Only the control partition
    has them.
    """
    if not this_partition.control_name():
        return [], ()
    answers = _cached(job_id, run_no, runs=runs)
    cached = answers.answers()
    if cached is None:
        return [], ()
    found = [part for _name, part in sorted(cached.found.others.items()) if part is not None]
    if any(part.run_no < run_no for part in found):
        # A partition may begin the run later than this one. So an answer about an earlier run is read again soon.
        answers.renew()
    return [part for part in found if part.run_no == run_no], cached.found.silent


def _busiest(parts: Sequence[Sequence[HostLine]]) -> Sequence[HostLine]:
    if len(parts) == 1:
        return parts[0]
    hosts = [host for part in parts for host in part]
    hosts.sort(key=lambda host: (-host.active, -host.pending, -host.done))
    return hosts[:HOSTS_SHOWN]


def together(parts: Sequence[PartOfJob]) -> PartOfJob:
    """Return several parts as one: the busiest hosts of all, and sums."""
    if len(parts) == 1:
        return parts[0]
    counts: dict[tuple[Outcome, str], int] = {}
    charges: dict[Cause, float] = {}
    for part in parts:
        for code in part.codes:
            counts[code.outcome, code.code] = counts.get((code.outcome, code.code), 0) + code.count
        for cause, seconds in part.charges.items():
            charges[cause] = charges.get(cause, 0.0) + seconds
    return PartOfJob(
        run_no=parts[0].run_no,
        hosts=_busiest([part.hosts for part in parts]),
        known_hosts=sum(part.known_hosts for part in parts),
        are_more_hosts=any(part.are_more_hosts for part in parts),
        codes=[
            CodeCount(code=code, outcome=outcome, count=count)
            for (outcome, code), count in sorted(counts.items(), key=lambda one: (-one[1], one[0][1]))
        ],
        failing=[group for part in parts for group in part.failing],
        charges=dict(sorted(charges.items(), key=lambda one: -one[1])),
        search_behind_since=longest_lag(part.search_behind_since for part in parts),
        latest=[one for part in parts for one in part.latest],
        next_due_at=min((part.next_due_at for part in parts if part.next_due_at is not None), default=None),
    )


@lru_cache(maxsize=_JOBS_CACHED)
def _cached(job_id: int, run_no: int, *, runs: bool) -> HeldAnswers[PartOfJob | None]:
    """
    Return the cached parts of other partitions in a run. The arguments are the key of the cache, so a run that begins
    or ends is read again.
    """

    def read(name: str) -> PartOfJob | None:
        local = local_job(job_id)
        found = None if local is None else Job.objects.filter(pk=local).values_list("pk", "run_no", "phase").first()
        if found is None:
            return None
        number, run_no, phase = found
        now, runs = read_clock(), phase != Phase.INACTIVE
        part = read_part(_Run(number, run_no, runs), now=now)
        if runs:
            part = with_next_looks(part, number, now=now)
        return replace(
            part,
            hosts=[replace(host, partition=name) for host in part.hosts],
            failing=[replace(group, partition=name) for group in part.failing],
        )

    return HeldAnswers(read)


def _read_codes(job: RunOfJob) -> list[CodeCount]:
    with connection.cursor() as cursor:
        cursor.execute(_CODES, {"job": job.id, "run": job.run_no, "done": Stage.DONE})
        return [
            CodeCount(code=code, outcome=Outcome(outcome), count=count) for outcome, code, count in cursor.fetchall()
        ]
