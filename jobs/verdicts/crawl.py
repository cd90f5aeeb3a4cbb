"""The verdict on the whole crawl: its progress, and the cause for which most documents wait."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.jobs import HostOfJob, most_common, without_a_queue
from jobs.verdicts.requests import Requests


@dataclass(frozen=True, slots=True)
class CrawlVerdict:
    """
    The verdict, and `hosts` where documents wait, counted by their cause, the largest number first.

    Hosts whose latest requests failed count as `failing_hosts` only, whatever else holds them.
    """

    verdict: Verdict
    is_running: bool
    is_moving: bool = False
    hosts: Mapping[Cause, int] | None = None
    failing_hosts: int = 0


def judge_crawl(
    jobs: Sequence[Verdict | None],
    *,
    hosts: Sequence[HostOfJob],
    waiting: int,
    in_progress: int,
    rate: float | None,
    latest: Requests,
    next_due_at: dt.datetime | None = None,
) -> CrawlVerdict:
    """
    Return the verdict on the crawl. `jobs` has for each running job the cause that holds the whole job, or None.

    `waiting`, `in_progress` and `rate` (documents a second) are sums over the jobs that nothing holds.
    """
    if not jobs:
        return CrawlVerdict(Verdict(Cause.NOT_RUNNING), is_running=False)
    if all(held is not None for held in jobs):
        held_jobs = [HostOfJob(held, 1, 0) for held in jobs if held is not None]
        return CrawlVerdict(most_common(held_jobs), is_running=True)
    queued = [host for host in hosts if host.waiting and host.verdict.cause != Cause.JOBS_HELD]
    counted: dict[Cause, int] = {}
    for host in queued:
        if host.verdict.failing is None:
            counted[host.verdict.cause] = counted.get(host.verdict.cause, 0) + 1
    verdict = (
        most_common(queued) if waiting or queued else without_a_queue(in_progress=in_progress, next_due_at=next_due_at)
    )
    return CrawlVerdict(
        replace(verdict, failing=latest if latest.is_failing else None),
        is_running=True,
        is_moving=bool(rate),
        hosts=dict(sorted(counted.items(), key=lambda pair: -pair[1])),
        failing_hosts=sum(host.verdict.failing is not None for host in hosts),
    )
