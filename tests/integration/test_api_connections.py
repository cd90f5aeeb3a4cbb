"""The API stores, changes and deletes connections, and refuses invalid ones."""

from copy import deepcopy

import pytest

from crawlctl.access.roles import ADMINISTRATOR
from jobs.lifecycle.job import Pause, Phase
from jobs.models import Job, OutputConnection, RepositoryConnection, Session
from nodes.database.sealing import unseal
from tests.support.api import NOON, assert_problem, client_of, make_world, set_phase
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

OUTPUTS = "/api/v1/outputs/"
REPOSITORIES = "/api/v1/repositories/"


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


def test_a_connection_is_stored_changed_and_deleted(administrator):
    made = administrator.post(
        REPOSITORIES, {"name": "polite web", "connector": "web", "configuration": {"user_agent": "us/1"}}
    )
    address = f"{REPOSITORIES}{made.json()['id']}/"

    changed = administrator.patch(address, {"configuration": {"user_agent": "us/2"}})

    assert made.status_code == 201, made.content
    assert changed.json() == {**made.json(), "configuration": {"user_agent": "us/2"}}
    assert administrator.delete(address).status_code == 204
    assert not RepositoryConnection.objects.exists()


def test_the_check_of_a_connection_says_whether_its_source_is_reachable(administrator, tmp_path):
    def status_of(root):
        facts = {"name": str(root), "connector": "filesystem", "configuration": {"roots": [str(root)]}}
        return administrator.post(REPOSITORIES, facts).json()["status"]

    assert status_of(tmp_path) == ""
    assert status_of(tmp_path / "nowhere") == f"{tmp_path}/nowhere cannot be read: No such file or directory."


@each_row(
    ("address", "body", "field"),
    [
        (REPOSITORIES, {"name": "x", "connector": "carrier-pigeon"}, "connector"),
        (REPOSITORIES, {"name": "x", "connector": "web", "configuration": {"wings": 2}}, "configuration.wings"),
        (
            REPOSITORIES,
            {"name": "x", "connector": "web", "configuration": {"max_depth": "deep"}},
            "configuration.max_depth",
        ),
        (REPOSITORIES, {"name": "x", "connector": "web", "configuration": {"include": ["("]}}, "configuration.include"),
        (REPOSITORIES, {"name": "x", "connector": "filesystem"}, "configuration.roots"),
        (
            REPOSITORIES,
            {"name": "x", "connector": "filesystem", "configuration": {"roots": ["srv"]}},
            "configuration.roots",
        ),
        (REPOSITORIES, {"name": "x", "connector": "feed", "configuration": {"scope": "any"}}, "configuration.scope"),
        (REPOSITORIES, {"connector": "web"}, "name"),
        (OUTPUTS, {"name": "x", "connector": "carrier-pigeon"}, "connector"),
        (OUTPUTS, {"name": "x", "connector": "search", "configuration": {"wings": 2}}, "configuration.wings"),
        (OUTPUTS, {"name": "x", "connector": "jsonl"}, "configuration.path"),
        (OUTPUTS, {"name": "x", "connector": "jsonl", "configuration": {"path": 3}}, "configuration.path"),
        (OUTPUTS, {"name": "x", "connector": "null", "configuration": "none"}, "configuration"),
        (OUTPUTS, {"name": "x", "connector": "null", "speed": 1}, "speed"),
        (OUTPUTS, {"name": "x" * 201, "connector": "null"}, "name"),
    ],
)
def test_a_configuration_that_its_connector_refuses_is_not_stored(administrator, address, body, field):
    assert_problem(administrator.post(address, body), 400, "invalid", fields=[field])
    assert not RepositoryConnection.objects.exists()
    assert not OutputConnection.objects.exists()


@each_row("name", ["\x1b]0;owned\x07", "web\u202ebew", "two\nlines", "x\x9b2J"])
def test_a_name_with_characters_that_cannot_be_shown_is_refused(administrator, name):
    assert_problem(administrator.post(OUTPUTS, {"name": name, "connector": "null"}), 400, "invalid", fields=["name"])


def test_the_name_of_another_connection_is_refused(administrator):
    for name in ("first", "second"):
        administrator.post(OUTPUTS, {"name": name, "connector": "null"})
    second = OutputConnection.objects.get(name="second")

    assert_problem(
        administrator.post(OUTPUTS, {"name": "first", "connector": "null"}), 409, "name_taken", fields=["name"]
    )
    assert_problem(administrator.patch(f"{OUTPUTS}{second.pk}/", {"name": "first"}), 409, "name_taken", fields=["name"])


def test_the_connector_of_a_connection_cannot_be_changed(administrator):
    made = administrator.post(OUTPUTS, {"name": "x", "connector": "null"}).json()

    response = administrator.patch(f"{OUTPUTS}{made['id']}/", {"connector": "search"})

    assert_problem(response, 400, "invalid", fields=["connector"])


def test_a_used_connection_is_not_deleted_and_the_error_names_its_users(administrator):
    world = make_world()

    problem = assert_problem(administrator.delete(f"{OUTPUTS}{world.output.pk}/"), 409, "in_use")

    assert "manual" in problem["detail"]


def test_a_changed_configuration_makes_the_next_runs_read_everything_again(administrator):
    world = make_world()
    before = world.job.specification_version

    administrator.patch(f"{REPOSITORIES}{world.repository.pk}/", {"configuration": {"user_agent": "us/1"}})

    assert Job.objects.get().specification_version == before + 1


def test_a_new_name_of_a_connection_does_not_affect_the_crawl(administrator):
    world = make_world()

    response = administrator.patch(
        f"{REPOSITORIES}{world.repository.pk}/", {"name": "the wide web", "configuration": {}}
    )

    assert response.json()["name"] == "the wide web"
    assert Job.objects.get().specification_version == world.job.specification_version


