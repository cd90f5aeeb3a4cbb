"""Proves the records of runs, and the pages that list runs, jobs and schedules."""

import datetime as dt
from zoneinfo import ZoneInfo

import pytest
from django.utils import timezone

from jobs.lifecycle.job import Phase, RunEnd
from jobs.lifecycle.schedule import Window
from jobs.models import Job, JobCounter, Outcome, Run
from jobs.state.run_rows import KEPT
from jobs.state.transitions import make_transition
from jobs.verbs import control
from tests.integration.test_pages import count, page_client
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.factories import make_job
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

HOUR = dt.timedelta(hours=1)


def begin(job, *, at=NOON, made_by="ann"):
    """Let a run of the job begin, as an operator and the main manager do."""
    control.start(job.pk, made_by=made_by, now=at)
    job.refresh_from_db()
    make_transition(job.pk, "prepare", made_by="manager", now=at, facts={"run_no": job.run_no + 1})
    make_transition(job.pk, "activate", made_by="manager", now=at)
    job.refresh_from_db()
    return job


def end(job, *, at=NOON + HOUR):
    """Abort the run of the job, and end it."""
    control.abort(job.pk, made_by="ann", now=at)
    facts = {"ended_at": at, "run_end": RunEnd.ABORTED}
    make_transition(job.pk, "end aborted", made_by="manager", now=at, facts=facts)
    Job.objects.filter(pk=job.pk).update(phase=Phase.INACTIVE)
    job.refresh_from_db()


def rows(page):
    return [(row["job"], row["run"], row["result"], row["processed"]) for row in page.context["rows"]]


def test_a_run_has_a_row_with_its_author_its_end_and_its_counts():
    job = begin(make_job("docs"))
    count(job, 5)
    count(job, 2, outcome=Outcome.FAILED, code="500")
    JobCounter.objects.create(job_id=job.pk, run_no=job.run_no, measure="bytes", amount=700)
    open_row = Run.objects.get()

    end(job)

    row = Run.objects.get()
    assert (open_row.ended_at, open_row.started_by, open_row.run_no) == (None, "ann", job.run_no)
    assert (row.started_at, row.ended_at, row.run_end) == (NOON, NOON + HOUR, "aborted")
    assert (row.indexed, row.failed, row.excluded, row.bytes) == (5, 2, 0, 700)


def test_the_counts_of_a_run_stay_when_the_next_run_moves_its_documents():
    job = begin(make_job("docs"))
    count(job, 5)
    end(job)
    count(job, -5)

    begin(job, at=NOON + 2 * HOUR)

    assert list(Run.objects.order_by("run_no").values_list("run_no", "indexed")) == [(1, 5), (2, 0)]


def test_a_run_that_was_aborted_before_its_preparation_leaves_one_row():
    job = make_job("docs")
    control.start(job.pk, made_by="ann", now=NOON)
    end(job)

    begin(job, at=NOON + 2 * HOUR)

    assert Run.objects.get().started_at == NOON + 2 * HOUR


def test_the_newest_runs_of_a_job_are_kept():
    job = begin(make_job("docs"))
    Job.objects.filter(pk=job.pk).update(run_no=KEPT + 1)
    job.refresh_from_db()
    end(job)

    begin(job, at=NOON + 2 * HOUR)

    assert Run.objects.filter(run_no=1).count() == 0


def test_the_page_of_runs_lists_all_jobs_with_the_newest_run_first():
    first, second = make_job("docs"), make_job("shop")
    count(begin(first), 3)
    end(first)
    count(begin(second, at=NOON + HOUR), 7)

    page = page_client("viewer").get("/runs/")

    assert rows(page) == [("shop", "run 1", "running", "7"), ("docs", "run 1", "aborted", "3")]


@each_row(
    ("query", "shown"),
    [
        ("end=running", ["shop"]),
        ("end=aborted", ["docs"]),
        ("end=error", []),
        ("after=1.1", []),
        ("end=no", ["shop", "docs"]),
    ],
)
def test_runs_are_found_by_their_result(query, shown):
    job = begin(make_job("docs"))
    end(job)
    begin(make_job("shop"), at=NOON + HOUR)

    page = page_client("viewer").get(f"/runs/?{query}")

    assert [row["job"] for row in page.context["rows"]] == shown


def test_runs_are_listed_page_by_page():
    job = make_job("docs")
    Run.objects.bulk_create(Run(job=job, run_no=number, started_at=NOON + number * HOUR) for number in range(1, 61))
    client = page_client("viewer")

    first = client.get("/runs/")
    second = client.get(f"/runs/?{first.context['next_query']}")

    numbers = [int(row["run"].removeprefix("run ")) for page in (first, second) for row in page.context["rows"]]
    assert numbers == list(range(60, 0, -1))
    assert second.context.get("next_query") is None


def test_the_page_of_jobs_lists_all_jobs_by_name_and_can_be_searched():
    make_job("daily shop")
    running = begin(make_job("daily docs"))
    client = page_client("viewer")

    def names(query):
        return [row["name"] for row in client.get(f"/jobs/?{query}").context["screen"]["jobs"]]

    assert names("") == ["daily docs", "daily shop"]
    assert names("name=sho") == ["daily shop"]
    assert names("phase=running") == [running.name]
    assert names("phase=idle") == ["daily shop"]
    assert names("after=daily+docs") == ["daily shop"]


