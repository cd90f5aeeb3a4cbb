"""
The forms of connections have one field for each option of their connector, and show the error of an invalid value
beside its field.
"""

import re

import pytest
from django.test import Client

from jobs.models import Job, OutputConnection, RepositoryConnection
from nodes.membership.changes import MASK
from tests.support.api import make_user
from tests.support.factories import make_output

CONNECTIONS, JOBS = "/admin/jobs/repositoryconnection/add/", "/admin/jobs/job/add/"
OUTPUTS = "/admin/jobs/outputconnection/add/"


@pytest.fixture
def administrator(db):
    client = Client()
    client.force_login(make_user("administrator"))
    return client


def shown(response):
    """Return the names of the fields in the page's form."""
    return set(response.context["adminform"].form.fields)


def files(tmp_path):
    return RepositoryConnection.objects.create(
        name="files", connector="filesystem", configuration={"roots": [str(tmp_path)]}
    )


def job_form(connection, **facts):
    output = make_output()
    return {
        "name": "tree",
        "repository": connection.pk,
        "outputs": [output.pk],
        "priority": 5,
        "kind": "once",
        "hop_mode": "accurate",
        "start_method": "manual",
        "seeds-TOTAL_FORMS": 1,
        "seeds-INITIAL_FORMS": 0,
        **facts,
    }


def test_the_form_of_a_connection_has_a_field_for_each_option(administrator):
    of_files = administrator.get(CONNECTIONS, {"connector": "filesystem"})
    of_archives = administrator.get(CONNECTIONS, {"connector": "archive"})
    of_the_web = administrator.get(CONNECTIONS)

    assert {"configuration_roots", "configuration_hidden", "configuration_max_bytes"} <= shown(of_files)
    assert {"configuration_roots", "configuration_earliest", "configuration_statuses"} <= shown(of_archives)
    assert "configuration_roots" not in shown(of_the_web)
    assert "configuration_user_agent" in shown(of_the_web)


def test_a_connection_to_files_is_made_in_the_browser(administrator, tmp_path):
    facts = {"name": "files", "connector": "filesystem", "built_for": "filesystem"}

    response = administrator.post(
        CONNECTIONS, {**facts, "configuration_roots": f"{tmp_path}\n", "configuration_hidden": "on"}
    )

    assert response.status_code == 302
    assert RepositoryConnection.objects.get().configuration == {"roots": [str(tmp_path)], "hidden": True}


def test_the_form_of_an_output_has_a_field_for_each_option(administrator):
    of_lines, of_search = administrator.get(OUTPUTS, {"connector": "jsonl"}), administrator.get(OUTPUTS)

    assert "configuration_path" in shown(of_lines)
    assert not [name for name in shown(of_search) if name.startswith("configuration_")]


def test_an_output_is_made_and_changed_in_the_browser(administrator):
    facts = {"connector": "jsonl", "built_for": "jsonl", "configuration_path": "/srv/pages.jsonl"}

    assert administrator.post(OUTPUTS, {"name": "file", **facts}).status_code == 302

    output = OutputConnection.objects.get()
    assert output.configuration == {"path": "/srv/pages.jsonl"}
    address = f"/admin/jobs/outputconnection/{output.pk}/change/"
    assert 'value="/srv/pages.jsonl"' in administrator.get(address).content.decode()
    administrator.post(address, {"name": "file", "built_for": "jsonl", "configuration_path": "/srv/other.jsonl"})
    output.refresh_from_db()
    assert output.configuration == {"path": "/srv/other.jsonl"}


@pytest.mark.parametrize(("path", "sentence"), [("", "This field is required"), ("pages", "must be absolute")])
def test_an_invalid_output_is_refused_beside_its_field(administrator, path, sentence):
    facts = {"name": "file", "connector": "jsonl", "built_for": "jsonl", "configuration_path": path}

    form = administrator.post(OUTPUTS, facts).context["adminform"].form

    assert sentence in form.errors["configuration_path"][0]
    assert not OutputConnection.objects.exists()


