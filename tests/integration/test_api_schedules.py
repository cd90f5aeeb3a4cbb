"""The API stores kinds, intervals, hop limits and schedules of jobs, and refuses contradictory ones."""

import datetime as dt

import pytest

from crawlctl.access.roles import ADMINISTRATOR
from jobs.lifecycle.job import Phase
from jobs.models import Job, JobEvent, OutputConnection, RepositoryConnection, ScheduleWindow, Seed, ThrottlePolicy
from tests.support.api import assert_problem, client_of, make_job, set_phase
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs/"
NIGHTLY = {"hours": [22], "duration": 8 * 3600, "time_zone": "Europe/Berlin"}
ANY = {"days_of_week": [], "days_of_month": [], "months": [], "years": [], "hours": [], "minutes": []}


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


@pytest.fixture
def wanted():
    return {
        "name": "manual",
        "repository": RepositoryConnection.objects.create(name="the web").pk,
        "outputs": [OutputConnection.objects.create(name="index", connector="search").pk],
        "seeds": [{"urls": ["http://docs.test/"]}],
    }


def test_the_api_the_form_and_the_model_have_the_same_default_schedule(administrator, wanted):
    made = administrator.post(JOBS, wanted).json()

    expected = {"kind": "once", "start_method": "manual", "priority": 5, "hop_mode": "accurate"}
    assert {name: made[name] for name in expected} == expected
    assert (made["hop_limits"], made["windows"]) == ({}, [])
    form = administrator.get("/admin/jobs/job/add/").context["adminform"].form
    assert {name: form[name].value() for name in expected} == expected
    assert {name: getattr(Job(), name) for name in expected} == expected


def test_a_continuous_job_keeps_its_intervals(administrator, wanted):
    intervals = {"recrawl_after": 3600.0, "recrawl_at_most": 86400.0, "expire_after": None, "reseed_after": 0.5}

    made = administrator.post(JOBS, {**wanted, "kind": "continuous", **intervals}).json()

    assert (made["kind"], {name: made[name] for name in intervals}) == ("continuous", intervals)
    assert Job.objects.get().reseed_after == dt.timedelta(seconds=0.5)


def test_a_schedule_is_stored_and_shown_unchanged(administrator, wanted):
    windows = [NIGHTLY, {"days_of_week": [7, 6, 6], "hours": [12], "minutes": [30], "minimal": True}]

    made = administrator.post(JOBS, {**wanted, "start_method": "window_inside", "windows": windows}).json()

    shown = administrator.get(f"{JOBS}{made['id']}/").json()
    assert (shown["start_method"], shown["windows"]) == (
        "window_inside",
        [
            {**ANY, **NIGHTLY, "minimal": False},
            {**ANY, "days_of_week": [6, 7], "hours": [12], "minutes": [30], "time_zone": "UTC", "duration": None}
            | {"minimal": True},
        ],
    )
    again = administrator.patch(f"{JOBS}{made['id']}/", {"windows": shown["windows"]})
    assert again.json()["windows"] == shown["windows"]


def test_a_new_schedule_starts_no_run_for_a_window_that_opened_before(administrator, wanted):
    made = administrator.post(JOBS, wanted).json()
    Job.objects.update(schedule_checked_at="2020-01-01T00:00Z")

    changed = administrator.patch(f"{JOBS}{made['id']}/", {"windows": [NIGHTLY], "start_method": "window_begin"})

    assert changed.status_code == 200
    assert Job.objects.get().schedule_checked_at.year > 2020


@each_row(
    ("changes", "fields"),
    [
        ({"kind": "sometimes"}, ["kind"]),
        ({"recrawl_after": 60}, ["recrawl_after"]),
        ({"kind": "continuous", "recrawl_after": 0}, ["recrawl_after"]),
        ({"kind": "continuous", "recrawl_after": "1 day"}, ["recrawl_after"]),
        ({"kind": "continuous", "recrawl_after": 1e300}, ["recrawl_after"]),
        ({"kind": "continuous", "expire_after": True}, ["expire_after"]),
        ({"kind": "continuous", "recrawl_at_most": 60}, ["recrawl_at_most"]),
        ({"kind": "continuous", "recrawl_after": 60, "recrawl_at_most": 59}, ["recrawl_at_most"]),
        ({"hop_mode": "lazy"}, ["hop_mode"]),
        ({"hop_limits": {"child": 3}}, ["hop_limits.child"]),
        ({"hop_limits": {"link": -1}}, ["hop_limits.link"]),
        ({"hop_limits": {"link": True}}, ["hop_limits.link"]),
        ({"hop_limits": 3}, ["hop_limits"]),
        ({"start_method": "window_begin"}, ["start_method"]),
        ({"start_method": "at noon", "windows": [NIGHTLY]}, ["start_method"]),
        ({"windows": [{}]}, ["windows.0"]),
        ({"windows": [{"hours": [24]}]}, ["windows.0.hours.0"]),
        ({"windows": [{"hours": [12], "time_zone": "Middle/Earth"}]}, ["windows.0"]),
        ({"windows": [{"hours": [12], "duration": -1}]}, ["windows.0.duration"]),
        ({"windows": [{"hours": [12], "weekday": 1}]}, ["windows.0.weekday"]),
        ({"windows": [{"days_of_month": [31], "months": [2]}]}, ["windows.0"]),
        ({"windows": [{"years": [2001]}]}, ["windows.0"]),
        ({"windows": [NIGHTLY, {"hours": [23], "time_zone": "Europe/Berlin", "duration": 60}]}, ["windows.1"]),
        ({"windows": [NIGHTLY] * 101}, ["windows"]),
    ],
    ids=str,
)
def test_contradictory_fields_are_refused_by_name_and_nothing_is_stored(administrator, wanted, changes, fields):
    assert_problem(administrator.post(JOBS, {**wanted, **changes}), 400, "invalid", fields=fields)
    assert not Job.objects.exists()

    made = administrator.post(JOBS, wanted).json()
    assert_problem(administrator.patch(f"{JOBS}{made['id']}/", changes), 400, "invalid", fields=fields)
    assert administrator.get(f"{JOBS}{made['id']}/").json() == {k: v for k, v in made.items() if k != "warnings"}
    assert not ScheduleWindow.objects.exists()


