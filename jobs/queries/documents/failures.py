"""Failures over all jobs, by host and cause: each with its trend and the documents that are failed now."""

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from jobs.lifecycle.document import Stage
from jobs.models import FailureGroup, FailureHour, Job, Outcome, QueueItem
from jobs.queries.documents.lists import lanes_of_host
from jobs.queue.sql.low_water import LOWEST_DELTA

A_PAGE: Final = 50
# A trend has steps of some hours, the last one with the present hour.
STEPS: Final = 28
STEP: Final = dt.timedelta(hours=6)
# Causes of which the page shows the number of documents.
_CAUSES: Final = 12

# Documents that are failed in the present run of their job, by the counters of the lanes of each group.
_FAILED_NOW: Final = f"""
SELECT wanted.id, coalesce(sum(counted.amount), 0)::bigint
  FROM unnest(%(ids)s::bigint[], %(jobs)s::bigint[], %(bins)s::bigint[], %(codes)s::text[]) AS wanted(id, job_id, bin_id, code)
  JOIN jobs_job AS job ON job.id = wanted.job_id
  JOIN jobs_lane AS lane ON lane.bin_id = wanted.bin_id
  JOIN jobs_seed AS seed ON seed.id = lane.seed_id AND seed.job_id = job.id
 CROSS JOIN LATERAL (
       SELECT amount FROM jobs_counter
        WHERE job_id = job.id AND run_no = job.run_no AND lane_id = lane.id AND measure = 'stage'
          AND stage = {Stage.DONE:d} AND outcome = {Outcome.FAILED:d} AND code = wanted.code
        UNION ALL
       SELECT amount FROM jobs_counterdelta
        WHERE job_id = job.id AND run_no = job.run_no AND lane_id = lane.id AND measure = 'stage'
          AND stage = {Stage.DONE:d} AND outcome = {Outcome.FAILED:d} AND code = wanted.code AND id >= {LOWEST_DELTA}
       ) AS counted
 GROUP BY wanted.id
"""
_CAUSES_NOW: Final = f"""
SELECT counter.code, sum(counter.amount)::bigint AS documents
  FROM jobs_jobcounter AS counter JOIN jobs_job AS job ON job.id = counter.job_id AND job.run_no = counter.run_no
 WHERE counter.stage = {Stage.DONE:d} AND counter.outcome = {Outcome.FAILED:d} AND counter.measure = 'stage'
   AND counter.amount > 0 AND (%(job)s::bigint IS NULL OR counter.job_id = %(job)s)
 GROUP BY counter.code ORDER BY documents DESC, counter.code LIMIT {_CAUSES}
"""


@dataclass(frozen=True, slots=True)
class FailureKey:
    """The last group before the next page of a list."""

    last_at: dt.datetime
    id: int


@dataclass(frozen=True, slots=True)
class FailureFilter:
    """The groups to list; an empty field means no condition."""

    job_id: int | None = None
    host: str = ""
    code: str = ""
    after: FailureKey | None = None


@dataclass(frozen=True, slots=True)
class FailureLine:
    """
    The failures of a job at a host for one cause.

    `times` is the number of endings since `first_at`, and `failed` that of documents that are failed now. `trend` has the
    endings of each step, the oldest first. `sample` is '' if the document left the queue.
    """

    id: int
    job_id: int
    job_name: str
    host_id: int
    host: str
    code: str
    first_at: dt.datetime
    last_at: dt.datetime
    times: int
    failed: int
    trend: Sequence[int]
    sample: str
    sample_hash: uuid.UUID


@dataclass(frozen=True, slots=True)
class FailureList:
    """One page; `next_key` is where the next one begins, None at the end."""

    lines: Sequence[FailureLine]
    next_key: FailureKey | None


def list_failures(wanted: FailureFilter, *, now: dt.datetime) -> FailureList:
    """Return a page of the groups that pass the filter, the last seen first."""
    groups = FailureGroup.objects.select_related("bin")
    if wanted.job_id is not None:
        groups = groups.filter(job_id=wanted.job_id)
    if wanted.host:
        groups = groups.filter(bin__in=lanes_of_host(wanted.host).values("bin"))
    if wanted.code:
        groups = groups.filter(code=wanted.code)
    if wanted.after is not None:
        key = wanted.after
        groups = groups.filter(
            Q(last_at__lt=key.last_at) | Q(last_at=key.last_at, id__lt=key.id), last_at__lte=key.last_at
        )
    found = list(groups.order_by("-last_at", "-id")[: A_PAGE + 1])
    shown = found[:A_PAGE]
    last = shown[-1] if len(found) > A_PAGE else None
    return FailureList(describe_groups(shown, now=now), FailureKey(last.last_at, last.pk) if last else None)


def describe_groups(groups: Sequence[FailureGroup], *, now: dt.datetime) -> list[FailureLine]:
    """Return these groups with everything that pages and the API show; not those of jobs that no longer exist."""
    names = dict(Job.objects.filter(pk__in={group.job_id for group in groups}).values_list("pk", "name"))
    failed = _count_failed(groups)
    trends = _read_trends([group.pk for group in groups], now=now)
    samples = _read_samples(groups)
    return [
        FailureLine(
            id=group.pk,
            job_id=group.job_id,
            job_name=names[group.job_id],
            host_id=group.bin_id,
            host=group.bin.name,
            code=group.code,
            first_at=group.first_at,
            last_at=group.last_at,
            times=group.times,
            failed=failed.get(group.pk, 0),
            trend=trends[group.pk],
            sample=samples.get((group.job_id, group.sample), ""),
            sample_hash=group.sample,
        )
        for group in groups
        if group.job_id in names
    ]


def count_causes(*, job_id: int | None) -> list[tuple[str, int]]:
    """Return the most frequent causes, each with its documents that are failed now, in one job or in all."""
    with connection.cursor() as cursor:
        cursor.execute(_CAUSES_NOW, {"job": job_id})
        return list(cursor.fetchall())


def _count_failed(groups: Sequence[FailureGroup]) -> dict[int, int]:
    if not groups:
        return {}
    facts: dict[str, Any] = {
        "ids": [group.pk for group in groups],
        "jobs": [group.job_id for group in groups],
        "bins": [group.bin_id for group in groups],
        "codes": [group.code for group in groups],
    }
    with connection.cursor() as cursor:
        cursor.execute(_FAILED_NOW, facts)
        return dict(cursor.fetchall())


def _read_trends(groups: Sequence[int], *, now: dt.datetime) -> dict[int, list[int]]:
    trends = {group: [0] * STEPS for group in groups}
    end = now.astimezone(dt.UTC).replace(minute=0, second=0, microsecond=0) + dt.timedelta(hours=1)
    begin = end - STEPS * STEP
    hours = FailureHour.objects.filter(group__in=groups, hour__gte=begin, hour__lt=end)
    for group, hour, times in hours.values_list("group_id", "hour", "times"):
        trends[group][(hour - begin) // STEP] += times
    return trends


def _read_samples(groups: Iterable[FailureGroup]) -> dict[tuple[int, uuid.UUID], str]:
    keys = {(group.sample, group.job_id) for group in groups}
    found = QueueItem.objects.filter(hash__in={digest for digest, _ in keys}, job__in={job for _, job in keys})
    return {(item.job_id, item.hash): item.identifier for item in found.only("hash", "job", "identifier")}
