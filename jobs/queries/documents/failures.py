"""Failures over all jobs and partitions, by host and cause: each with its trend and the documents that are failed now."""

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.db import connection
from django.db.models import QuerySet

from jobs.lifecycle.document import Stage
from jobs.models import FailureGroup, FailureHour, Job, Outcome, PartitionedJob, QueueItem
from jobs.partitions.merged import (
    Placed,
    Silent,
    local_job,
    merge_lines,
    numbers_of,
    read_everywhere,
    rows_of_next_page,
)
from jobs.queries.documents.conditions import lanes_of_host
from jobs.queue.sql.low_water import LOWEST_DELTA

A_PAGE: Final = 50
# Number and length of the steps of a trend. The last step includes the present hour.
STEPS: Final = 28
STEP: Final = dt.timedelta(hours=6)
# Number of causes that the page shows, and the largest number that each partition counts.
_CAUSES: Final = 12
_CAUSES_READ: Final = 1_000

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
 GROUP BY counter.code ORDER BY documents DESC, counter.code LIMIT {_CAUSES_READ}
"""


@dataclass(frozen=True, slots=True)
class FailureKey:
    """
    The last group on a page of a list. The next page continues after it. `partition` is the other partition that has
    the group, "" for this one.
    """

    last_at: dt.datetime
    id: int
    partition: str = ""


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

    `times` is the number of failures since `first_at`, and `failed` the number of documents that are failed now.
    `trend` has the number of failures in each step of time, the oldest first. `sample` is '' if the document left the
    queue.
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
    """
    One page of groups. The next page continues after `next_key`; None on the last page.

    `causes` are the most frequent causes, each with the number of documents that are failed now. `silent` partitions
    did not answer.
    """

    lines: Sequence[Placed[FailureLine]]
    next_key: FailureKey | None
    causes: Sequence[tuple[str, int]]
    silent: Sequence[Silent]


@dataclass(frozen=True, slots=True)
class _Part:
    """
    The part of one partition: the lines of a page, with one line of the next page if there is one, and the documents
    that are failed now, by cause.
    """

    lines: Sequence[FailureLine]
    causes: Mapping[str, int]


def list_failures(wanted: FailureFilter, *, now: dt.datetime) -> FailureList:
    """Return a page of the groups of all partitions that pass the filter, the last seen first."""
    found = read_everywhere(
        lambda: _read_part(groups_of_jobs(), wanted, now=now),
        lambda name: _read_elsewhere(wanted, partition=name, now=now),
    )
    parts = (found.own, *found.others.values())
    lines = merge_lines(found, lambda part: part.lines, key=lambda line: line.last_at, is_downwards=True)
    shown = lines[:A_PAGE]
    last = shown[-1] if len(lines) > A_PAGE else None
    causes = sum((Counter(part.causes) for part in parts), Counter[str]())
    return FailureList(
        shown,
        FailureKey(last.line.last_at, last.line.id, last.partition) if last else None,
        sorted(causes.items(), key=lambda cause: (-cause[1], cause[0]))[:_CAUSES],
        found.silent,
    )


def groups_of_jobs() -> QuerySet[FailureGroup]:
    """Return the groups of jobs that exist. Groups of a deleted job are deleted soon after the job."""
    return FailureGroup.objects.filter(job__in=Job.objects.values("pk"))


def _read_elsewhere(wanted: FailureFilter, *, partition: str, now: dt.datetime) -> _Part:
    """Read a part in the database of this thread. Jobs get their ids in the control partition."""
    local = None if wanted.job_id is None else local_job(wanted.job_id)
    if wanted.job_id is not None and local is None:
        return _Part([], {})
    known = FailureGroup.objects.filter(job__in=PartitionedJob.objects.values("job"))
    found = _read_part(known, replace(wanted, job_id=local), partition=partition, now=now)
    numbers = numbers_of({line.job_id for line in found.lines})
    lines = [replace(line, job_id=numbers[line.job_id]) for line in found.lines if line.job_id in numbers]
    return replace(found, lines=lines)


def _read_part(
    groups: QuerySet[FailureGroup], wanted: FailureFilter, *, partition: str = "", now: dt.datetime
) -> _Part:
    groups = groups.select_related("bin")
    if wanted.job_id is not None:
        groups = groups.filter(job_id=wanted.job_id)
    if wanted.host:
        groups = groups.filter(bin__in=lanes_of_host(wanted.host).values("bin"))
    if wanted.code:
        groups = groups.filter(code=wanted.code)
    if wanted.after is not None:
        key = wanted.after
        columns, last = ("last_at", "id"), (key.last_at, key.id)
        groups = groups.filter(
            rows_of_next_page(columns, last, downwards=True, last_partition=key.partition, partition=partition)
        )
    found = describe_groups(groups.order_by("-last_at", "-id")[: A_PAGE + 1], now=now)
    return _Part(found, _count_causes(job_id=wanted.job_id))


def describe_groups(groups: Iterable[FailureGroup], *, now: dt.datetime) -> list[FailureLine]:
    """Return these groups with everything that pages and the API show. Groups of deleted jobs are left out."""
    groups = list(groups)
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


def _count_causes(*, job_id: int | None) -> dict[str, int]:
    """Return the documents that are failed now by their cause, in one job or in all."""
    with connection.cursor() as cursor:
        cursor.execute(_CAUSES_NOW, {"job": job_id})
        return dict(cursor.fetchall())


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