LOGIN = {
    "name": "guarded",
    "connector": "web",
    "built_for": "web",
    "configuration_logins-count": 2,
    "configuration_logins-0-name": "door",
    "configuration_logins-0-pages": "/in/",
    "configuration_logins-0-page": "/login$",
    "configuration_logins-0-hosts": "a.example\nb.example",
    "configuration_logins-0-fields-count": 3,
    "configuration_logins-0-fields-0-name": "user",
    "configuration_logins-0-fields-0-value": "crawler",
    "configuration_logins-0-fields-1-name": "password",
    "configuration_logins-0-fields-1-secret": "sesame",
    # The page adds an empty form after the forms of stored logins.
    "configuration_logins-1-name": "",
}


def test_logins_are_fields_whose_secrets_are_masked(administrator):
    response = administrator.post(CONNECTIONS, LOGIN)

    assert response.status_code == 302, response.context["errors"]
    stored = RepositoryConnection.objects.get()
    (login,) = stored.configuration["logins"]
    assert (login["name"], login["hosts"]) == ("door", ["a.example", "b.example"])
    assert login["fields"][0] == {"name": "user", "value": "crawler"}
    page = administrator.get(f"/admin/jobs/repositoryconnection/{stored.pk}/change/").content.decode()
    assert re.search(rf'<input type="password"[^>]*value="{re.escape(MASK)}"', page)
    assert "sealed:" not in page
    assert "sesame" not in page + str(stored.configuration)


def test_logins_are_added_and_removed_and_masked_secrets_stay(administrator):
    administrator.post(CONNECTIONS, LOGIN)
    stored = RepositoryConnection.objects.get()
    address, before = f"/admin/jobs/repositoryconnection/{stored.pk}/change/", stored.configuration["logins"][0]
    same = {**LOGIN, "configuration_logins-0-fields-1-secret": MASK}
    second = {name.replace("logins-0", "logins-1"): value for name, value in LOGIN.items() if "logins-0" in name}

    administrator.post(address, {**same, **second, "configuration_logins-1-name": "gate"})
    stored.refresh_from_db()
    assert [login["name"] for login in stored.configuration["logins"]] == ["door", "gate"]
    assert stored.configuration["logins"][0] == before

    gate = stored.configuration["logins"][1]
    removed = {
        "configuration_logins-1-name": "gate",
        "configuration_logins-1-fields-1-secret": MASK,
        "configuration_logins-0--remove": "on",
    }
    administrator.post(address, {**same, **second, **removed})
    stored.refresh_from_db()
    assert stored.configuration["logins"] == [gate]


def test_a_mask_without_a_stored_secret_is_refused_at_its_field(administrator):
    response = administrator.post(CONNECTIONS, {**LOGIN, "configuration_logins-0-fields-1-secret": MASK})

    errors = response.context["adminform"].form.errors
    assert errors == {"configuration_logins": ["1 fields 2 secret: Write the secret, not its mask."]}
    assert not RepositoryConnection.objects.exists()


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"configuration_logins-0-hosts": ""}, "This field is required"),
        ({"configuration_logins-0-pages": "("}, "door: pages: pattern"),
        ({"configuration_logins-0-fields-0-name": ""}, "Check the entries with the numbers 1."),
    ],
)
def test_an_invalid_login_is_refused_at_its_field(administrator, wrong, sentence):
    response = administrator.post(CONNECTIONS, {**LOGIN, **wrong})

    assert response.status_code == 200
    assert sentence in response.content.decode()
    # The form keeps the input.
    assert 'value="/login$"' in response.content.decode()
    assert not RepositoryConnection.objects.exists()


def test_a_configuration_that_the_connector_refuses_is_not_stored(administrator):
    facts = {"name": "files", "connector": "filesystem", "built_for": "filesystem", "configuration_roots": "srv"}

    response = administrator.post(CONNECTIONS, facts)

    assert "is not an absolute path" in response.content.decode()
    assert not RepositoryConnection.objects.exists()


def test_choosing_another_connector_shows_its_fields_and_stores_nothing(administrator, tmp_path):
    response = administrator.post(CONNECTIONS, {"name": "files", "connector": "filesystem", "built_for": "web"})

    assert "Check them, then save again" in response.content.decode()
    assert "configuration_roots" in shown(response)
    assert 'name="built_for" value="filesystem"' in response.content.decode()
    assert not RepositoryConnection.objects.exists()


