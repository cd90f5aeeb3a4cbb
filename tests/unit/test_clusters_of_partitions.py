"""Proves that pages about several partitions combine invariants, statistics, task lists and minutes correctly."""

import datetime as dt

from jobs.queries.cluster.all_partitions import checks_of_all
from jobs.queries.cluster.history import JobThen, ProgressThen
from jobs.queries.cluster.history_of_all import add, default_minute, jobs_of_all
from jobs.queries.cluster.page import CheckLine
from jobs.queries.progress import States
from jobs.queries.tasks import key_in_partition, sum_of_statistics
from nodes.tasks.queries import Key
from nodes.tasks.statistics import Statistics
from tests.support.tables import each_row

NOON = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC)
MINUTE = dt.timedelta(minutes=1)
FIRST, LAST = -1, 2**63 - 1


def check(found, *, at=NOON, example=""):
    return CheckLine("claims", "says", at, found, example)


@each_row(
    ("a", "b", "found", "checked_at", "example"),
    [
        (check(0), check(0, at=NOON - MINUTE), 0, NOON - MINUTE, ""),
        (check(0), check(2, example="row 5"), 2, NOON, "b: row 5"),
        (check(1, example="row 4"), check(2, example="row 5"), 3, NOON, "a: row 4 b: row 5"),
        (check(0), check(None, at=None), None, None, ""),
        (check(0), check(None), None, NOON, ""),
        # A violation in one partition makes the invariant violated, even if the state of other partitions is unknown.
        (check(None, at=None), check(2), 2, NOON, ""),
    ],
)
def test_an_invariant_of_all_partitions_holds_if_it_holds_in_each(a, b, found, checked_at, example):
    (seen,) = checks_of_all({"a": [a], "b": [b]})

    assert (seen.found, seen.checked_at, seen.example) == (found, checked_at, example)


def statistics(*, averaged, latency, **facts):
    usual = dict.fromkeys(("queued", "running", "postponed", "zombies", "workers", "throughput"), 1)
    return Statistics(
        at=NOON, group="", **{**usual, **facts}, averaged=averaged, latency=latency, execution_time=latency
    )


def test_averages_of_partitions_are_weighted_by_their_ended_tasks():
    parts = [
        statistics(averaged=30, latency=1.0, queued=5),
        statistics(averaged=10, latency=5.0),
        statistics(averaged=0, latency=None),
    ]

    found = sum_of_statistics(parts)

    assert (found.queued, found.workers, found.averaged, found.latency) == (7, 3, 40, 2.0)
    assert sum_of_statistics([parts[2], parts[2]]).latency is None


@each_row(
    ("partition", "is_downwards", "number"),
    [
        ("b", False, 7),
        # Tasks with the same date follow by their partition: tasks of `a` were on the page before, tasks of `c` are on
        # this page.
        ("a", False, LAST),
        ("c", False, FIRST),
        ("a", True, FIRST),
        ("c", True, LAST),
    ],
)
def test_the_next_page_begins_after_the_last_task_in_each_partition(partition, is_downwards, number):
    key = key_in_partition(Key(NOON, 7, "b"), partition, is_downwards=is_downwards)

    assert (key.at, key.number) == (NOON, number)


@each_row(
    ("last", "is_of_all", "expected"),
    [
        (NOON - 5 * MINUTE, False, NOON - 5 * MINUTE),
        (NOON - 5 * MINUTE, True, NOON - MINUTE),
        (NOON, True, NOON),
        (None, True, NOON),
    ],
)
def test_the_default_minute_of_all_partitions_ignores_a_late_partition(last, is_of_all, expected):
    assert default_minute(last, present=NOON, is_of_all=is_of_all) == expected


class Part:
    def __init__(self, *jobs):
        self.jobs = jobs


def job(number, documents, states):
    return JobThen(number, f"job {number}", "Running", 1, 1, ProgressThen(documents, 10, 1, states))


def test_a_job_of_several_partitions_is_one_line_with_the_sum_of_counts():
    a, b = job(1, 60, States(waiting=1, indexed=2)), job(1, 30, States(waiting=3, failed=4))

    first, second = jobs_of_all([Part(a), Part(b, job(2, 5, None))])

    assert (first.id, first.progress.documents, first.progress.bytes) == (1, 90, 20)
    assert first.progress.states == States(waiting=4, indexed=2, failed=4)
    assert (second.id, second.progress.documents) == (2, 5)


def test_states_that_one_partition_did_not_sample_are_unknown():
    assert add(ProgressThen(1, states=States()), ProgressThen(2)).states is None
