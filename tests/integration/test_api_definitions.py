"""Proves that definitions can be read and put back by the API, in JSON and YAML, with the permission of each object."""

import html
import json
import re

import pytest
import yaml
from django.contrib.auth.models import Permission

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.models import Job, RepositoryConnection, Seed, ThrottlePolicy
from tests.support.api import assert_problem, client_of, make_user, make_world
from tests.support.definitions import JOB_OF_WORLD, LOGIN, seed

pytestmark = pytest.mark.django_db

ADDRESS = "/api/v1/definitions/"
YAML = "application/yaml"


@pytest.fixture
def world():
    return make_world()


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


def put(client, body, query="", **headers):
    return client.put(f"{ADDRESS}{query}", body, headers=headers)


def test_an_answer_of_get_can_be_put_back_and_changes_nothing(world, administrator):
    shown = administrator.get(ADDRESS)

    answer = put(administrator, shown.json())

    assert [(one["definition"], one["name"]) for one in shown.json()["results"]] == [
        ("policy", "gently"),
        ("repository", "the web"),
        ("output", "index"),
        ("job", "manual"),
    ]
    assert answer.status_code == 200, answer.content
    assert {one["result"] for one in answer.json()["changes"]} == {"unchanged"}
    assert answer["ETag"] == shown["ETag"] == administrator.get(ADDRESS)["ETag"]


def test_definitions_are_read_and_written_as_yaml(world, administrator):
    shown = administrator.get(f"{ADDRESS}?definition=job", headers={"Accept": YAML})
    text = shown.content.decode()
    as_json = administrator.get(f"{ADDRESS}?definition=job").json()["results"]

    answer = administrator.generic("PUT", ADDRESS, f"{text.replace('name: manual', 'name: second')}", content_type=YAML)

    assert shown["Content-Type"] == "application/yaml; charset=utf-8"
    assert yaml.safe_load(text)["results"] == as_json
    assert answer.status_code == 200, answer.content
    assert [one["result"] for one in answer.json()["changes"]] == ["created"]
    assert Job.objects.filter(name="second").exists()


def test_a_problem_in_yaml_is_answered_as_json(world, administrator):
    for body in ("a: &x 1\nb: *x", "definition: job\nname: a\n"):
        answer = administrator.generic("PUT", ADDRESS, body, content_type=YAML, headers={"Accept": YAML})

        assert answer.status_code == 400
        assert answer["Content-Type"] == "application/problem+json"
        assert json.loads(answer.content)["status"] == 400


def test_the_answer_to_a_change_lists_each_changed_field_before_and_after(world, administrator):
    (job,) = administrator.get(f"{ADDRESS}?definition=job&name=manual").json()["results"]
    wanted = {**job, "priority": 2, "seeds": [{**job["seeds"][0], "tag": "near"}]}

    dry = put(administrator, wanted, "?dry_run=true").json()
    done = put(administrator, wanted).json()

    assert dry == {**done, "dry_run": True}
    assert done["changes"] == [
        {
            "definition": "job",
            "name": "manual",
            "result": "changed",
            "fields": [
                {"field": "seeds.0.tag", "before": "", "after": "near"},
                {"field": "priority", "before": 5, "after": 2},
            ],
            "warnings": [],
        }
    ]


def test_a_dry_run_stores_nothing(world, administrator):
    answer = put(administrator, {"definition": "policy", "name": "new"}, "?dry_run=true")

    assert answer.json()["changes"][0]["result"] == "created"
    assert not ThrottlePolicy.objects.filter(name="new").exists()


def test_problems_are_reported_with_their_field_and_place(world, administrator):
    bad = {**JOB_OF_WORLD, "name": "bad", "outputs": ["nowhere"]}

    assert_problem(put(administrator, bad), 400, "invalid", fields=["outputs.0"])
    assert_problem(put(administrator, [JOB_OF_WORLD, bad]), 400, "invalid", fields=["1.outputs.0"])
    assert_problem(put(administrator, {"results": [bad], "next": None}), 400, "invalid", fields=["results.0.outputs.0"])
    assert_problem(put(administrator, []), 400, "invalid", fields=["request"])
    assert not Job.objects.filter(name="docs").exists()


