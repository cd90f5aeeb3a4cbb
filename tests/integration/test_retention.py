"""Proves that old rows are shown by subject, and deleted by tasks, or by a main manager if no task worker exists."""

import datetime as dt

import pytest
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connection as django_connection

from jobs.duties.cleaning import clean, look
from jobs.duties.retention_subjects import KEPT_RUNS, SUBJECTS
from jobs.models import Counter, JobCounter, JobEvent
from jobs.queue.counting.counters import read_run
from jobs.retention import kinds
from nodes.tasks.context import TaskContext
from nodes.tasks.models import TaskTemplate
from tests.support.api import client_of, make_documents, make_job

pytestmark = pytest.mark.django_db

NOW = dt.datetime.now(tz=dt.UTC)
DAY = dt.timedelta(days=1)


def connected():
    django_connection.ensure_connection()
    return django_connection.connection


def write_journal(*ages):
    for age in ages:
        JobEvent.objects.create(job_name="old", at=NOW - age * DAY, kind="note", made_by="a test", message=str(age))


def set_retention(settings, **days):
    values = {f"crawl.{name}": value for name, value in days.items()}
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, **values}


def test_journals_are_never_deleted_without_a_setting():
    write_journal(10_000)

    assert look(connected(), SUBJECTS["journals"], now=NOW).rows == 0
    assert clean(connected(), SUBJECTS["journals"], now=NOW) == 0


def test_a_task_deletes_the_shown_rows_of_a_journal_and_no_more(settings):
    set_retention(settings, keep_journals=30)
    write_journal(29, 31, 90)

    shown = look(connected(), SUBJECTS["journals"], now=NOW).rows
    done = kinds.clean(TaskContext(task=1, group="generic"), {"subject": "journals"})

    assert (shown, done) == (2, {"deleted": 2})
    assert JobEvent.objects.get().message == "29"


def test_a_cancelled_cleaning_deletes_nothing_more(settings):
    set_retention(settings, keep_journals=30)
    write_journal(90)

    kinds.clean(TaskContext(task=1, group="generic", is_cancelled=lambda: True), {"subject": "journals"})

    assert JobEvent.objects.count() == 1


def test_counts_of_old_runs_are_deleted_and_counts_of_documents_stay_exact():
    job = make_job(name="often")
    type(job).objects.filter(pk=job.pk).update(run_no=KEPT_RUNS + 2)
    make_documents(job, 1)
    for run_no, measure, amount in ((1, "stage", 3), (1, "bytes", 10), (2, "stage", 0), (3, "bytes", 10)):
        facts = {"job_id": job.pk, "run_no": run_no, "measure": measure, "amount": amount}
        Counter.objects.create(lane_id=1, **facts)
        JobCounter.objects.create(**facts)
    before = read_run(connected(), job_id=job.pk, run_no=KEPT_RUNS + 2)

    assert look(connected(), SUBJECTS["runs"], now=NOW).rows == 4
    assert clean(connected(), SUBJECTS["runs"], now=NOW) == 4

    left = {("stage", 1), ("bytes", 3)}
    for model in (Counter, JobCounter):
        assert set(model.objects.filter(job_id=job.pk).values_list("measure", "run_no")) == left
    assert read_run(connected(), job_id=job.pk, run_no=KEPT_RUNS + 2) == before


def test_sessions_that_have_ended_are_deleted():
    for key, age in (("ended", 1), ("lasts", -1)):
        Session.objects.create(session_key=key, session_data="", expire_date=NOW - age * DAY)

    assert clean(connected(), SUBJECTS["answers"], now=NOW) == 1
    assert Session.objects.get().session_key == "lasts"


def test_each_subject_of_retention_has_a_built_in_template():
    templates = TaskTemplate.objects.filter(kind="clean", is_built_in=True)

    assert sorted(template.arguments["subject"] for template in templates) == sorted(SUBJECTS)


@pytest.mark.django_db(transaction=True)
def test_page_api_and_command_show_and_schedule_a_cleaning(settings, capsys):
    set_retention(settings, keep_journals=30)
    write_journal(90)
    operator = client_of("operator")

    shown = {one["name"]: one for one in operator.get("/api/v1/retention/").json()}
    call_command("retention")

    assert (shown["journals"]["rows"], shown["journals"]["days"]) == (1, 30)
    assert "journals: 1 old rows" in capsys.readouterr().out
    assert "CRAWLCTL_KEEP_JOURNALS" in operator.get("/retention/").content.decode()
    assert operator.post("/api/v1/retention/journals/clean/").status_code == 201
    assert operator.post("/retention/journals/clean/").status_code == 302
    assert operator.post("/api/v1/retention/everything/clean/").status_code == 404
    assert client_of("viewer").post("/retention/journals/clean/").status_code == 403


def test_a_day_of_the_history_is_shown_before_it_is_dropped():
    name = f"jobs_activity_{dt.date(2020, 1, 1):%Y%m%d}"
    connected().execute(
        f"CREATE TABLE {name} PARTITION OF jobs_activity FOR VALUES FROM ('2020-01-01 00:00+00') TO ('2020-01-02 00:00+00')"
    )
    connected().execute(
        "INSERT INTO jobs_activity (started_at, repository_id, activity, entity) VALUES ('2020-01-01 12:00+00', 1, 'fetch', 'x')"
    )

    old = look(connected(), SUBJECTS["history"], now=NOW)

    assert (old.rows, old.partitions) == (1, 1)
    assert clean(connected(), SUBJECTS["history"], now=NOW) == 1
    assert look(connected(), SUBJECTS["history"], now=NOW).partitions == 0
