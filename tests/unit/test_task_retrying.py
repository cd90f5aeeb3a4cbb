"""Proves that retry policies give the same moments and reasons as Recruiter's table. The tests set the clock."""

import datetime as dt

import pytest

from nodes.errors import Invalid
from nodes.tasks.retrying import (
    LONGEST_DELAY,
    MOST_CRASHES,
    Archive,
    Exponential,
    Failure,
    Retry,
    TimeTable,
    Why,
    decide,
    names_of,
    read_policy,
)
from tests.support.tables import each_row

CREATED = dt.datetime(2026, 6, 1, 12, tzinfo=dt.UTC)
NEVER = {"policy": "never"}


def consequence_of(attempts, stored, *, age=0.0, raised=ValueError, crashes=0):
    """
    Return the consequence of a failed attempt: seconds until the next attempt, or the reason for no further attempt.
    """
    now = CREATED + dt.timedelta(seconds=age)
    failure = Failure(classes=names_of(raised), attempts=attempts, created_at=CREATED, crashes=crashes)
    match decide(read_policy(stored), failure, now=now):
        case Retry(at):
            return (at - now).total_seconds()
        case Archive(why):
            return why


def is_last(attempts, stored, *, age=0.0):
    now = CREATED + dt.timedelta(seconds=age)
    return read_policy(stored).is_last(attempts=attempts, created_at=CREATED, now=now)


def test_policy_never_ends_the_task_after_its_first_failure():
    assert consequence_of(1, NEVER) == Why.NOT_SCHEDULED_BY_RETRY_POLICY
    assert is_last(1, NEVER)


@each_row(("attempts", "then", "last"), [(1, 60, False), (2, 60, False), (3, Why.TRIED_TOO_MANY_TIMES, True)])
def test_policy_n_times_retries_n_times_at_its_interval(attempts, then, last):
    twice = {"policy": "times", "times": 2}

    assert consequence_of(attempts, twice) == then
    assert is_last(attempts, twice) is last


@each_row(("attempts", "then"), [(1, 5), (2, 10), (3, 20), (7, 320), (101, Why.TRIED_TOO_MANY_TIMES)])
def test_exponential_delays_double_until_the_last_retry(attempts, then):
    assert consequence_of(attempts, {"policy": "exponential", "times": 100, "seconds": 5}) == then


def test_an_exponential_delay_stops_growing_at_a_year():
    assert consequence_of(100, {"policy": "exponential", "times": 100, "seconds": 5}) == LONGEST_DELAY


def test_an_exponential_policy_for_an_interval_has_its_number_of_retries():
    assert read_policy({"policy": "exponential", "interval": 1025, "seconds": 1}) == Exponential(times=10, seconds=1)


def test_policy_forever_has_no_last_retry():
    assert consequence_of(9_999, {"policy": "forever", "seconds": 7}) == 7
    assert not is_last(9_999, {"policy": "forever"})


@each_row(
    ("age", "then", "last"),
    [
        (0, 10, False),
        (599, 10, False),
        (600, 60, False),
        (7_199, 60, False),
        (7_200, Why.NOT_SCHEDULED_BY_RETRY_POLICY, True),
    ],
)
def test_a_time_table_retries_by_the_age_of_the_task(age, then, last):
    table = {"policy": "time_table", "rows": [{"within": 600, "every": 10}, {"within": 7_200, "every": 60}]}

    assert consequence_of(1, table, age=age) == then
    assert is_last(1, table, age=age) is last


def test_the_default_time_table_is_that_of_recruiter():
    table = {"policy": "time_table"}

    assert [consequence_of(1, table, age=age) for age in (299, 3_599, 86_399)] == [60, 300, 3_600]
    assert consequence_of(1, table, age=86_400) == Why.NOT_SCHEDULED_BY_RETRY_POLICY


def test_a_time_table_estimates_the_number_of_its_retries():
    assert TimeTable().retries() == 300 // 60 + 3_300 // 300 + 82_800 // 3_600


BY_EXCEPTION = {
    "policy": "by_exception",
    "rules": [
        {"exceptions": ["FileNotFoundError"], "then": {"policy": "times", "times": 1, "seconds": 1}},
        {"exceptions": ["builtins.OSError"], "then": {"policy": "times", "times": 1, "seconds": 2}},
    ],
}


