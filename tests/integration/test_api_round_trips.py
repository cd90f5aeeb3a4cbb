"""The body of a GET can be sent back, and a change based on an older version is refused."""

import threading

import pytest
from django.db import connections

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from crawlctl.web import api
from jobs.api.errors import NothingHere
from jobs.lifecycle.job import Phase
from jobs.models import Job, Seed
from nodes.api.base import ContractView
from nodes.models import SettingsVersion
from tests.support.api import assert_problem, client_of, make_world, set_phase
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

JOBS = "/api/v1/jobs/"
SETTINGS = "/api/v1/settings/"


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def things(world):
    """Return the address of an object of each changeable kind, with a change for it."""
    return {
        f"/api/v1/jobs/{world.job.pk}/": {"name": "other"},
        f"/api/v1/policies/{world.policy.pk}/": {"name": "other"},
        f"/api/v1/repositories/{world.repository.pk}/": {"name": "other"},
        f"/api/v1/outputs/{world.output.pk}/": {"name": "other"},
    }


def test_a_get_answer_can_be_put(administrator, things):
    for address in things:
        shown = administrator.get(address).json()

        answer = administrator.put(address, shown)

        assert answer.status_code == 200, answer.content
        assert administrator.get(address).json() == shown


def test_the_answer_of_a_change_can_be_put(administrator, things):
    for address, change in things.items():
        changed = administrator.patch(address, change).json()

        assert administrator.put(address, changed).status_code == 200


def test_a_changed_copy_of_a_get_answer_is_stored(administrator, things):
    for address, change in things.items():
        shown = administrator.get(address).json()

        administrator.put(address, {**shown, **change})

        expected = {**shown, **change, "version": shown.get("version", 0) + 1}
        now = administrator.get(address).json()
        assert now == {name: expected[name] for name in now}


def test_a_get_answer_can_be_posted_under_another_name(administrator, things):
    for address in things:
        shown = administrator.get(address).json()

        made = administrator.post(address.rsplit("/", 2)[0] + "/", {**shown, "name": "a copy"})

        assert made.status_code == 201, made.content
        assert made.json()["id"] != shown["id"]


def test_a_policy_without_limits_of_pace_can_be_copied(administrator):
    policy = {"name": "fast", "min_gap": 0, "unlimited": True}
    made = administrator.post("/api/v1/policies/", policy).json()

    copied = administrator.post("/api/v1/policies/", {**made, "name": "as fast"})

    assert made["unlimited"] is True
    assert copied.status_code == 201, copied.content


@each_row("field", ["id", "status", "run_no", "created_at", "allowed"])
def test_a_changed_read_only_field_is_refused_by_name(administrator, world, field):
    address = f"{JOBS}{world.job.pk}/"
    shown = administrator.get(address).json()

    for send in (administrator.put, administrator.patch):
        problem = assert_problem(send(address, {**shown, field: 77}), 400, "invalid", fields=[field])

        assert "Leave it out" in problem["fields"][field][0]


def test_unknown_fields_are_still_refused_by_name(administrator, things):
    for address in things:
        shown = administrator.get(address).json()

        assert_problem(administrator.put(address, {**shown, "pace": 1}), 400, "invalid", fields=["pace"])


def test_a_running_job_accepts_an_unchanged_get_answer(administrator, world):
    address = f"{JOBS}{world.job.pk}/"
    for phase in (Phase.ACTIVE, Phase.SHUTTING_DOWN):
        set_phase(world.job, phase=phase)

        assert administrator.put(address, administrator.get(address).json()).status_code == 200


def test_a_seed_that_is_left_out_is_deleted_and_other_seeds_stay(administrator, world):
    address = f"{JOBS}{world.job.pk}/"
    urls = ["http://a.test/", "http://b.test/", "http://c.test/"]
    administrator.patch(address, {"seeds": [{"urls": [url]} for url in urls]})
    first, second, third = administrator.get(address).json()["seeds"]

    administrator.patch(address, {"seeds": [second, third, {"urls": ["http://d.test/"]}]})

    kept = dict(Seed.objects.filter(removed_at=None).values_list("pk", "urls"))
    assert kept == {
        first["id"]: ["http://d.test/"],
        second["id"]: ["http://b.test/"],
        third["id"]: ["http://c.test/"],
    }


