"""
The verdict on a job, or on one of its documents. Causes are checked in this order: the job, the cluster, the document,
its host.
"""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from jobs.lifecycle.job import Guard, JobState, Pause, Phase, StopRequest, Window
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.hosts import Known, judge_host
from jobs.verdicts.requests import Requests

_BEGINNING: Final = frozenset({Phase.READY_FOR_STARTUP, Phase.STARTING_UP})


@dataclass(frozen=True, slots=True)
class JobSeen:
    """
    A job: its state, with its start, its author and its reason; `opens_at` is the time at which its next window opens.

    `is_paused_by_output` is True if a worker paused it because an output refused.
    """

    state: JobState
    since: dt.datetime | None = None
    by: str = ""
    reason: str = ""
    opens_at: dt.datetime | None = None
    is_paused_by_output: bool = False
    # The reason why the archive of the job takes no more pages, and the time since then.
    archive_hold: str = ""
    archive_held_since: dt.datetime | None = None
    # Slots move between partitions.
    move_hold: bool = False
    # The latest requests of the job itself.
    latest: Requests = field(default_factory=Requests)


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """The nodes that may work for a job. `disk_shortage` is the reason why no worker takes work, empty if some do."""

    managers: int
    workers: int
    disk_shortage: str = ""


@dataclass(frozen=True, slots=True)
class DocumentSeen:
    """
    A document that has not ended in this run. `check_time` is the time of the next attempt, None if it is due.

    `gate` is the closed gate for which it waits. The node `gate_by` closed it at `gate_since`. `other_job` is the name
    of another job that has claimed the same document.
    """

    is_claimed: bool = False
    worker: str = ""
    check_time: dt.datetime | None = None
    gate: str = ""
    gate_by: str = ""
    gate_since: dt.datetime | None = None
    budget_is_used: bool = False
    other_job: str = ""


@dataclass(frozen=True, slots=True)
class HostOfJob:
    """
    A host with its documents of one job, or of all jobs. The `waiting` documents are in the queue, or at workers and
    not started.
    """

    verdict: Verdict
    waiting: int
    in_progress: int


def judge_job(
    job: JobSeen,
    cluster: ClusterSeen,
    *,
    waiting: int,
    in_progress: int,
    hosts: Sequence[HostOfJob],
    next_due_at: dt.datetime | None = None,
) -> Verdict:
    """
    Return the verdict on a job. `hosts` are those where most of its documents wait.

    If only hosts hold the documents back, the verdict has the cause that holds most of them. If no document
    waits, `next_due_at` is the time of the next look.
    """
    verdict = hold_of(job, cluster)
    if verdict is None:
        is_queued = waiting or any(host.waiting for host in hosts)
        verdict = most_common(hosts) if is_queued else without_a_queue(in_progress=in_progress, next_due_at=next_due_at)
    return replace(verdict, failing=job.latest) if job.latest.is_failing else verdict


def judge_document(
    document: DocumentSeen, job: JobSeen, cluster: ClusterSeen, host: Known, *, now: dt.datetime
) -> Verdict:
    """Return the reason why a document of this run has not ended."""
    if document.is_claimed:
        return Verdict(Cause.IN_PROGRESS, detail=document.worker)
    if (held := hold_of(job, cluster)) is not None:
        return held
    if document.gate:
        return Verdict(Cause.GATE, since=document.gate_since, by=document.gate_by, detail=document.gate)
    if document.budget_is_used:
        return Verdict(Cause.BUDGET)
    if document.check_time is not None and document.check_time > now:
        return Verdict(Cause.RETRY, until=document.check_time)
    if document.other_job:
        return Verdict(Cause.OTHER_JOB, detail=document.other_job)
    # The document waits at this host, even if the counters, which may be newer, show no waiting document.
    mine = replace(host, waiting=max(1, host.waiting), held=min(host.held, max(1, host.waiting) - 1))
    return judge_host(mine, now=now)


def hold_of(job: JobSeen, cluster: ClusterSeen) -> Verdict | None:
    """Return the cause that holds the whole job; None if there is none."""
    if cluster.disk_shortage and job.state.phase != Phase.INACTIVE:
        return Verdict(Cause.DISK, detail=cluster.disk_shortage)
    cause = _cause_set_by_people(job)
    if cause is None and job.archive_hold:
        return Verdict(Cause.ARCHIVE, since=job.archive_held_since, detail=job.archive_hold)
    if cause is None and job.move_hold:
        return Verdict(Cause.SLOTS)
    cause = cause or _cause_in_the_run(job.state, cluster)
    if cause in {None, Cause.NO_MANAGER, Cause.NO_WORKER}:
        return None if cause is None else Verdict(cause)
    until = job.opens_at if cause == Cause.WINDOW else None
    return Verdict(cause, since=job.since, until=until, by=job.by, detail=job.reason)


def _cause_set_by_people(job: JobSeen) -> Cause | None:
    """Return the cause that lasts until an operator, a schedule or an installation changes it."""
    state = job.state
    if state.phase == Phase.INACTIVE:
        return Cause.GUARD if state.guard == Guard.WAITING else Cause.NOT_RUNNING
    if state.stop_request != StopRequest.NONE:
        return Cause.ABORTING
    if not state.connectors_ready:
        return Cause.CONNECTOR
    if state.pause != Pause.NO:
        return Cause.OUTPUT if job.is_paused_by_output else Cause.PAUSED
    if state.window != Window.INSIDE:
        return Cause.WINDOW
    return None


def _cause_in_the_run(state: JobState, cluster: ClusterSeen) -> Cause | None:
    """Return the cause of a job that may run: missing nodes, or a run that begins or ends."""
    if not cluster.managers:
        return Cause.NO_MANAGER
    if not cluster.workers:
        return Cause.NO_WORKER
    if state.phase in _BEGINNING or state.resuming:
        return Cause.STARTING
    return None if state.phase == Phase.ACTIVE else Cause.ENDING


def without_a_queue(*, in_progress: int, next_due_at: dt.datetime | None) -> Verdict:
    """Return the verdict on a job, or on the crawl, if no document waits."""
    if in_progress:
        return Verdict(Cause.IN_PROGRESS)
    return Verdict(Cause.ENDING) if next_due_at is None else Verdict(Cause.NOT_DUE, until=next_due_at)


def most_common(hosts: Sequence[HostOfJob]) -> Verdict:
    """Return the verdict of the cause under which most documents wait."""
    waiting: dict[Cause, int] = {}
    first: dict[Cause, Verdict] = {}
    for host in hosts:
        cause = host.verdict.cause
        if cause != Cause.NOTHING_WAITS and host.waiting:
            waiting[cause] = waiting.get(cause, 0) + host.waiting
            first.setdefault(cause, host.verdict)
    # Documents wait, but at none of the hosts that were read. So they will be offered next.
    return first[max(waiting, key=waiting.__getitem__)] if waiting else Verdict(Cause.NEXT)
