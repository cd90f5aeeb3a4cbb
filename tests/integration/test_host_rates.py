"""
Proves the rates of a host in the last seven days: each request counts once, and is shown with the limit of its time.
"""

import datetime as dt
import html
import json
import re

import pytest

from jobs.duties.cleaning import clean
from jobs.duties.housekeep import forget_old_batches, forget_scope
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import Batch, BinHour, Turn
from jobs.queries.hosts.week import read_week
from tests.support.api import client_of
from tests.support.cluster import seconds
from tests.support.factories import make_bin, make_job, make_lane
from tests.support.stepping import Main

NOW = dt.datetime(2030, 5, 17, 12, 30, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)
THIS_HOUR = NOW.replace(minute=0)


@pytest.fixture(autouse=True)
def connected(connection):
    return connection


@pytest.fixture
def lane():
    return make_lane(make_job().seeds.get(), "a.example")


@pytest.fixture
def main(connection):
    main = Main(connection)
    main.now = NOW
    return main


def close_turn(lane, *, at, starts=5, state=Batch.State.DONE, scope="cluster", **facts):
    """Store a turn that closed at this moment, with its batch."""
    batch = Batch.objects.create(group_id=1, node_scope=scope, state=state, documents=9, created_at=at)
    usual = {"requests": 1, "gap": 1.0, "bytes_read": 1000 * starts} | facts
    return Turn.objects.create(batch=batch, lane=lane, bin=lane.bin, documents=9, closed_at=at, starts=starts, **usual)


def hours():
    return list(BinHour.objects.order_by("bin_id", "hour").values_list("hour", "starts", "bytes_read"))


def add_hour(bin_, *, ago, starts=3600, gap=1.0, **facts):
    usual = {"bytes_read": 7200 * 1000, "bytes_per_second": None} | facts
    BinHour.objects.create(bin=bin_, hour=THIS_HOUR - ago * HOUR, starts=starts, gap=gap, **usual)


# --- Counting ------------------------------------------------------------------------------------


def test_requests_are_counted_by_hour_when_their_turns_are_deleted(main, lane):
    other = make_lane(lane.seed, "b.example")
    for each, at in ((lane, NOW - HOUR), (lane, NOW - HOUR + seconds(60)), (lane, NOW - 3 * HOUR), (other, NOW - HOUR)):
        close_turn(each, at=at)

    main.step(forget_old_batches)

    assert hours() == [
        (THIS_HOUR - 3 * HOUR, 5, 5000),
        (THIS_HOUR - HOUR, 10, 10_000),
        (THIS_HOUR - HOUR, 5, 5000),
    ]
    assert not Turn.objects.exists()


def test_a_request_counts_once_and_only_with_its_turn(main, lane):
    close_turn(lane, at=NOW - HOUR)
    close_turn(lane, at=NOW - seconds(60))
    close_turn(lane, at=NOW - HOUR, state=Batch.State.SENT)

    main.step(forget_old_batches)
    main.step(forget_old_batches)
    first = hours()
    Batch.objects.update(state=Batch.State.DONE)
    main.step(forget_old_batches)

    assert first == [(THIS_HOUR - HOUR, 5, 5000)]
    assert hours() == [(THIS_HOUR - HOUR, 10, 10_000)]


def test_a_turn_without_a_request_stores_no_row(main, lane):
    close_turn(lane, at=NOW - HOUR, starts=0)

    main.step(forget_old_batches)

    assert hours() == []


def test_the_requests_of_a_one_shot_crawl_are_counted_at_its_end(connection, lane):
    close_turn(lane, at=NOW, scope="once")

    forget_scope(connection, scope="once")

    assert hours() == [(THIS_HOUR, 5, 5000)]


