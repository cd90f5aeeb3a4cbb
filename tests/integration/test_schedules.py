"""Proves that pages and the API show skipped windows of schedules, and the calendar of runs and starts."""

import datetime as dt

import pytest

from jobs.lifecycle.job import StartMethod
from jobs.lifecycle.schedule import Window
from jobs.models import Job, Run
from jobs.queries.jobs.schedule_calendar import read_calendar
from jobs.queries.jobs.schedules import SkipReason, list_schedules
from tests.integration.test_pages import page_client
from tests.support.api import assert_problem, client_of
from tests.support.cluster import NOON
from tests.support.factories import make_job
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

DAY = dt.timedelta(days=1)
HOUR = dt.timedelta(hours=1)
NIGHTLY = [Window(hours=(22,))]


def scheduled(name, windows, *, method=StartMethod.WINDOW_BEGIN, **facts):
    job = make_job(name, windows=windows, start_method=method)
    Job.objects.filter(pk=job.pk).update(**facts)
    return job


def skipped(*, now):
    (line,) = list_schedules(now=now).lines
    return [(one.at, one.reason) for one in line.skipped]


def ended_run(job, *, at, **facts):
    run_no = Run.objects.filter(job=job).count() + 1
    return Run.objects.create(job=job, run_no=run_no, started_at=at, ended_at=at + HOUR, run_end="finished", **facts)


def test_a_window_that_opened_during_the_pause_was_skipped():
    scheduled("nightly", NIGHTLY, schedule_checked_at=NOON, schedule_paused_at=NOON + HOUR, schedule_paused_by="ann")

    assert skipped(now=NOON + 2 * HOUR) == []
    assert skipped(now=NOON + 11 * HOUR) == [(NOON + 10 * HOUR, SkipReason.PAUSED)]


def test_a_window_that_opens_during_a_run_counts_as_skipped():
    running = {"phase": "active", "started_at": NOON, "schedule_checked_at": NOON, "run_no": 1}
    job = scheduled("nightly", NIGHTLY, **running)

    assert skipped(now=NOON + 11 * HOUR) == [(NOON + 10 * HOUR, SkipReason.STILL_RUNS)]
    Job.objects.filter(pk=job.pk).update(start_method=StartMethod.WINDOW_INSIDE)
    assert skipped(now=NOON + 11 * HOUR) == []


def test_a_window_before_a_change_of_the_schedule_is_not_shown_as_skipped():
    changed = NOON + 10 * HOUR + dt.timedelta(minutes=1)
    scheduled("nightly", NIGHTLY, schedule_checked_at=changed, schedule_paused_at=NOON, schedule_paused_by="ann")

    assert skipped(now=NOON + 11 * HOUR) == []


def test_the_page_and_the_api_give_the_reason_for_a_skipped_window():
    scheduled("nightly", NIGHTLY, missed_window_at=NOON)

    (row,) = page_client("viewer").get("/schedules/").context["rows"]
    (line,) = client_of("operator").get("/api/v1/schedules/").json()["results"]

    assert [(str(one["why"]), one["at"][:10]) for one in row["skipped"]] == [
        ("No manager could start the job in this window.", f"{NOON:%Y-%m-%d}")
    ]
    assert [one["reason"] for one in line["skipped"]] == ["no_manager"]
    assert (line["name"], len(line["coming"]), line["paused_at"]) == ("nightly", 5, None)


def test_the_calendar_has_past_runs_and_future_starts():
    job = scheduled("nightly", NIGHTLY)
    scheduled("hourly", [Window(minutes=(30,))])
    paused = scheduled("paused", NIGHTLY, schedule_paused_at=NOON, schedule_paused_by="ann")
    run = ended_run(job, at=NOON - DAY)

    found = read_calendar((NOON - DAY).date(), days=3, shown=5, now=NOON)

    yesterday, today, tomorrow = found.days
    assert ([one.id for one in yesterday.runs], yesterday.starts) == ([run.pk], [])
    assert [(one.job_name, one.at, one.starts) for one in today.starts] == [
        ("hourly", NOON + HOUR / 2, 12),
        ("nightly", NOON + 10 * HOUR, 1),
    ]
    assert [one.job_name for one in tomorrow.starts] == ["hourly", "nightly"]
    assert paused.name not in [one.job_name for one in today.starts]
    assert found.is_complete


def test_the_calendar_shows_the_newest_runs_of_a_day_and_marks_a_cut():
    job = make_job("docs")
    runs = [ended_run(job, at=NOON - DAY + n * dt.timedelta(minutes=1)) for n in range(4)]

    (day,) = read_calendar((NOON - DAY).date(), days=1, shown=3, now=NOON).days

    assert [run.id for run in day.runs] == [run.pk for run in runs[1:]]
    assert day.more_runs


def test_the_calendar_cuts_a_schedule_with_very_many_starts_with_a_note():
    scheduled("restless", [Window(hours=tuple(range(24)), minutes=tuple(range(60)))])

    found = read_calendar(NOON.date(), days=7, shown=5, now=NOON)

    assert sum(start.starts for day in found.days for start in day.starts) == 62
    assert not found.is_complete


@each_row(("unit", "days"), [("week", 7), ("month", 42)])
def test_a_week_and_a_month_are_shown_in_whole_weeks_from_monday(unit, days):
    page = page_client("viewer").get(f"/schedules/calendar/?unit={unit}&day=2026-11-25")

    shown = page.context["days"]
    assert (len(shown), shown[0]["weekday"], shown[-1]["weekday"]) == (days, 0, 6)
    assert "2026-11-25" in [day["date"] for day in shown]


def test_the_page_of_the_calendar_leads_to_runs_and_to_their_results():
    run = ended_run(make_job("docs"), at=dt.datetime(2026, 11, 25, 7, 15, tzinfo=dt.UTC), failed=3)

    page = page_client("viewer").get("/schedules/calendar/?day=2026-11-25")

    (entry,) = [entry for day in page.context["days"] for entry in day["entries"]]
    assert (entry["at"], entry["tone"], entry["address"]) == ("07:15", "failed", f"/runs/{run.pk}/")
    assert entry["says"] == "run 1: finished"


@each_row("query", ["day=tomorrow", "day=1999-12-31", "day=9999-12-31", "unit=year"])
def test_an_invalid_day_of_the_calendar_is_refused_and_this_week_is_shown(query):
    page = page_client("viewer").get(f"/schedules/calendar/?{query}")

    assert page.status_code == 400
    assert len(page.context["days"]) == 7
    assert page.context["problems"]


def test_the_api_has_the_calendar_and_refuses_invalid_days():
    run = ended_run(make_job("docs"), at=dt.datetime(2026, 11, 25, 7, 15, tzinfo=dt.UTC))
    client = client_of("viewer")

    days = client.get("/api/v1/schedules/calendar/?first=2026-11-24&days=3").json()["days"]

    assert [[one["id"] for one in day["runs"]] for day in days] == [[], [run.pk], []]
    for query, field in (("days=7", "first"), ("first=2026-11-24&days=43", "days"), ("first=9999-12-31", "first")):
        assert_problem(client.get(f"/api/v1/schedules/calendar/?{query}"), 400, "invalid", fields=[field])