def test_a_change_based_on_an_older_version_of_a_definition_is_refused(world, administrator):
    address = f"{ADDRESS}?definition=job&name=manual"
    seen = administrator.get(address)
    Job.objects.update(priority=9)

    refused = put(administrator, seen.json()["results"][0], **{"If-Match": seen["ETag"]})

    assert_problem(refused, 412, "precondition_failed")
    assert refused["ETag"] == administrator.get(address)["ETag"]


def test_the_api_never_returns_secrets(world, administrator):
    repository = {
        "definition": "repository",
        "name": "private",
        "connector": "web",
        "configuration": {"logins": [LOGIN]},
    }
    put(administrator, repository)

    shown = administrator.get(f"{ADDRESS}?definition=repository&name=private")

    assert b"swordfish" not in shown.content
    assert b"sealed:" not in shown.content
    assert shown.json()["results"][0]["left_out"] == ["configuration.logins.0.fields.1.secret"]
    assert put(administrator, shown.json()).json()["changes"][0]["result"] == "unchanged"
    assert RepositoryConnection.objects.get(name="private").configuration["logins"][0]["fields"][1]["secret"]


# --- Roles -----------------------------------------------------------------------------------------


def test_users_without_the_role_change_nothing(world):
    for role in (VIEWER, OPERATOR):
        assert_problem(put(client_of(role), JOB_OF_WORLD), 403, "permission_denied")


def test_each_object_needs_the_permission_of_its_kind(world):
    user = make_user(name="otto")
    names = ["view_job", "add_job", "change_job"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names, content_type__app_label="jobs"))
    client = client_of()
    client.force_login(user)

    seen = client.get(ADDRESS).json()["results"]
    refused = put(client, [JOB_OF_WORLD, {"definition": "policy", "name": "new"}])

    assert {one["definition"] for one in seen} == {"job"}
    assert client.get(f"{ADDRESS}?definition=policy").status_code == 403
    problem = assert_problem(refused, 403, "permission_denied")
    assert problem["detail"] == "Your role does not permit you to add the policy 'new'."
    assert not Job.objects.filter(name="docs").exists()
    assert put(client, JOB_OF_WORLD).status_code == 200


def test_a_policy_for_every_host_needs_its_own_permission(world):
    user = make_user(name="otto")
    names = ["view_job", "change_job", "add_throttlepolicy"]
    user.user_permissions.set(Permission.objects.filter(codename__in=names, content_type__app_label="jobs"))
    client = client_of()
    client.force_login(user)

    refused = put(client, {"definition": "policy", "name": "new", "applies_everywhere": True})

    assert_problem(refused, 403, "permission_denied")
    assert put(client, {"definition": "policy", "name": "new"}).status_code == 200


# --- Pages -----------------------------------------------------------------------------------------


def test_pages_of_definitions_continue_from_one_kind_to_the_next(world, administrator):
    names, address = [], f"{ADDRESS}?limit=1"
    while address:
        page = administrator.get(address).json()
        names += [one["name"] for one in page["results"]]
        address = page["next"]

    assert names == ["gently", "the web", "index", "manual"]


def test_a_page_of_definitions_has_a_limited_number_of_addresses(world, administrator):
    urls = [f"http://docs.test/{number}" for number in range(60_000)]
    Seed.objects.update(urls=urls)
    put(administrator, {**JOB_OF_WORLD, "seeds": [seed("http://docs.test/")]})
    Seed.objects.update(urls=urls)

    page = administrator.get(f"{ADDRESS}?definition=job").json()

    assert [one["name"] for one in page["results"]] == ["docs"]
    assert [one["name"] for one in administrator.get(page["next"]).json()["results"]] == ["manual"]


def test_an_invalid_cursor_of_definitions_is_refused(world, administrator):
    assert_problem(administrator.get(f"{ADDRESS}?cursor=x"), 400, "invalid", fields=["cursor"])


def test_the_page_of_a_job_links_to_its_definition(world, administrator):
    Job.objects.update(name="docs & “more”")

    page = administrator.get(f"/jobs/{world.job.pk}/").content.decode()

    (address,) = [html.unescape(found) for found in re.findall(r'href="(/api/v1/definitions/[^"]*)"', page)]
    assert [one["name"] for one in administrator.get(address).json()["results"]] == ["docs & “more”"]