def test_the_limit_of_an_hour_is_the_loosest_of_its_turns(main, lane):
    close_turn(lane, at=NOW - HOUR, gap=2.0, bytes_per_second=10.0)
    close_turn(lane, at=NOW - HOUR, gap=0.5, bytes_per_second=20.0)
    main.step(forget_old_batches)
    limited = read_week(lane.bin_id, now=NOW)[-2]
    close_turn(lane, at=NOW - HOUR, gap=1.0)
    main.step(forget_old_batches)
    without_limit = read_week(lane.bin_id, now=NOW)[-2]

    assert (limited.allowed_starts_per_second, limited.allowed_bytes_per_second) == (2.0, 20.0)
    assert (without_limit.allowed_starts_per_second, without_limit.allowed_bytes_per_second) == (2.0, None)


def test_hours_before_the_last_seven_days_are_deleted(connection, lane):
    for ago in (0, 167, 168, 169, 500):
        add_hour(lane.bin, ago=ago)

    clean(connection, SUBJECTS["runs"], now=NOW)

    assert [(THIS_HOUR - hour) // HOUR for hour, _starts, _bytes in hours()] == [167, 0]


# --- Showing -------------------------------------------------------------------------------------


def test_a_week_has_each_hour_with_its_rate_and_its_limit():
    host = make_bin("a.example")
    add_hour(host, ago=0, starts=600)
    add_hour(host, ago=2, starts=1800, gap=0.0)

    week = read_week(host.pk, now=NOW)

    assert len(week) == 168
    assert week[0].at == THIS_HOUR - 167 * HOUR
    # The last ten minutes are not counted yet, so the present hour counts only twenty minutes.
    assert [(hour.seconds, hour.starts_per_second, hour.allowed_starts_per_second) for hour in week[-3:]] == [
        (3600, 0.5, None),
        (3600, 0.0, None),
        (1200, 0.5, 1.0),
    ]
    assert not week[-2].was_requested


def test_an_hour_that_has_just_begun_has_no_rate_yet():
    host = make_bin("a.example")
    add_hour(host, ago=0, starts=9)
    add_hour(host, ago=1)

    week = read_week(host.pk, now=THIS_HOUR + dt.timedelta(minutes=14))

    assert (week[-1].at, week[-1].starts_per_second) == (THIS_HOUR - HOUR, 1.0)


def test_the_page_of_a_host_and_the_api_show_the_same_rates(connection):
    host = make_bin("a.example")
    now = connection.execute("SELECT date_trunc('hour', now(), 'UTC') - interval '1 day'").fetchone()[0]
    BinHour.objects.create(bin=host, hour=now, starts=900, bytes_read=3_600_000, gap=2.0)
    client = client_of("viewer")

    page = client.get(f"/hosts/{host.pk}/").content.decode()
    shown = client.get(f"/api/v1/hosts/{host.pk}/rates/").json()["hours"]

    chart = json.loads(html.unescape(re.search(r'data-chart="([^"]*)"', page)[1]))
    assert [series["values"] for series in chart["series"]] == [
        [hour[name] for hour in shown] for name in ("starts_per_second", "allowed_starts_per_second")
    ]
    assert {hour["starts_per_second"] for hour in shown} == {0.0, 0.25}
    row = re.search(r'data-label="Requests">(.*?)</tr>', page, re.DOTALL)[1]
    assert re.findall(r"[\d.]+(?: kB)?|no limit", re.sub("<[^>]+>", " ", row)) == [
        "900",
        "0.25",
        "0.5",
        "1.0 kB",
        "no limit",
    ]


def test_a_host_without_a_request_has_no_hours():
    host = make_bin("a.example")
    client = client_of("viewer")

    assert client.get(f"/api/v1/hosts/{host.pk}/rates/").json() == {"hours": []}
    assert "The host had no request in this time." in client.get(f"/hosts/{host.pk}/").content.decode()


def test_rates_of_a_host_that_does_not_exist_are_refused():
    answer = client_of("viewer").get("/api/v1/hosts/999/rates/")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
