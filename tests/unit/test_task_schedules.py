"""Proves that schedules of templates give the right moments, even when clocks are set forward or back."""

import datetime as dt

import pytest

from nodes.errors import Invalid
from nodes.tasks.schedules import due_moment, next_moment, next_moments, read_schedule
from tests.support.tables import each_row


def utc(text):
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


BERLIN = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}


@each_row(
    ("expression", "expected"),
    [
        ("10 * * * *", "2019-01-15 15:10"),
        ("14 2 * * *", "2019-01-16 02:14"),
        ("18 10 15 * *", "2019-02-15 10:18"),
        ("18 10 15 8 *", "2019-08-15 10:18"),
        ("18 10 * * 2", "2019-01-22 10:18"),
    ],
)
def test_a_cron_expression_gives_the_next_moment(expression, expected):
    assert next_moment(read_schedule({"cron": expression}), after=utc("2019-01-15 15:00")) == utc(expected)


def test_a_clock_that_is_set_forward_skips_no_run():
    runs = next_moments(read_schedule(BERLIN), after=utc("2026-03-28 00:00"), number=3)

    assert runs == [utc("2026-03-28 01:30"), utc("2026-03-29 01:00"), utc("2026-03-30 00:30")]


def test_a_clock_that_is_set_back_repeats_no_run():
    runs = next_moments(read_schedule(BERLIN), after=utc("2026-10-24 00:00"), number=3)

    assert runs == [utc("2026-10-24 00:30"), utc("2026-10-25 00:30"), utc("2026-10-26 01:30")]


@each_row("now", ["2026-10-25 01:13:29", "2026-10-25 01:30:00", "2026-10-25 01:59:59"])
def test_the_next_run_is_not_in_the_past_in_an_hour_that_a_clock_repeats(now):
    runs = next_moments(read_schedule(BERLIN), after=utc(now), number=2)

    assert runs == [utc("2026-10-26 01:30"), utc("2026-10-27 01:30")]


@each_row(
    ("expression", "zone", "change"),
    [
        ("30 2 * * *", "Europe/Berlin", "2026-03-29 01:00"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25 01:00"),
        ("0 2 * * *", "Europe/Berlin", "2026-10-25 01:00"),
        ("*/20 1-3 * * *", "America/New_York", "2026-11-01 06:00"),
        ("0 */2 * * *", "Australia/Lord_Howe", "2026-04-04 15:00"),
        ("0 0 * * *", "America/Havana", "2026-11-01 05:00"),
    ],
)
def test_the_latest_run_is_the_last_one_of_the_schedule(expression, zone, change):
    schedule, change = read_schedule({"cron": expression, "time_zone": zone}), utc(change)
    runs = next_moments(schedule, after=change - dt.timedelta(days=2), number=100)

    for minutes in range(-150, 150, 7):
        now = change + dt.timedelta(minutes=minutes, seconds=30)
        assert schedule.latest(now) == max(moment for moment in runs if moment <= now)


def test_intervals_in_minutes_count_from_a_fixed_moment():
    every_seven = read_schedule({"every_minutes": 7})
    first, second = next_moments(every_seven, after=utc("2026-06-01 12:00"), number=2)

    assert second - first == dt.timedelta(minutes=7)
    assert next_moment(every_seven, after=first - dt.timedelta(seconds=1)) == first


@each_row("stored", [{"cron": "*/5 * * * *"}, {"every_minutes": 5}])
def test_one_task_makes_up_for_all_missed_moments(stored):
    due = due_moment(read_schedule(stored), planned=utc("2026-06-01 12:05"), now=utc("2026-06-01 13:04"))

    assert due == utc("2026-06-01 13:00")


@each_row("stored", [{"cron": "*/5 * * * *"}, {"every_minutes": 5}, BERLIN])
def test_a_template_that_is_on_time_makes_the_task_of_its_moment(stored):
    schedule = read_schedule(stored)
    moment = next_moment(schedule, after=utc("2026-10-24 23:00"))

    assert due_moment(schedule, planned=moment, now=moment + dt.timedelta(seconds=1)) == moment


@each_row(
    ("stored", "path"),
    [
        (None, ""),
        ({}, ""),
        ({"cron": "* * * * *", "every_minutes": 1}, ""),
        ({"cron": "* * * *"}, "cron"),
        ({"cron": "61 * * * *"}, "cron"),
        ({"cron": 5}, "cron"),
        ({"cron": "* * * * *", "time_zone": "Mars/Olympus"}, "time_zone"),
        ({"cron": "* * * * *", "time_zone": "../../etc/passwd"}, "time_zone"),
        ({"every_minutes": 0}, "every_minutes"),
        ({"every_minutes": True}, "every_minutes"),
        ({"every_minutes": 5, "time_zone": "UTC"}, "time_zone"),
        ({"hours": 1}, "hours"),
    ],
)
def test_an_invalid_part_of_a_schedule_is_named(stored, path):
    with pytest.raises(Invalid) as refused:
        read_schedule(stored)

    assert list(refused.value.problems) == [path]