def test_the_page_of_schedules_shows_the_next_five_starts_in_words():
    make_job("by hand")
    # A time of the day that is later than the next start of the other job, whatever the time is now.
    hour = (timezone.now().astimezone(ZoneInfo("Europe/Berlin")).hour + 3) % 24
    make_job("nightly", windows=[Window(hours=(hour,), time_zone="Europe/Berlin")], start_method="window_begin")
    make_job("hourly", windows=[Window(minutes=(30,))], start_method="window_inside")

    listed = page_client("viewer").get("/schedules/").context["rows"]

    assert [row["job"] for row in listed] == ["hourly", "nightly"]
    assert listed[1]["next"].endswith(f"{hour:02}:00 Europe/Berlin")
    assert len(listed[1]["later"]) == 4
    assert str(listed[1]["overlap"]).startswith("Skip")


def test_operators_pause_and_resume_one_schedule_or_all():
    windows = [Window(hours=(22,))]
    first = make_job("first", windows=windows, start_method="window_begin")
    make_job("second", windows=windows, start_method="window_begin")
    client = page_client("operator")

    def shown():
        return {row["job"]: row["next"] for row in client.get("/schedules/").context["rows"]}

    client.post("/schedules/pause/", {"job": first.pk})
    one = shown()
    client.post("/schedules/pause/", {"job": "all"})
    none = shown()
    client.post("/schedules/resume/", {"job": "all"})

    assert one["first"] == "paused"
    assert one["second"] != "paused"
    assert set(none.values()) == {"paused"}
    assert "paused" not in shown().values()
    assert [event.message for event in first.events.order_by("id")][-2:] == [
        "its schedule was paused",
        "its schedule was resumed",
    ]


def test_viewers_pause_no_schedule():
    job = make_job("first", windows=[Window(hours=(22,))], start_method="window_begin")
    client = page_client("viewer")

    assert client.post("/schedules/pause/", {"job": job.pk}).status_code == 403
    assert "Pause" not in client.get("/schedules/").content.decode()


def test_the_last_runs_of_a_job_are_drawn_as_bars_by_result_and_size():
    job = make_job("docs")
    for number, (run_end, indexed, failed) in enumerate(
        [("finished", 80, 0), ("error", 0, 0), ("finished", 0, 10), ("finished", 40, 0)], start=1
    ):
        facts = {"started_at": NOON, "ended_at": NOON, "run_end": run_end, "indexed": indexed, "failed": failed}
        Run.objects.create(job=job, run_no=number, **facts)

    (row,) = page_client("viewer").get("/jobs/").context["screen"]["jobs"]

    assert [mark["tone"] for mark in row["marks"]] == ["indexed", "failed", "failed", "indexed"]
    assert [mark["size"] for mark in row["marks"]] == ["8", "1", "2", "5"]
    assert row["marks"][0]["says"] == "run 1: finished, 80 documents"


def test_the_grid_has_a_cell_with_a_link_for_each_of_the_last_runs():
    job, idle = make_job("docs"), make_job("idle")
    for number in range(1, 33):
        Run.objects.create(job=job, run_no=number, started_at=NOON, ended_at=NOON, run_end="finished", indexed=number)
    failed = Run.objects.get(run_no=32)
    Run.objects.filter(pk=failed.pk).update(indexed=0, failed=9)

    page = page_client("viewer").get("/runs/grid/")

    first, second = page.context["rows"]
    assert (first["job"], len(first["marks"]), second["marks"]) == ("docs", 30, [])
    assert [mark["tone"] for mark in first["marks"][-2:]] == ["indexed", "failed"]
    assert f'href="/runs/{failed.pk}/"' in page.content.decode()
    assert 'aria-label="run 32: finished, all failed, 9 documents"' in page.content.decode()
    assert idle.name in page.content.decode()


def test_a_running_run_is_drawn_with_its_present_number_of_documents():
    count(begin(make_job("docs")), 7)

    (row,) = page_client("viewer").get("/runs/grid/").context["rows"]

    assert [(mark["tone"], mark["says"]) for mark in row["marks"]] == [("working", "run 1: running, 7 documents")]


def test_the_grid_is_read_page_by_page_in_few_queries(django_assert_max_num_queries):
    for number in range(40):
        make_job(f"job {number:02}")
    client = page_client("viewer")

    with django_assert_max_num_queries(8):
        first = client.get("/runs/grid/")
    second = client.get(f"/runs/grid/?{first.context['next_query']}")

    names = [row["job"] for page in (first, second) for row in page.context["rows"]]
    assert names == [f"job {number:02}" for number in range(40)]


def test_the_api_lists_runs_with_their_counts():
    first, second = begin(make_job("docs")), begin(make_job("shop"), at=NOON + HOUR)
    count(first, 3)
    end(first)
    viewer = client_of("viewer")

    every = viewer.get("/api/v1/runs/").json()["results"]
    ended = viewer.get("/api/v1/runs/?run_end=aborted").json()["results"]

    assert [run["job"] for run in every] == [second.pk, first.pk]
    assert [(run["run_end"], run["indexed"], run["started_by"]) for run in ended] == [("aborted", 3, "ann")]
    assert viewer.get(f"/api/v1/runs/?job={second.pk}").json()["results"][0]["ended_at"] is None
