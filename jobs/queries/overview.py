"""The first page: progress of the crawl, and the cause for which documents wait."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

from jobs.models import Charge
from jobs.partitions import this_partition
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Silent
from jobs.queries.charges import read_charges
from jobs.queries.cluster.nodes import NodeLine, read_live_nodes
from jobs.queries.documents.search_lag import longest_lag, read_search_lag
from jobs.queries.hosts.latest_requests import RequestsOfJobs, judge_together, read_latest_requests
from jobs.queries.hosts.lines import HostStatus, read_host_statuses, set_by_of
from jobs.queries.hosts.selection import find_busiest
from jobs.queries.jobs.all_partitions import read_latest_by_number, with_latest
from jobs.queries.jobs.counts import add_up
from jobs.queries.jobs.facts import read_next_ready_at
from jobs.queries.jobs.lines import JobLine, read_first_jobs, read_running_with
from jobs.queries.jobs.running import read_running_jobs
from jobs.queries.jobs.schedules import ScheduleLine, read_next_starts
from jobs.queries.meter import add_histories, present
from jobs.queries.partitions import read_silent
from jobs.queries.progress import DEFAULT_SPAN, SPANS, Step, add_steps, read_progress
from jobs.queue.counting.counters import RunCounts
from jobs.verdicts.causes import Cause
from jobs.verdicts.crawl import CrawlVerdict, judge_crawl
from jobs.verdicts.jobs import HostOfJob
from nodes.database.clock import read_clock


@dataclass(frozen=True, slots=True)
class OverviewPage:
    """
    The content of the first page.

    `totals` are of the `running` jobs, or of the last runs of `jobs` if none runs. `history` is the sum of the
    histories of these jobs, including jobs that ended recently. If more jobs run than can be added up, `running_in_all`
    is more than `running`. `silent` are the partitions whose last figures are old. `are_more_nodes` is true if a
    partition did not answer, so that its nodes are missing. `moving` are counts of the jobs that nothing holds.
    `search_behind_since` is the time of the oldest text that the search index lacks.
    """

    verdict: CrawlVerdict
    jobs: Sequence[JobLine]
    running: int
    running_in_all: int
    totals: RunCounts
    moving: RunCounts
    rate: float | None
    history: Sequence[float | None]
    nodes: Sequence[NodeLine]
    are_more_nodes: bool
    search_behind_since: dt.datetime | None
    # The name of a policy by cause, if all hosts with this cause wait because of a limit of this policy.
    policies: Mapping[Cause, str]
    charges: Mapping[Cause, float]
    progress: Sequence[Step]
    next_starts: Sequence[ScheduleLine]
    silent: Sequence[Silent]


@dataclass(frozen=True, slots=True)
class _Part:
    """
    The part of one partition: its busiest hosts, live nodes, waiting time by cause, and progress of a span.

    `search_behind_since` is the time of the oldest text that its search index lacks.
    `latest` are the latest requests of running jobs, by the ids of the jobs in the control partition. `next_due_at` is
    the time of the next look in the jobs that nothing holds.
    """

    hosts: Sequence[HostStatus]
    nodes: Sequence[NodeLine]
    charges: Mapping[Cause, float]
    progress: Sequence[Step]
    search_behind_since: dt.datetime | None
    latest: Sequence[Mapping[int, RequestsOfJobs]] = ()
    next_due_at: dt.datetime | None = None


def read_overview(*, now: dt.datetime, span: str = DEFAULT_SPAN) -> OverviewPage:
    """Read the page with a few queries, whatever the size of the crawl. `span` is the span of time of its charts."""
    jobs = read_first_jobs(now=now)
    running, running_in_all = read_running_with(jobs, now=now)
    totals = add_up(job.counts for job in running or jobs)
    ended = [job for job in jobs if not job.runs]
    history = add_histories(job.history for job in (*running, *ended) if job.history)
    free = [job for job in running if job.hold is None]
    moving = add_up(job.counts for job in free)
    own = _read_part(span, has_hosts=bool(free), now=now)
    if running:
        latest = read_latest_requests(now=now)
        own = replace(own, latest=[{job.id: latest.of_jobs([job.id]) for job in running}])
    if free and not moving.waiting:
        own = replace(own, next_due_at=read_next_ready_at([job.id for job in free]))
    part, missing = _with_others(own, span)
    silent = read_silent(now=now)
    known = {one.name for one in silent}
    jobs = [with_latest(job, part.latest) for job in jobs]
    hosts = part.hosts if free else []
    rate = present(history) if running else None
    return OverviewPage(
        verdict=judge_crawl(
            [job.hold for job in running],
            hosts=[HostOfJob(line.verdict, line.known.queued, line.in_progress) for line in hosts],
            waiting=moving.pending,
            in_progress=moving.active,
            rate=rate,
            next_due_at=part.next_due_at if free else None,
            latest=judge_together([some for of_partition in part.latest for some in of_partition.values()]),
        ),
        jobs=jobs,
        running=len(running),
        running_in_all=running_in_all,
        totals=totals,
        moving=moving,
        rate=rate,
        history=history,
        nodes=part.nodes,
        are_more_nodes=bool(missing),
        search_behind_since=part.search_behind_since,
        policies=_policies(hosts),
        charges=part.charges,
        progress=part.progress,
        next_starts=read_next_starts(now=now),
        silent=[*silent, *(one for one in missing if one.name not in known)],
    )


def _read_part(span: str, *, has_hosts: bool, now: dt.datetime) -> _Part:
    return _Part(
        hosts=read_host_statuses(find_busiest(), now=now) if has_hosts else [],
        nodes=read_live_nodes(),
        charges=read_charges(Charge.Subject.ALL, 0, now=now),
        progress=read_progress(SPANS[span], now=now),
        search_behind_since=read_search_lag(),
    )


def _read_part_elsewhere(name: str, span: str) -> _Part:
    """Return the part of the page about the database of this thread, which belongs to another partition."""
    now = read_clock()
    part = _read_part(span, has_hosts=True, now=now)
    free = [job.pk for job in read_running_jobs() if job.state.may_be_stuffed]
    return replace(
        part,
        nodes=[node.of_partition(name, read_at=now) for node in part.nodes],
        latest=[read_latest_by_number(now=now)],
        next_due_at=read_next_ready_at(free) if free else None,
    )


def _with_others(own: _Part, span: str) -> tuple[_Part, Sequence[Silent]]:
    """
    Return the sum of the parts of all partitions, and the partitions that are missing in it. Parts of other partitions
    are some seconds old.
    """
    cached = _cached(span).answers() if this_partition.control_name() else None
    if cached is None:
        return own, []
    found = cached.with_own(own)
    parts = [own, *(part for _name, part in sorted(found.others.items()))]
    charges: dict[Cause, float] = {}
    for part in parts:
        for cause, seconds in part.charges.items():
            charges[cause] = charges.get(cause, 0.0) + seconds
    together = _Part(
        hosts=[host for part in parts for host in part.hosts],
        nodes=[node for part in parts for node in part.nodes],
        charges=dict(sorted(charges.items(), key=lambda one: -one[1])),
        progress=add_steps([part.progress for part in parts]),
        search_behind_since=longest_lag(part.search_behind_since for part in parts),
        latest=[of_partition for part in parts for of_partition in part.latest],
        next_due_at=min((part.next_due_at for part in parts if part.next_due_at is not None), default=None),
    )
    return together, found.silent


@lru_cache(maxsize=len(SPANS))
def _cached(span: str) -> HeldAnswers[_Part]:
    return HeldAnswers(lambda name: _read_part_elsewhere(name, span))


def _policies(hosts: Sequence[HostStatus]) -> dict[Cause, str]:
    """
    For each cause whose hosts all wait because of a limit of one policy, return the name of this policy.
    """
    found: dict[Cause, set[str]] = {}
    for line in hosts:
        set_by = set_by_of(line, line.verdict)
        found.setdefault(line.verdict.cause, set()).add(set_by.policy if set_by else "")
    return {cause: name for cause, names in found.items() if len(names) == 1 and (name := next(iter(names)))}
