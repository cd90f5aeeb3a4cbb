"""
Proves that the overview shows progress over a period, charges of all jobs, failing jobs first, and the next starts.
"""

import datetime as dt

import pytest
from django.utils import timezone

from jobs.checks.job_options import store_windows
from jobs.lifecycle.document import Stage
from jobs.lifecycle.schedule import Window
from jobs.models import Charge, Job, JobCounter, Outcome, Progress
from jobs.queries.progress import SPANS, read_progress
from jobs.ui.progress_screen import progress_screen
from jobs.ui.topics import is_topic, overview_topic, read_screen
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.factories import make_job

NOW = dt.datetime(2030, 5, 17, 12, 30, 30, tzinfo=dt.UTC)

pytestmark = pytest.mark.django_db


def store_progress(ago, *, step=60, job_id=0, now=NOW, **facts):
    at = (now - ago).replace(second=0, microsecond=0)
    Progress.objects.create(job_id=job_id, step=step, at=at, **facts)


def test_a_period_adds_up_stored_steps_of_any_length():
    store_progress(dt.timedelta(minutes=3), documents=120, bytes=1_000, requests=130)
    store_progress(dt.timedelta(minutes=3), documents=7, job_id=5)
    store_progress(dt.timedelta(days=2), step=300, documents=300)
    store_progress(dt.timedelta(days=20), step=3600, documents=3_600)

    sums = {name: sum(step.documents for step in read_progress(span, now=NOW)) for name, span in SPANS.items()}

    assert sums == {"5min": 120, "1h": 120, "24h": 120, "7d": 420, "30d": 4_020}
    assert sum(step.documents for step in read_progress(SPANS["1h"], now=NOW, job_id=5)) == 7
    (minute,) = [step for step in read_progress(SPANS["1h"], now=NOW) if step.documents]
    assert (minute.documents_per_second, minute.bytes, minute.requests) == (2.0, 1_000, 130)


def test_each_period_has_equal_steps_up_to_now():
    for span in SPANS.values():
        steps = read_progress(span, now=NOW)
        assert len(steps) * span.step == span.length
        assert steps[-1].at <= NOW < steps[-1].at + span.step


def test_the_states_of_a_step_are_those_of_its_last_sample():
    store_progress(dt.timedelta(minutes=2), waiting=9, active=1, indexed=5, unchanged=0, failed=2, excluded=0)
    store_progress(dt.timedelta(minutes=1), waiting=4, active=1, indexed=10, unchanged=0, failed=2, excluded=0)

    last_but_one, present = read_progress(SPANS["5min"], now=NOW)[-2:]

    assert (last_but_one.states.waiting, last_but_one.states.indexed) == (4, 10)
    # The present minute has no sample yet.
    assert present.states == last_but_one.states


@pytest.mark.parametrize("span", SPANS)
def test_the_page_can_show_each_period(span):
    store_progress(
        dt.timedelta(minutes=1),
        now=timezone.now(),
        documents=60,
        waiting=4,
        active=0,
        indexed=6,
        unchanged=0,
        failed=0,
        excluded=0,
    )

    shown = client_of("viewer").get("/", {"span": span})

    assert shown.status_code == 200
    assert f'<a href="?span={span}#progress" aria-current="page">' in " ".join(shown.content.decode().split())
    assert is_topic(overview_topic(span))
    screen = read_screen(overview_topic(span))
    assert screen["documents_in_span"] == "60"
    assert screen["states_says"] == "at most 10 documents of running jobs"
    assert len(screen["stack_waiting"].split()) == 2 * len(screen["progress"])


def test_the_line_of_a_steady_crawl_ends_with_the_last_whole_minute():
    now = NOW.replace(second=5)
    for minute in range(1, 6):
        store_progress(dt.timedelta(minutes=minute), now=now, documents=60)

    screen = progress_screen(read_progress(SPANS["5min"], now=now), now=now)

    heights = {point.split(",")[1] for point in screen["documents_line"].split()}
    assert heights == {"1.0"}
    assert screen["documents_says"].endswith("at most 1.0")


def test_documents_of_the_present_minute_raise_the_line_and_its_peak():
    now = NOW.replace(second=20)
    store_progress(dt.timedelta(minutes=1), now=now, documents=40)
    store_progress(dt.timedelta(0), now=now, documents=360, bytes=80_000)

    screen = progress_screen(read_progress(SPANS["1h"], now=now), now=now)

    assert screen["documents_says"] == "documents: 0.11 a second on average, at most 5.0"
    assert screen["bytes_says"] == "read: 22 B a second on average, at most 1.0 kB"
    assert screen["documents_line"].split()[-1] == "300.0,1.0"


def run_many(number, **facts):
    """Make running jobs that started one after the other, with three documents each."""
    one = make_job("first")
    Job.objects.filter(pk=one.pk).update(phase="active", run_no=1, started_at=NOON)
    usual = {"repository": one.repository, "phase": "active", "run_no": 1}
    many = [Job(name=f"job {n}", started_at=NOON + dt.timedelta(seconds=n), **usual) for n in range(1, number)]
    Job.objects.bulk_create(many)
    ended = {"measure": "stage", "stage": Stage.DONE, "outcome": Outcome.INDEXED, "code": "200"}
    JobCounter.objects.bulk_create(JobCounter(job_id=job.pk, run_no=1, amount=3, **ended) for job in (one, *many))
    return one


@pytest.mark.parametrize("number", [60, 210])
def test_the_overview_counts_more_active_runs_than_it_lists(number):
    run_many(number)

    screen = read_screen("overview")

    assert (screen["jobs_running"], len(screen["jobs"])) == (str(number), 50)
    added_up = min(number, 200)
    assert int(screen["indexed"]) >= 3 * added_up
    assert ("of 210 active runs" in screen["at_least"]) == (number > 200)


def test_an_unknown_period_is_not_found():
    assert client_of("viewer").get("/", {"span": "1y"}).status_code == 404


def test_failing_jobs_come_first_and_the_next_starts_are_listed():
    make_job(name="fine")
    make_job(name="broken")
    Job.objects.update(started_at=timezone.now(), ended_at=timezone.now(), phase="inactive", run_end="finished")
    Job.objects.filter(name="broken").update(run_end="error", started_at=timezone.now() - dt.timedelta(days=1))
    soon = Job.objects.get(name="fine")
    store_windows(soon, [Window(hours=(3,), duration=dt.timedelta(hours=1))])
    Job.objects.filter(pk=soon.pk).update(start_method="window_begin", schedule_due_at=timezone.now())

    screen = read_screen("overview")

    assert [row["name"] for row in screen["jobs"]] == ["broken", "fine"]
    assert [row["name"] for row in screen["next_starts"]] == ["fine"]


def test_the_waiting_time_of_all_jobs_leads_to_the_lists_behind_its_causes():
    at = timezone.now() - dt.timedelta(minutes=1)
    for cause, seconds in (("back_off", 30), ("paused", 20), ("no_worker", 10)):
        Charge.objects.create(subject=0, subject_id=0, step=60, at=at, cause=cause, seconds=seconds)

    rows = read_screen("overview")["charges"]

    assert [(row["cause"], row["charged"], row["address"]) for row in rows] == [
        ("backing off", "50 %", "/hosts/?state=backing_off"),
        ("paused", "33 %", "/jobs/?phase=running"),
        ("no worker", "17 %", "/nodes/"),
    ]
