"""The content of a job's page: the progress of its run, its failures, and its hosts."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jobs.lifecycle.job import TRANSITIONS
from jobs.lifecycle.job import Window as Place
from jobs.lifecycle.schedule import next_opening_of
from jobs.models import JobEvent, ScheduleWindow
from jobs.partitions import this_partition
from jobs.partitions.merged import Silent
from jobs.queries.cluster.failing_groups import FailingGroup
from jobs.queries.hosts.latest_requests import judge_together
from jobs.queries.jobs.facts import job_facts, read_changes, read_cluster, read_next_ready_at
from jobs.queries.jobs.forecast import RunForecast, read_forecast
from jobs.queries.jobs.freshness import Freshness, read_freshness_for_open_page
from jobs.queries.jobs.hosts import HostLine, queues_of
from jobs.queries.jobs.lines import JobLine, read_job_line
from jobs.queries.jobs.outputs import OutputLine, read_output_lines
from jobs.queries.jobs.parts import CodeCount, PartOfJob, read_part, with_next_looks, with_other_partitions
from jobs.queries.partitions import read_silent
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.jobs import HostOfJob, judge_job

_EVENTS_SHOWN: Final = 30
# Number of the job's newest events in which the transitions of its run are searched.
_EVENTS_EXAMINED: Final = 100

_KINDS_OF_MOVES: Final = frozenset(row.kind for row in TRANSITIONS.values())


@dataclass(frozen=True, slots=True)
class EventLine:
    id: int
    at: dt.datetime
    made_by: str
    message: str


@dataclass(frozen=True, slots=True)
class MoveLine:
    """
    A transition of the run: the state to which it led, and the time of the next transition; None for the last one.
    """

    id: int
    at: dt.datetime
    made_by: str
    message: str
    to: str
    until: dt.datetime | None


@dataclass(frozen=True, slots=True)
class JobPage:
    """
    The state of a job. `known_hosts` is the number of all its hosts; if `are_more_hosts`, the number is a lower limit.
    """

    job: JobLine
    verdict: Verdict
    codes: Sequence[CodeCount]
    hosts: Sequence[HostLine]
    known_hosts: int
    are_more_hosts: bool
    events: Sequence[EventLine]
    # Transitions of the run, the newest first.
    moves: Sequence[MoveLine]
    failing: Sequence[FailingGroup]
    # The waiting time of the job's documents by cause, in document-seconds, over the last minutes.
    charges: Mapping[Cause, float]
    forecast: RunForecast | None
    freshness: Freshness
    outputs: Sequence[OutputLine]
    # Partitions whose last figures are old, or that do not answer.
    silent: Sequence[Silent]

    @property
    def closed_hosts(self) -> Sequence[str]:
        """
        Return the names of the shown hosts that are stopped, denied or closed by a rule while documents wait there.
        """
        if not self.job.runs or self.job.hold is not None:
            return []
        return [line.host.name for line in self.hosts if line.pending and line.host.allowed_starts_per_second == 0]


def read_job_page(job_id: int, *, now: dt.datetime) -> JobPage | None:
    """Read the page of a job; None if it does not exist."""
    job = read_job_line(job_id, now=now)
    if job is None:
        return None
    own = read_part(job, now=now)
    if job.runs and this_partition.control_name():
        own = with_next_looks(own, job.id, now=now)
    elif job.runs and not (job.counts.waiting or job.hold):
        own = replace(own, next_due_at=read_next_ready_at([job.id]))
    part = with_other_partitions(own, job_id=job.id, run_no=job.run_no, runs=job.runs)
    if len(part.latest) > 1:
        job = replace(job, latest=judge_together(part.latest))
    hosts, silent = part.hosts, read_silent(now=now)
    of_hosts = [HostOfJob(host.verdict, host.pending + host.at_workers, host.active) for host in hosts]
    events = list(JobEvent.objects.filter(job_id=job.id).order_by("-id")[:_EVENTS_EXAMINED])
    return JobPage(
        job=job,
        verdict=_judge(job, part, of_hosts, now=now),
        codes=part.codes,
        hosts=hosts,
        known_hosts=part.known_hosts,
        are_more_hosts=part.are_more_hosts,
        events=[EventLine(event.pk, event.at, event.made_by, event.message) for event in events[:_EVENTS_SHOWN]],
        moves=_moves(job, events),
        failing=part.failing,
        charges=part.charges,
        forecast=read_forecast(job, queues_of(hosts), now=now),
        freshness=read_freshness_for_open_page(job.id) or Freshness(),
        outputs=read_output_lines(job.id, behind_since=part.search_behind_since),
        silent=[*silent, *(one for one in part.silent if one.name not in {known.name for known in silent})],
    )


def _moves(job: JobLine, events: Sequence[JobEvent]) -> list[MoveLine]:
    """Return the transitions among the newest events of a job that belong to its run, the newest first."""
    moves: list[MoveLine] = []
    for event in events:
        if job.started_at is None or event.at < job.started_at:
            break
        if event.kind in _KINDS_OF_MOVES:
            until = moves[-1].at if moves else None
            moves.append(
                MoveLine(event.pk, event.at, event.made_by, event.message, str(event.detail.get("to", "")), until)
            )
    return moves


def _judge(job: JobLine, part: PartOfJob, hosts: Sequence[HostOfJob], *, now: dt.datetime) -> Verdict:
    """
    Return the verdict on a job. If the job waits for a window, the verdict has the moment at which the window opens.
    """
    changes = read_changes([job.id]) if job.runs else {}
    seen = job_facts(
        job.state,
        reason=job.reason,
        change=changes.get(job.id),
        latest=job.latest,
        archive_hold=job.archive_hold,
        archive_held_since=job.archive_held_since,
        move_hold=job.move_hold,
        opens_at=_opens_at(job, now=now),
    )
    cluster = read_cluster(job.node_scope, now=now)
    return judge_job(
        seen,
        cluster,
        waiting=job.counts.pending,
        in_progress=job.counts.active,
        hosts=hosts,
        next_due_at=None if job.counts.waiting or job.hold is not None else part.next_due_at,
    )


def _opens_at(job: JobLine, *, now: dt.datetime) -> dt.datetime | None:
    if job.state.window == Place.INSIDE:
        return None
    windows = [window.times for window in ScheduleWindow.objects.filter(job_id=job.id)]
    coming = next_opening_of(windows, after=now)
    return coming[0] if coming else None