def test_a_continuous_job_must_lose_its_intervals_to_become_an_ending_job(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "kind": "continuous", "reseed_after": 60}).json()

    refused = administrator.patch(f"{JOBS}{made['id']}/", {"kind": "once"})
    changed = administrator.patch(f"{JOBS}{made['id']}/", {"kind": "once", "reseed_after": None})

    assert_problem(refused, 400, "invalid", fields=["reseed_after"])
    assert (changed.status_code, changed.json()["kind"]) == (200, "once")


# --- Changes during a run -----------------------------------------------------------------------------------


def running_job():
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE, run_no=3)
    Seed.objects.update(seeded_run=3, seeding_version="v3")
    return job


def test_seeds_priority_and_schedule_of_a_running_job_can_be_changed(administrator):
    job = running_job()
    seeds = [{"urls": ["http://docs.test/new/"]}, {"urls": ["http://docs.test/more/"]}]

    changed = administrator.patch(
        f"{JOBS}{job.pk}/", {"seeds": seeds, "priority": 2, "windows": [NIGHTLY], "start_method": "window_begin"}
    )

    assert changed.status_code == 200, changed.content
    assert [(seed.urls, seed.seeded_run, seed.seeding_version) for seed in Seed.objects.all()] == [
        (["http://docs.test/new/"], 0, ""),
        (["http://docs.test/more/"], 0, ""),
    ]


def test_a_seed_that_is_sent_unchanged_stays_unchanged(administrator):
    job = running_job()

    changed = administrator.patch(f"{JOBS}{job.pk}/", {"seeds": [{"urls": ["http://docs.test/"]}]})

    assert changed.status_code == 200
    assert Seed.objects.get().seeded_run == 3


@each_row(
    ("changes", "fields"),
    [
        ({"name": "other"}, ["name"]),
        ({"kind": "continuous"}, ["kind"]),
        ({"hop_limits": {"link": 1}}, ["hop_limits"]),
        ({"specification": {"scope": "any"}, "priority": 1}, ["specification"]),
    ],
    ids=str,
)
def test_fields_that_a_run_depends_on_cannot_be_edited_during_a_run(administrator, changes, fields):
    job = running_job()
    before = administrator.get(f"{JOBS}{job.pk}/").json()

    assert_problem(administrator.patch(f"{JOBS}{job.pk}/", changes), 400, "invalid", fields=fields)

    assert administrator.get(f"{JOBS}{job.pk}/").json() == before
    assert not JobEvent.objects.filter(kind="changed").exists()


def test_the_policy_of_a_seed_can_be_changed_while_it_runs(administrator):
    job = running_job()
    gently = ThrottlePolicy.objects.create(name="gently")
    seeds = [{"urls": ["http://docs.test/"], "policy": gently.pk}]

    assert administrator.patch(f"{JOBS}{job.pk}/", {"seeds": seeds}).status_code == 200

    assert job.seeds.get().policy == gently


def test_a_new_archive_set_by_api_or_form_rereads_all_documents(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "archive": "warc"}).json()
    before = Job.objects.get().specification_version
    assert made["archive"] == "warc"

    changed = administrator.patch(f"{JOBS}{made['id']}/", {"archive": "barc"}).json()
    assert changed["archive"] == "barc"
    assert Job.objects.get().specification_version == before + 1
    refused = administrator.patch(f"{JOBS}{made['id']}/", {"archive": "zip"})
    assert (refused.status_code, list(refused.json()["fields"])) == (400, ["archive"])


def test_a_source_without_raw_exchanges_refuses_an_archive(administrator, wanted, tmp_path, settings):
    files = RepositoryConnection.objects.create(
        name="files", connector="filesystem", configuration={"paths": [str(tmp_path)]}
    )
    fields = {**wanted, "repository": files.pk, "seeds": [{"urls": [f"file://{tmp_path}"]}], "archive": "warc"}
    refused = administrator.post(JOBS, fields)
    assert refused.status_code == 400
    assert "no raw exchanges" in str(refused.json()["fields"]["archive"])
