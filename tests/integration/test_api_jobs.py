"""The API stores, changes, starts, stops and counts jobs."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.lifecycle.job import TRANSITIONS, Pause, Phase
from jobs.lifecycle.table import Owner
from jobs.models import CounterDelta, Job, JobEvent, OutputConnection, RepositoryConnection, Seed, ThrottlePolicy
from tests.support.api import assert_problem, client_of, make_job, make_world, set_phase
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs/"


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


@pytest.fixture
def operator():
    return client_of(OPERATOR)


@pytest.fixture
def wanted():
    """Return the body with which a client creates a job."""
    return {
        "name": "manual",
        "repository": RepositoryConnection.objects.create(name="the web").pk,
        "outputs": [OutputConnection.objects.create(name="index", connector="search").pk],
        "seeds": [{"urls": ["http://docs.test/"], "policy": ThrottlePolicy.objects.create(name="gently").pk}],
        "specification": {"scope": "host"},
    }


def test_a_job_is_stored_and_shown_unchanged(administrator, wanted):
    made = administrator.post(JOBS, wanted)

    assert made.status_code == 201, made.content
    shown = administrator.get(f"{JOBS}{made.json()['id']}/").json()
    seed = Seed.objects.get()
    expected = {
        **wanted,
        "seeds": [{"id": seed.pk, "tag": "", **wanted["seeds"][0]}],
        "priority": 5,
        "max_documents": None,
    }
    assert {name: shown[name] for name in expected} == expected
    assert (shown["status"], shown["manifoldcf_status"], shown["allowed"]) == (
        "Not running",
        "INACTIVE",
        ["start", "start-minimal", "reset-seeding", "delete"],
    )
    assert made.json()["warnings"] == []


def test_fields_of_a_get_answer_can_be_put_back_unchanged(administrator, wanted):
    job_id = administrator.post(JOBS, wanted).json()["id"]
    shown = administrator.get(f"{JOBS}{job_id}/").json()
    writable = {name: shown[name] for name in (*wanted, "max_documents", "priority")}
    writable["seeds"] = [{name: seed[name] for name in ("urls", "policy", "tag")} for seed in writable["seeds"]]

    response = administrator.put(f"{JOBS}{job_id}/", writable)

    assert response.status_code == 200, response.content
    assert {name: response.json()[name] for name in shown} == shown


def test_a_patch_changes_only_its_own_fields(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "max_documents": 10}).json()

    changed = administrator.patch(f"{JOBS}{made['id']}/", {"priority": 1}).json()

    assert changed["priority"] == 1
    assert {name: changed[name] for name in wanted} == {name: made[name] for name in wanted}
    assert changed["max_documents"] == 10


def test_a_put_sets_missing_fields_to_their_defaults(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "max_documents": 10, "priority": 1}).json()

    replaced = administrator.put(f"{JOBS}{made['id']}/", wanted).json()

    assert (replaced["max_documents"], replaced["priority"]) == (None, 5)


def test_a_limit_of_a_job_can_be_removed(administrator, wanted):
    made = administrator.post(JOBS, {**wanted, "max_documents": 10}).json()

    assert administrator.patch(f"{JOBS}{made['id']}/", {"max_documents": None}).json()["max_documents"] is None


def test_user_name_and_password_of_an_address_are_neither_stored_nor_shown(administrator, wanted):
    wanted["seeds"] = [{"urls": ["http://user:sentinel@docs.test/a@b"]}]

    made = administrator.post(JOBS, wanted)

    assert made.json()["seeds"][0]["urls"] == ["http://docs.test/a@b"]
    assert "sentinel" not in str(Seed.objects.get().urls)


def test_an_address_stored_with_a_password_is_shown_without_the_password(wanted):
    make_job(urls=("http://user:sentinel@docs.test/",))
    client = client_of(VIEWER)

    assert b"sentinel" not in client.get(JOBS).content + client.get("/api/v1/seeds/").content


@each_row(
    ("changes", "fields"),
    [
        ({"name": ""}, ["name"]),
        ({"repository": 77}, ["repository"]),
        ({"repository": 10**30}, ["repository"]),
        ({"outputs": []}, ["outputs"]),
        ({"outputs": [77]}, ["outputs"]),
        ({"outputs": "index"}, ["outputs"]),
        ({"outputs": [10**30]}, ["outputs.0"]),
        ({"outputs": [1] * 10_000}, ["outputs"]),
        ({"seeds": []}, ["seeds"]),
        ({"seeds": [{"urls": []}]}, ["seeds.0.urls"]),
        ({"seeds": [{"urls": ["http://a.test/"], "policy": 77}]}, ["seeds.0.policy"]),
        ({"seeds": [{"urls": ["http://a.test/"], "pace": 1}]}, ["seeds.0.pace"]),
        ({"seeds": [{"urls": ["gopher://a.test/"]}]}, ["seeds"]),
        ({"seeds": [{"urls": ["http://"]}]}, ["seeds"]),
        ({"seeds": ["http://a.test/"]}, ["seeds.0"]),
        ({"specification": []}, ["specification"]),
        ({"specification": {"max_depth": 10**30}}, ["specification"]),
        ({"max_documents": 0}, ["max_documents"]),
        ({"max_documents": 10**30}, ["max_documents"]),
        ({"priority": 11}, ["priority"]),
        ({"pace": 1}, ["pace"]),
    ],
)
def test_an_invalid_job_is_refused_by_its_field(administrator, wanted, changes, fields):
    assert_problem(administrator.post(JOBS, {**wanted, **changes}), 400, "invalid", fields=fields)
    assert not Job.objects.exists()


@each_row(
    ("specification", "field"),
    [
        ({"include": ["("]}, "specification.include"),
        ({"exclude": ["(?=x)"]}, "specification.exclude"),
        ({"scope": "galaxy"}, "specification.scope"),
        ({"depth": 3}, "specification.depth"),
        ({"max_depth": -1}, "specification.max_depth"),
    ],
)
def test_a_specification_that_the_connector_refuses_is_refused(administrator, wanted, specification, field):
    assert_problem(administrator.post(JOBS, {**wanted, "specification": specification}), 400, "invalid", fields=[field])
    assert not Job.objects.exists()


def test_the_name_of_another_job_is_refused(administrator, wanted):
    administrator.post(JOBS, wanted)

    assert_problem(administrator.post(JOBS, wanted), 409, "name_taken", fields=["name"])


@each_row("rules", [{"exclude": ["docs"]}, {"include": ["/other/"]}])
def test_a_job_whose_rules_refuse_its_seed_is_not_saved(administrator, wanted, rules):
    refused = administrator.post(JOBS, {**wanted, "specification": rules})

    assert_problem(refused, 400, "invalid", fields=["seeds"])
    assert not Job.objects.exists()


def test_rules_that_refuse_a_stored_seed_are_not_saved(administrator, wanted):
    made = administrator.post(JOBS, wanted).json()

    refused = administrator.patch(f"{JOBS}{made['id']}/", {"specification": {"exclude": ["docs"]}})

    assert_problem(refused, 400, "invalid", fields=["seeds"])
    assert Job.objects.get().specification == wanted["specification"]


def test_only_a_change_of_addresses_increases_the_version_of_the_seeds(administrator, wanted):
    made = administrator.post(JOBS, wanted).json()
    before = Job.objects.get().revision

    administrator.patch(f"{JOBS}{made['id']}/", {"seeds": wanted["seeds"]})
    assert Job.objects.get().revision == before

    more = [*wanted["seeds"], {"urls": ["http://more.test/"]}]
    administrator.patch(f"{JOBS}{made['id']}/", {"seeds": more})
    assert Job.objects.get().revision == before + 1


def test_the_repository_of_a_job_cannot_be_changed(administrator, wanted):
    made = administrator.post(JOBS, wanted).json()
    other = RepositoryConnection.objects.create(name="another")

    response = administrator.patch(f"{JOBS}{made['id']}/", {"repository": other.pk})

    assert_problem(response, 400, "invalid", fields=["repository"])


def test_the_policy_of_a_one_shot_crawl_is_refused_for_another_job(administrator, wanted):
    private = ThrottlePolicy.objects.create(name="of a one-shot", private_to=make_job("one-shot"))
    wanted = {**wanted, "seeds": [{"urls": ["http://a.test/"], "policy": private.pk}]}

    assert_problem(administrator.post(JOBS, wanted), 400, "invalid", fields=["seeds.0.policy"])


def test_changes_of_a_running_job_are_refused(administrator):
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE)

    assert_problem(administrator.patch(f"{JOBS}{job.pk}/", {"name": "other"}), 400, "invalid")


def test_every_action_of_an_operator_has_an_address():
    job = make_job()
    client = client_of()

    for verb in [row.verb for row in TRANSITIONS.values() if row.owner == Owner.OPERATOR]:
        assert client.post(f"{JOBS}{job.pk}/{verb}/").status_code == 403


def test_a_job_is_started_paused_resumed_and_aborted(operator):
    job = make_job()

    started = operator.post(f"{JOBS}{job.pk}/start/")
    set_phase(job, phase=Phase.ACTIVE)
    paused = operator.post(f"{JOBS}{job.pk}/pause/")
    resumed = operator.post(f"{JOBS}{job.pk}/resume/")
    aborted = operator.post(f"{JOBS}{job.pk}/abort/")

    answers = (started, paused, resumed, aborted)
    assert [answer.status_code for answer in answers] == [200] * 4
    assert [answer.json()["status"] for answer in answers] == ["Starting up", "Stopping", "Resuming", "Aborting"]
    assert set(JobEvent.objects.exclude(kind="created").values_list("made_by", flat=True)) == {"a operator"}


@each_row("send", ["delete", "post"])
def test_a_deleted_job_is_shown_as_being_deleted(administrator, send):
    job = make_job()

    response = (
        administrator.delete(f"{JOBS}{job.pk}/") if send == "delete" else administrator.post(f"{JOBS}{job.pk}/delete/")
    )

    assert response.status_code == 202
    assert response.json()["phase"] == Phase.READY_FOR_DELETE


def test_an_impossible_action_is_refused_with_the_possible_actions(operator):
    job = make_job()
    set_phase(job, phase=Phase.ACTIVE, pause=Pause.PAUSED)

    refused = assert_problem(
        operator.post(f"{JOBS}{job.pk}/pause/"),
        409,
        "transition_refused",
        allowed=["resume", "abort", "restart", "restart-minimal", "reset-seeding"],
    )

    assert "Paused" in refused["detail"]


def test_an_action_takes_no_body(operator):
    job = make_job()

    assert_problem(operator.post(f"{JOBS}{job.pk}/start/", {"minimal": True}), 400, "invalid", fields=["minimal"])

    job.refresh_from_db()
    assert job.phase == Phase.INACTIVE


def test_a_job_shows_the_counts_of_its_present_run():
    job = make_job()
    set_phase(job, run_no=2)
    known = {"job_id": job.pk, "lane_id": 1, "measure": "stage"}
    CounterDelta.objects.create(**known, run_no=1, stage=2, outcome=1, code="200", amount=9)
    CounterDelta.objects.create(**known, run_no=2, stage=2, outcome=1, code="200", amount=3)
    CounterDelta.objects.create(**known, run_no=2, stage=2, outcome=3, code="404", amount=1)
    CounterDelta.objects.create(**known, run_no=2, stage=0, amount=2)

    counts = client_of(VIEWER).get(f"{JOBS}{job.pk}/counts/").json()

    assert counts["result_codes"] == {"200": 3, "404": 1}
    assert (counts["processed"], counts["indexed"], counts["failed"], counts["waiting"]) == (4, 3, 1, 2)


def test_the_list_of_jobs_can_be_filtered_by_phase():
    make_job("resting")
    running = make_job("running")
    set_phase(running, phase=Phase.ACTIVE)

    found = client_of(VIEWER).get(f"{JOBS}?phase=active").json()["results"]

    assert [job["name"] for job in found] == ["running"]


def test_a_list_needs_as_many_queries_for_many_jobs_as_for_one(settings_known, django_assert_num_queries):
    client = client_of(VIEWER)
    make_job("job 0")
    client.get(JOBS)
    with django_assert_num_queries(8) as once:
        client.get(JOBS)
    for number in range(1, 20):
        make_job(f"job {number}")

    with django_assert_num_queries(len(once)):
        assert len(client.get(JOBS).json()["results"]) == 20


def test_a_thousand_seeds_are_checked_in_few_queries(administrator, wanted, django_assert_max_num_queries):
    policy = wanted["seeds"][0]["policy"]
    wanted["seeds"] = [{"urls": [f"http://host-{number}.test/"], "policy": policy} for number in range(1000)]

    with django_assert_max_num_queries(40):
        response = administrator.post(JOBS, wanted)

    assert response.status_code == 201
    assert Seed.objects.count() == 1000


def test_a_list_of_jobs_shows_some_seeds_and_a_link_to_all(administrator, wanted):
    urls = [f"http://docs.test/{number}" for number in range(30)]
    wanted["seeds"] = [{"urls": urls}, *({"urls": [url]} for url in urls)]
    job_id = administrator.post(JOBS, wanted).json()["id"]

    (row,) = administrator.get(JOBS).json()["results"]
    seeds = administrator.get(row["all_seeds"]).json()["results"]
    whole = administrator.get(f"/api/v1/seeds/{seeds[0]['id']}/").json()

    assert "seeds" not in row
    assert (row["id"], row["seeds_in_all"], len(row["first_seeds"])) == (job_id, 31, 3)
    assert (row["first_seeds"][0]["first_urls"], row["first_seeds"][0]["urls_in_all"]) == (urls[:3], 30)
    assert (len(seeds), seeds[0]["first_urls"], seeds[0]["urls_in_all"]) == (31, urls[:20], 30)
    assert whole["urls"] == urls


def test_a_list_of_jobs_reads_no_specification(administrator, wanted):
    job_id = administrator.post(JOBS, wanted).json()["id"]

    with CaptureQueriesContext(connection) as asked:
        (row,) = administrator.get(JOBS).json()["results"]

    assert "specification" not in row
    assert not any('"specification"' in query["sql"] for query in asked)
    assert administrator.get(f"{JOBS}{job_id}/").json()["specification"] == {"scope": "host"}


def test_seeds_and_events_are_listed_by_job():
    world = make_world()
    make_job("other", urls=("http://other.test/",))
    client = client_of(VIEWER)

    seeds = client.get(f"/api/v1/seeds/?job={world.job.pk}").json()["results"]
    events = client.get(f"/api/v1/job-events/?job={world.job.pk}").json()["results"]

    assert [seed["first_urls"] for seed in seeds] == [["http://docs.test/"]]
    assert [(event["kind"], event["job_name"], event["made_by"]) for event in events] == [
        ("created", "manual", "a test")
    ]
