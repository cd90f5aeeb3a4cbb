"""Options of a job: its kind, intervals, schedule and limits, and their checks."""

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final, TypedDict
from zoneinfo import available_timezones

from jobs.archive.records import Format
from jobs.lifecycle import schedule
from jobs.lifecycle.job import HopMode, Kind, StartMethod
from jobs.models import Job, ScheduleWindow
from jobs.models.schedule import FIELDS
from jobs.partitions import this_partition
from nodes.lifecycle import CLUSTER_SCOPE

INTERVALS: Final = ("recrawl_after", "recrawl_at_most", "expire_after", "reseed_after")
MOST_WINDOWS: Final = 100
LONGEST: Final = dt.timedelta(days=36_500)
_MOST_HOPS: Final = 1_000_000
# Largest number of versions of each document that a job may keep.
MOST_VERSIONS: Final = 100
# Settings of the delete guard of a job, which may change while it runs.
GUARD: Final = ("guard_percent", "guard_host_percent", "guard_documents", "guard_seeds")


class JobOptions(TypedDict, total=False):
    """New values for columns of a job, by the names of the columns. A column without a new value keeps its value."""

    max_documents: int | None
    priority: int
    kind: Kind
    recrawl_after: dt.timedelta | None
    recrawl_at_most: dt.timedelta | None
    expire_after: dt.timedelta | None
    reseed_after: dt.timedelta | None
    hop_mode: HopMode
    hop_limits: dict[str, int]
    guard_percent: int | None
    guard_host_percent: int | None
    guard_documents: int
    guard_seeds: bool
    archive: str
    kept_versions: int
    access_rules: list[dict[str, Any]]
    freshness_goals: list[dict[str, Any]]
    start_method: StartMethod


def check_options(
    job: Job, *, windows: Sequence[schedule.Window], link_types: Sequence[str], now: dt.datetime
) -> dict[str, list[str]]:
    """
    Return the problems of a job's options, by field. Problems of windows are under `windows`, or under `windows.0` for
    the first window. Problems of hop limits are named in the same way.
    """
    problems = {**_check_intervals(job), **_check_windows(windows, now=now), **_check_hops(job.hop_limits, link_types)}
    if job.max_documents is not None and not 1 <= job.max_documents < 2**53:
        problems["max_documents"] = [f"{job.max_documents} is not a valid document limit. Write a whole number from 1."]
    if not 1 <= job.priority <= 10:
        problems["priority"] = ["Write a whole number from 1 (served first) to 10 (served last)."]
    if job.guard_percent is not None and not 0 <= job.guard_percent <= 100:
        problems["guard_percent"] = ["Write a whole number from 0 to 100. Without a number, the delete guard is off."]
    if job.guard_host_percent is not None and not 0 <= job.guard_host_percent <= 100:
        problems["guard_host_percent"] = [
            "Write a whole number from 0 to 100. Without a number, single hosts do not count."
        ]
    if not 0 <= job.guard_documents < 2**31:
        problems["guard_documents"] = [f"Write a whole number from 0 to {2**31 - 1}."]
    if job.archive not in {"", *Format}:
        problems["archive"] = [
            f"{job.archive!r} is not an archive format. Choose {' or '.join(Format)}, or no archive."
        ]
    if not 0 <= job.kept_versions <= MOST_VERSIONS:
        problems["kept_versions"] = [f"Write a whole number from 0 to {MOST_VERSIONS}; 0 keeps no versions."]
    if job.freshness_goals and job.kind != Kind.CONTINUOUS:
        problems["freshness_goals"] = [
            "Only a continuous job can have freshness goals. Other jobs read each document once per run."
        ]
    if job.start_method != StartMethod.MANUAL and not windows:
        problems["start_method"] = ["Add a window: without one, the schedule never starts the job."]
    if job.node_scope == CLUSTER_SCOPE and this_partition.placement() is not None:
        problems |= _check_for_partitions(job)
    return problems


def _check_for_partitions(job: Job) -> dict[str, list[str]]:
    """Return the problems of a job that several partitions crawl: hops are counted in one database only."""
    problems: dict[str, list[str]] = {}
    if job.hop_limits:
        problems["hop_limits"] = [
            "A job of several partitions cannot have hop limits. Use the connector's depth limit instead."
        ]
    return problems


def store_windows(job: Job, windows: Sequence[schedule.Window]) -> None:
    """Replace the windows of a job with these, in this order."""
    job.windows.all().delete()
    ScheduleWindow.objects.bulk_create(
        ScheduleWindow(
            job=job,
            position=position,
            time_zone=window.time_zone,
            duration=window.duration,
            minimal=window.minimal,
            **{name: list(getattr(window, name)) for name in FIELDS},
        )
        for position, window in enumerate(windows)
    )


def _check_intervals(job: Job) -> dict[str, list[str]]:
    problems: dict[str, list[str]] = {}
    for name in INTERVALS:
        span: dt.timedelta | None = getattr(job, name)
        if span is None:
            continue
        if not dt.timedelta() < span <= LONGEST:
            problems[name] = ["Write a duration greater than 0 and at most 100 years."]
        elif job.kind != Kind.CONTINUOUS:
            problems[name] = [
                "Only a continuous job can have this interval. Other jobs read each document once per run."
            ]
    most = job.recrawl_at_most
    if most is not None and not problems:
        if job.recrawl_after is None:
            problems["recrawl_at_most"] = [
                "Set `recrawl_after`, too. Without it, no document is read again, and this limit has no effect."
            ]
        elif most < job.recrawl_after:
            problems["recrawl_at_most"] = ["Write a duration of at least `recrawl_after`."]
    return problems


def _check_windows(windows: Sequence[schedule.Window], *, now: dt.datetime) -> dict[str, list[str]]:
    if len(windows) > MOST_WINDOWS:
        return {"windows": [f"A job can have at most {MOST_WINDOWS} windows."]}
    problems = {place: _why_no_window(window) for place, window in enumerate(windows)}
    wrong = {place: sentence for place, sentence in problems.items() if sentence}
    wrong = wrong or schedule.why_not_windows(windows, now=now)
    return {f"windows.{place}": [sentence] for place, sentence in wrong.items()}


def _why_no_window(window: schedule.Window) -> str:
    if window.time_zone not in time_zones():
        return f"There is no time zone {window.time_zone!r}. Write one like Europe/Berlin."
    if window.duration is not None and not dt.timedelta() < window.duration <= LONGEST:
        return "Write a duration greater than 0 and at most 100 years."
    for name, (least, most) in FIELDS.items():
        if not all(least <= number <= most for number in getattr(window, name)):
            return f"{name}: write numbers from {least} to {most}."
    return ""


@cache
def time_zones() -> frozenset[str]:
    """Return the names of all time zones."""
    return frozenset(available_timezones())


def _check_hops(limits: Mapping[str, Any], link_types: Sequence[str]) -> dict[str, list[str]]:
    problems = {}
    for link_type, most in limits.items():
        if link_type not in link_types:
            known = ", ".join(link_types) or "none"
            problems[f"hop_limits.{link_type}"] = [f"The connector has no links of this type. Known types: {known}."]
        elif isinstance(most, bool) or not isinstance(most, int) or not 0 <= most <= _MOST_HOPS:
            problems[f"hop_limits.{link_type}"] = [f"A limit is a whole number from 0 to {_MOST_HOPS}."]
    return problems