@each_row("ids", [[77], ["same", "same"]])
def test_a_seed_with_an_unknown_id_is_refused(administrator, world, ids):
    address = f"{JOBS}{world.job.pk}/"
    (seed,) = administrator.get(address).json()["seeds"]
    seeds = [{**seed, "id": seed["id"] if one == "same" else one} for one in ids]

    refused = administrator.patch(address, {"seeds": seeds})

    assert_problem(refused, 400, "invalid", fields=[f"seeds.{len(ids) - 1}.id"])


def test_settings_accept_their_get_answer(administrator):
    shown = administrator.get(SETTINGS).json()

    stored = administrator.put(SETTINGS, {**shown, "document": {"cluster": {"heartbeat_interval": 1}}})

    assert stored.status_code == 200, stored.content
    assert stored.json()["document"] == {"cluster": {"heartbeat_interval": 1}}
    assert_problem(administrator.put(SETTINGS, shown), 400, "invalid", fields=["version", "settings"])


def test_settings_based_on_a_version_that_never_existed_are_refused(administrator):
    assert_problem(administrator.put(f"{SETTINGS}?based_on=77", {}), 409, "conflict")


# --- ETags -----------------------------------------------------------------------------------------


def test_a_change_of_an_object_that_changed_meanwhile_is_refused(administrator, things):
    for address, change in things.items():
        seen = administrator.get(address)["ETag"]
        administrator.patch(address, {"name": "changed by another"})

        for send in (administrator.put, administrator.patch, administrator.delete):
            refused = send(address, change, headers={"If-Match": seen})

            assert_problem(refused, 412, "precondition_failed")
            assert refused["ETag"] == administrator.get(address)["ETag"] != seen
        assert administrator.get(address).json()["name"] == "changed by another"


def test_an_object_is_changed_with_its_present_etag(administrator, things):
    for address, change in things.items():
        seen = administrator.get(address)["ETag"]

        changed = administrator.patch(address, change, headers={"If-Match": f'"another", {seen}'})

        assert changed.status_code == 200, changed.content
        assert changed["ETag"] == administrator.get(address)["ETag"] != seen
        assert administrator.patch(address, change, headers={"If-Match": "*"}).status_code == 200


@pytest.mark.parametrize("header", ['"0"', "bogus", "", 'W/"0"'])
def test_an_if_match_that_names_no_present_etag_is_refused(administrator, things, header):
    for address, change in things.items():
        assert_problem(administrator.patch(address, change, headers={"If-Match": header}), 412, "precondition_failed")


def test_a_weak_form_of_the_present_etag_does_not_match(administrator, world):
    address = f"{JOBS}{world.job.pk}/"
    weak = f"W/{administrator.get(address)['ETag']}"

    assert_problem(administrator.patch(address, {}, headers={"If-Match": weak}), 412, "precondition_failed")


def test_an_etag_covers_what_clients_set_but_not_the_state_of_a_job(administrator, world):
    address = f"{JOBS}{world.job.pk}/"
    seen = administrator.get(address)["ETag"]

    set_phase(world.job, phase=Phase.ACTIVE, run_no=7)

    assert administrator.get(address)["ETag"] == seen


def test_an_action_on_a_job_that_changed_meanwhile_is_refused(administrator, world):
    address = f"{JOBS}{world.job.pk}/"
    seen = administrator.get(address)["ETag"]
    administrator.patch(address, {"priority": 1})

    refused = administrator.post(f"{address}start/", headers={"If-Match": seen})

    assert_problem(refused, 412, "precondition_failed")
    assert Job.objects.get().phase == Phase.INACTIVE


def test_an_if_match_without_an_etag_is_refused(administrator, world):
    refused = administrator.post(f"/api/v1/groups/{world.group.pk}/move/", {}, headers={"If-Match": '"1"'})

    assert_problem(refused, 412, "precondition_failed")