@each_row(
    "state", [{"phase": Phase.ACTIVE}, {"phase": Phase.ACTIVE, "pause": Pause.PAUSED}, {"phase": Phase.STARTING_UP}]
)
def test_a_configuration_can_be_changed_while_its_job_runs_or_is_paused(administrator, state):
    world = make_world()
    before = world.job.specification_version
    set_phase(world.job, **state)

    response = administrator.patch(f"{REPOSITORIES}{world.repository.pk}/", {"configuration": {"user_agent": "us/1"}})

    assert response.status_code == 200, response.content
    world.repository.refresh_from_db()
    assert world.repository.configuration == {"user_agent": "us/1"}
    assert Job.objects.get().specification_version == before + 1


@pytest.fixture
def guarded(administrator):
    """Return the answer to the creation of a repository with a password."""
    field = {"name": "password", "secret": "sesame"}
    login = {"name": "door", "pages": "/in/", "page": "/login$", "hosts": ["a.example"], "fields": [field]}
    made = administrator.post(
        REPOSITORIES, {"name": "guarded", "connector": "web", "configuration": {"logins": [login]}}
    )
    assert made.status_code == 201, made.content
    return made


def secret_in(configuration):
    return configuration["logins"][0]["fields"][0]["secret"]


def test_a_secret_is_shown_as_a_mask_and_sending_the_mask_keeps_the_secret(administrator, guarded):
    address = f"{REPOSITORIES}{guarded.json()['id']}/"
    stored = RepositoryConnection.objects.get().configuration
    shown = administrator.get(address)
    assert secret_in(shown.json()["configuration"]) == "(secret)"
    assert b"sealed:" not in shown.content + guarded.content + administrator.get(REPOSITORIES).content

    same = administrator.put(address, shown.json(), headers={"If-Match": shown["ETag"]})

    assert (same.status_code, same["ETag"]) == (200, shown["ETag"])
    assert same.json() == shown.json()
    assert RepositoryConnection.objects.get().configuration == stored
    assert unseal(secret_in(stored)) == "sesame"
    # A sealed text is still accepted.
    assert administrator.patch(address, {"configuration": stored}).status_code == 200


def test_a_new_secret_changes_the_etag_and_a_mask_needs_a_stored_secret(administrator, guarded):
    address = f"{REPOSITORIES}{guarded.json()['id']}/"
    configuration = deepcopy(guarded.json()["configuration"])
    configuration["logins"][0]["fields"][0]["secret"] = "another"

    changed = administrator.patch(address, {"configuration": configuration})
    assert changed.json() == guarded.json()
    assert changed["ETag"] != guarded["ETag"]

    configuration["logins"][0]["fields"][0] |= {"name": "unknown", "secret": "(secret)"}
    refused = administrator.patch(address, {"configuration": configuration})
    assert_problem(refused, 400, "invalid", fields={"configuration.logins.0.fields.0.secret"})
    copy = {"name": "copy", "connector": "web", "configuration": guarded.json()["configuration"]}
    copied = administrator.post(REPOSITORIES, copy)
    assert_problem(copied, 400, "invalid", fields={"configuration.logins.0.fields.0.secret"})
    assert unseal(secret_in(RepositoryConnection.objects.get().configuration)) == "another"


@each_row("field, value", [("pages", "/"), ("page", "login$"), ("form", "/"), ("text", "in"), ("hosts", ["b.example"])])
def test_a_secret_must_be_written_again_for_another_destination(administrator, guarded, field, value):
    address, configuration = f"{REPOSITORIES}{guarded.json()['id']}/", deepcopy(guarded.json()["configuration"])
    stored = RepositoryConnection.objects.get().configuration
    configuration["logins"][0][field] = value

    refused = administrator.patch(address, {"configuration": configuration})

    assert_problem(refused, 400, "invalid", fields={"configuration.logins.0.fields.0.secret"})
    assert f"it was stored for other values of {field}." in refused.content.decode()
    assert RepositoryConnection.objects.get().configuration == stored
    configuration["logins"][0]["fields"][0]["secret"] = "sesame"
    assert administrator.patch(address, {"configuration": configuration}).status_code == 200


def test_a_secret_stays_if_other_fields_of_its_connection_change(administrator, guarded):
    address, configuration = f"{REPOSITORIES}{guarded.json()['id']}/", deepcopy(guarded.json()["configuration"])
    configuration["user_agent"] = "another/1.0"
    configuration["logins"][0]["success"] = "Welcome"

    changed = administrator.patch(address, {"configuration": configuration})

    assert changed.status_code == 200, changed.content
    assert unseal(secret_in(RepositoryConnection.objects.get().configuration)) == "sesame"


def test_a_login_session_is_deleted_when_its_connection_changes(administrator):
    connection = RepositoryConnection.objects.create(name="guarded", connector="web")
    Session.objects.create(repository=connection, name="door", sealed="sealed:x", made_at=NOON)
    address = f"{REPOSITORIES}{connection.pk}/"

    administrator.patch(address, {"name": "another name"})
    assert Session.objects.exists()
    administrator.patch(address, {"configuration": {"user_agent": "us/2"}})
    assert not Session.objects.exists()


def test_the_history_of_a_source_is_cleared_on_request(administrator):
    address = f"{REPOSITORIES}{make_world().repository.pk}/"

    answer = administrator.post(f"{address}clear-history/")

    assert answer.status_code == 202
    assert answer.json()["clear_history_before"] is not None
    assert_problem(administrator.post(f"{REPOSITORIES}999/clear-history/"), 404, "not_found")