@each_row(("raised", "then"), [(FileNotFoundError, 1), (PermissionError, 2), (ValueError, Why.NON_RETRIABLE_EXCEPTION)])
def test_the_first_rule_that_names_a_class_of_the_exception_decides(raised, then):
    assert consequence_of(1, BY_EXCEPTION, raised=raised) == then


def test_policies_by_exception_are_at_the_last_retry_if_all_of_them_are():
    mixed = {
        **BY_EXCEPTION,
        "rules": [*BY_EXCEPTION["rules"], {"exceptions": ["Exception"], "then": {"policy": "forever"}}],
    }

    assert is_last(2, BY_EXCEPTION)
    assert not is_last(2, mixed)


@each_row(("raised", "then"), [(ConnectionError, 60), (KeyError, Why.NON_RETRIABLE_EXCEPTION)])
def test_a_filtered_policy_retries_only_its_exceptions(raised, then):
    filtered = {"policy": "filtered", "exceptions": ["OSError"], "then": {"policy": "times", "times": 3}}

    assert consequence_of(1, filtered, raised=raised) == then


def test_a_filtered_policy_without_exceptions_retries_all():
    assert consequence_of(1, {"policy": "filtered", "then": {"policy": "times", "times": 3}}, raised=KeyError) == 60


def test_no_policy_retries_a_task_that_lost_several_workers_in_a_row():
    assert consequence_of(9, {"policy": "forever"}, crashes=MOST_CRASHES - 1) == 60
    assert consequence_of(9, {"policy": "forever"}, crashes=MOST_CRASHES) == Why.TRIED_TOO_MANY_TIMES


@each_row(
    ("stored", "path"),
    [
        (None, ""),
        ("never", ""),
        ({}, "policy"),
        ({"policy": "often"}, "policy"),
        ({"policy": ["times"]}, "policy"),
        ({"policy": "never", "seconds": 1}, "seconds"),
        ({"policy": "times"}, "times"),
        ({"policy": "times", "times": True}, "times"),
        ({"policy": "times", "times": 1, "seconds": -1}, "seconds"),
        ({"policy": "times", "times": 1, "seconds": float("nan")}, "seconds"),
        ({"policy": "exponential", "times": 1, "interval": 9}, "interval"),
        ({"policy": "exponential", "interval": 1, "seconds": 9}, "interval"),
        ({"policy": "forever", "seconds": 0}, "seconds"),
        ({"policy": "time_table", "rows": []}, "rows"),
        ({"policy": "time_table", "rows": [{"within": -5, "every": 1}]}, "rows.0.within"),
        ({"policy": "time_table", "rows": [{"within": 5, "every": 0}]}, "rows.0.every"),
        ({"policy": "time_table", "rows": [{"within": 5, "every": 6}]}, "rows.0.every"),
        ({"policy": "time_table", "rows": [{"within": 5, "every": 1}, {"within": 5, "every": 1}]}, "rows.1.within"),
        ({"policy": "by_exception"}, "rules"),
        ({"policy": "by_exception", "rules": []}, "rules"),
        ({"policy": "by_exception", "rules": [{"exceptions": ["OSError"]}]}, "rules.0"),
        ({"policy": "by_exception", "rules": [{"exceptions": [], "then": NEVER}]}, "rules.0.exceptions"),
        ({"policy": "by_exception", "rules": [{"exceptions": ["A"], "then": {}}]}, "rules.0.then.policy"),
        ({"policy": "filtered", "exceptions": [7], "then": NEVER}, "exceptions"),
        ({"policy": "filtered"}, "then"),
    ],
)
def test_an_invalid_part_of_a_policy_is_named(stored, path):
    with pytest.raises(Invalid) as refused:
        read_policy(stored)

    assert list(refused.value.problems) == [path]


def test_policies_nest_only_a_few_times():
    stored = NEVER
    for _ in range(50):
        stored = {"policy": "filtered", "then": stored}

    with pytest.raises(Invalid):
        read_policy(stored)