def test_the_etag_of_the_settings_is_their_version(administrator):
    seen = administrator.get(SETTINGS)["ETag"]
    stored = administrator.put(SETTINGS, {"cluster": {"heartbeat_interval": 1}}, headers={"If-Match": seen})

    refused = administrator.put(SETTINGS, {}, headers={"If-Match": seen})

    assert stored["ETag"] == administrator.get(SETTINGS)["ETag"] != seen
    assert_problem(refused, 412, "precondition_failed")
    assert SettingsVersion.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_of_two_clients_that_change_the_same_version_succeeds(administrator, world):
    addresses = [f"{JOBS}{world.job.pk}/", f"/api/v1/policies/{world.policy.pk}/", SETTINGS]
    for address in addresses:
        seen = administrator.get(address)["ETag"]
        start, answers = threading.Barrier(4), []

        def change(number, *, address=address, seen=seen, start=start, answers=answers):
            start.wait()
            body = {"cluster": {"heartbeat_interval": number + 1}} if address == SETTINGS else {"name": f"by {number}"}
            send = administrator.put if address == SETTINGS else administrator.patch
            answers.append(send(address, body, headers={"If-Match": seen}).status_code)
            connections.close_all()

        threads = [threading.Thread(target=change, args=[number]) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        assert sorted(answers) == [200, 412, 412, 412]


# --- Creation and existence ------------------------------------------------------------------------


def test_the_location_header_leads_to_a_created_object(administrator, things):
    for address in things:
        shown = administrator.get(address).json()

        made = administrator.post(address.rsplit("/", 2)[0] + "/", {**shown, "name": "new"})

        found = administrator.get(made["Location"])
        assert found.json()["id"] == made.json()["id"]
        assert found["ETag"] == made["ETag"]


def test_the_name_of_another_object_is_answered_as_a_conflict(administrator, things):
    for address, change in things.items():
        collection = address.rsplit("/", 2)[0] + "/"
        shown = administrator.get(address).json()
        administrator.post(collection, {**shown, **change})

        for refused in (administrator.post(collection, shown), administrator.patch(address, change)):
            assert_problem(refused, 409, "name_taken", fields=["name"])


def test_options_lists_the_methods_for_every_known_user(things):
    viewer = client_of(VIEWER)
    for address in (*things, JOBS, SETTINGS, "/api/v1/nodes/", "/api/v1/documents/", "/api/v1/reports/queue/"):
        answer = viewer.options(address)

        assert answer.status_code == 200, (address, answer.content)
        assert answer.json()["methods"] == [method.strip() for method in answer["Allow"].split(",")]
        assert "GET" in answer.json()["methods"]


def test_options_at_a_missing_object_is_answered_with_404():
    assert_problem(client_of(VIEWER).options("/api/v1/nothing/"), 404, "not_found")


# --- Types -----------------------------------------------------------------------------------------


@each_row(
    ("address", "body", "field"),
    [
        ("/api/v1/deny-list/", {"pattern": 0, "reason": "they called"}, "pattern"),
        ("/api/v1/hosts/stop/", {"name": 0, "reason": "they called"}, "name"),
        ("/api/v1/distributed-jobs/switch/", {"job": "*", "is_disabled": True}, "job"),
        ("/api/v1/distributed-jobs/switch/", {"job": "a b", "is_disabled": True}, "job"),
        ("/api/v1/distributed-jobs/switch/", {"job": "mails", "is_disabled": 0}, "is_disabled"),
        ("/api/v1/distributed-jobs/switch/", {"job": "mails", "is_disabled": "no"}, "is_disabled"),
        ("/api/v1/policies/", {"name": "x", "open_requests": "2"}, "open_requests"),
        ("/api/v1/policies/", {"name": "x", "open_requests": True}, "open_requests"),
        ("/api/v1/policies/", {"name": "x", "rules": [{"days": ["1"], "denies": True}]}, "rules.0.days.0"),
        ("/api/v1/outputs/", {"name": 7, "connector": "null"}, "name"),
        ("/api/v1/cluster/rebalance/", {"dry_run": "true"}, "dry_run"),
    ],
)
def test_a_value_of_another_json_type_is_refused(administrator, address, body, field):
    assert_problem(administrator.post(address, body), 400, "invalid", fields=[field])


def test_the_location_header_after_a_denial_leads_to_the_deny_list(administrator):
    denied = administrator.post("/api/v1/deny-list/", {"pattern": "*.test", "reason": "they called", "confirm": True})

    assert denied.status_code == 201
    assert administrator.get(denied["Location"]).json() == denied.json()


# --- One contract ----------------------------------------------------------------------------------


def _views(patterns):
    for pattern in patterns:
        found = getattr(pattern.callback, "cls", None) or getattr(pattern.callback, "view_class", None)
        if found is not None and found.__module__.startswith(("jobs.", "nodes.")) and found is not NothingHere:
            yield found


def test_every_view_of_the_api_has_the_common_base_and_options():
    views = set(_views(api.urlpatterns))

    assert {view for view in views if not issubclass(view, ContractView)} == set()
    assert {view for view in views if "options" not in view.http_method_names} == set()
    assert len(views) > 20
