"""The clusters of all partitions, or of one of them, at a minute of the last 30 days."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jobs.partitions import this_partition
from jobs.partitions.merged import Merged, numbers_of, read_everywhere
from jobs.queries.cluster.history import (
    ClusterThen,
    EventThen,
    JobThen,
    ProgressThen,
    find_first_minute,
    find_last_minute,
    read_cluster_then,
    read_day,
    read_events_around,
    read_large_events,
)
from jobs.queries.progress import States, Step
from nodes.database.clock import read_clock

_MINUTE = dt.timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class PartitionMinute:
    """A minute in one partition. `then` is None if the partition has no state up to this minute."""

    first: dt.datetime | None
    then: ClusterThen | None
    events: Sequence[EventThen]
    large_events: Sequence[EventThen]
    day: Sequence[Step]


def read_histories(at: dt.datetime, *, now: dt.datetime, partition: str = "") -> Merged[PartitionMinute | None]:
    """
    Read a minute in all partitions, or in the named one. The part of a partition that was not read is None.

    Jobs have their ids in this partition.
    """
    is_wanted = not partition or partition == this_partition.control_name()
    return read_everywhere(
        lambda: _read(at, now=now) if is_wanted else None,
        lambda _name: _read_elsewhere(at),
        among=[partition] if partition else None,
    )


def find_default_minute(*, present: dt.datetime) -> dt.datetime:
    """Return the minute to show if none is chosen: the last one that was kept."""
    return default_minute(find_last_minute(), present=present, is_of_all=bool(this_partition.control_name()))


def default_minute(last: dt.datetime | None, *, present: dt.datetime, is_of_all: bool) -> dt.datetime:
    """
    Return the last minute that this partition kept; the present one if it kept none.

    With several partitions, the result is at most one minute old, because other partitions keep minutes even if this
    one has no main manager.
    """
    if last is None:
        return present
    return max(last, present - _MINUTE) if is_of_all else last


def jobs_of_all(parts: Sequence[ClusterThen]) -> list[JobThen]:
    """
    Return the jobs that had a run, each once, with the progress of all partitions. All other facts of a job come from
    the first partition that has the job.
    """
    found: dict[int, JobThen] = {}
    for part in parts:
        for job in part.jobs:
            known = found.get(job.id)
            found[job.id] = job if known is None else replace(known, progress=add(known.progress, job.progress))
    return sorted(found.values(), key=lambda job: (job.name, job.id))


def add(one: ProgressThen, other: ProgressThen) -> ProgressThen:
    """Return the sum of both. If either has unknown states, the states of the sum are unknown."""
    states = None
    if one.states is not None and other.states is not None:
        names = States.__dataclass_fields__
        states = States(**{name: getattr(one.states, name) + getattr(other.states, name) for name in names})
    return ProgressThen(
        documents=one.documents + other.documents,
        bytes=one.bytes + other.bytes,
        requests=one.requests + other.requests,
        states=states,
    )


def _read(at: dt.datetime, *, now: dt.datetime) -> PartitionMinute:
    return PartitionMinute(
        first=find_first_minute(),
        then=read_cluster_then(at),
        events=read_events_around(at),
        large_events=read_large_events(at.date()),
        day=read_day(at.date(), now=now),
    )


def _read_elsewhere(at: dt.datetime) -> PartitionMinute:
    seen = _read(at, now=read_clock())
    if seen.then is None:
        return seen
    numbers: Mapping[int, int] = numbers_of({job.id for job in seen.then.jobs})
    jobs = [replace(job, id=numbers[job.id]) for job in seen.then.jobs if job.id in numbers]
    return replace(seen, then=replace(seen.then, jobs=jobs))