def test_the_list_of_connections_shows_the_paths_that_each_one_can_reach(administrator, tmp_path):
    files(tmp_path / "nowhere")
    RepositoryConnection.objects.create(name="lost", connector="pigeon")

    page = administrator.get("/admin/jobs/repositoryconnection/").content.decode()

    assert "nowhere cannot be read: No such file or directory." in page
    assert "There is no repository connector" in page


def test_a_job_of_files_is_made_and_changed_in_the_browser(administrator, tmp_path):
    connection = files(tmp_path)
    RepositoryConnection.objects.create(name="the web", connector="web")
    wanted = job_form(
        connection,
        built_for="filesystem",
        specification_exclude="*.tmp",
        **{"seeds-0-urls": f"file://{tmp_path}"},
    )

    assert "specification_exclude" in shown(administrator.get(JOBS, {"repository": connection.pk}))
    assert administrator.post(JOBS, wanted).status_code == 302
    job = Job.objects.get()
    assert (job.repository, job.specification) == (connection, {"exclude": ["*.tmp"]})
    change = administrator.get(f"/admin/jobs/job/{job.pk}/change/")
    assert change.context["adminform"].form["specification_exclude"].value() == "*.tmp"


def test_a_job_with_another_connection_than_its_form_shows_is_not_stored(administrator, tmp_path):
    connection = files(tmp_path)
    RepositoryConnection.objects.create(name="the web", connector="web")
    wanted = job_form(connection, built_for="web", specification_scope="any", **{"seeds-0-urls": f"file://{tmp_path}"})

    response = administrator.post(JOBS, wanted)

    assert "Check them, then save again" in response.content.decode()
    assert "specification_exclude" in shown(response)
    assert not Job.objects.exists()


def test_a_seed_outside_of_the_connections_limits_is_refused(administrator, tmp_path):
    wanted = job_form(files(tmp_path), built_for="filesystem", **{"seeds-0-urls": "file:///etc"})

    response = administrator.post(JOBS, wanted)

    assert "outside the folders that this connection may read" in response.content.decode()
    assert not Job.objects.exists()


def test_a_job_whose_connector_is_missing_keeps_its_specification(administrator):
    connection = RepositoryConnection.objects.create(name="lost", connector="pigeon")
    job = Job.objects.create(name="lost", repository=connection, specification={"coo": 3})
    job.outputs.set(OutputConnection.objects.filter(pk=make_output().pk))

    page = administrator.get(f"/admin/jobs/job/{job.pk}/change/")

    assert page.status_code == 200
    assert not [name for name in shown(page) if name.startswith("specification_")]


def test_the_history_of_a_source_is_cleared_only_after_a_confirmation(administrator):
    source = RepositoryConnection.objects.create(name="the web", connector="web")
    (address,) = re.findall(
        'href="([^"]*clear-history[^"]*)"',
        administrator.get(f"/admin/jobs/repositoryconnection/{source.pk}/change/").content.decode(),
    )

    confirmation = administrator.get(address)

    source.refresh_from_db()
    assert ("from the history and the reports" in confirmation.content.decode(), source.clear_history_before) == (
        True,
        None,
    )
    administrator.post(address)
    source.refresh_from_db()
    assert source.clear_history_before is not None


@pytest.mark.parametrize(("action", "noted_in"), [("index-again", "trusted_from"), ("clear", "clear_before")])
def test_documents_of_an_output_change_only_after_a_confirmation(administrator, action, noted_in):
    output = make_output()
    page = administrator.get(f"/admin/jobs/outputconnection/{output.pk}/change/").content.decode()
    (address,) = re.findall(f'href="([^"]*{action}[^"]*)"', page)

    confirmation = administrator.get(address)

    output.refresh_from_db()
    assert (
        "again" in confirmation.content.decode() or "removes all content" in confirmation.content.decode(),
        getattr(output, noted_in),
    ) == (
        True,
        None,
    )
    administrator.post(address)
    output.refresh_from_db()
    assert getattr(output, noted_in) is not None
