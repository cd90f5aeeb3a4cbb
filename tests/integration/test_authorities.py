"""Proves authorities with a database: the API, `/UserACLs`, pages, tokens of services, and the attention list."""

import datetime as dt

import pytest
from django.db import OperationalError, connection, transaction
from django.test import Client
from django.urls import reverse
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR, OPERATOR, VIEWER
from jobs.attention.sources import read_attention
from jobs.authorities import verbs
from jobs.authorities.models import AuthorityConnection, AuthorityGroup, MappingConnection, ServiceToken
from jobs.authorities.threaded_service import UnstoredStates, authority_service, read_silent, read_snapshot, tokens_of
from jobs.models import RepositoryConnection
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.models import NodeEvent
from tests.support.api import assert_problem, client_of, make_user
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

CONTENT = 'users: {alice: {groups: [staff]}, ALICE: {tokens: ["a\\nTOKEN:g:root"]}, bob: {disabled: true}}'


@pytest.fixture
def users(tmp_path):
    file = tmp_path / "users.yaml"
    file.write_text(CONTENT)
    return file


@pytest.fixture
def group():
    return verbs.create_group(name="the group", made_by="vera")


@pytest.fixture
def authority(users, group):
    return make_authority("file", group, kind="file", configuration={"path": str(users)})


def make_authority(name, group, *, kind="null", **facts):
    return verbs.create(AuthorityConnection, name=name, kind=kind, group=group.pk, made_by="vera", **facts)


def make_mapping(name, pattern="(.*)", replacement="$(1)", **facts):
    configuration = {"pattern": pattern, "replacement": replacement}
    return verbs.create(
        MappingConnection, name=name, kind="regex", configuration=configuration, made_by="vera", **facts
    )


def service_client(name="a search", **facts):
    _token, text = verbs.create_token(name=name, made_by="vera", **facts)
    client = APIClient()
    client.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")
    return client


def lines(response):
    assert response.status_code == 200, response.content
    assert response["Content-Type"] == "text/plain; charset=ISO-8859-1"
    return response.content.decode().splitlines()


# --- Asking ------------------------------------------------------------------------------------------


@each_row("path", ["/UserACLs", "/mcf-authority-service/UserACLs"])
def test_a_service_gets_the_tokens_of_a_user_in_the_lines_of_manifoldcf(path, authority, group):
    make_authority("other", group, domain="ad")

    answer = service_client().get(path, {"username": "alice", "idneeded": "true"})

    assert lines(answer) == ["AUTHORIZED:file", "TOKEN:the+group:staff", "ID:alice"]


def test_every_answer_is_one_line_and_no_token_can_add_a_line(authority, group):
    gone = {"path": "/nowhere/users.yaml"}
    make_authority("gone", group, kind="file", configuration=gone)
    client = service_client()

    assert lines(client.get("/UserACLs?username=bob")) == [
        *("UNAUTHORIZED:file", "TOKEN:the+group:DEAD_AUTHORITY"),
        *("UNREACHABLEAUTHORITY:gone", "TOKEN:the+group:DEAD_AUTHORITY"),
    ]
    assert lines(client.get("/UserACLs?username=nobody"))[0] == "USERNOTFOUND:file"
    assert lines(client.get("/UserACLs?username=ALICE"))[:2] == [
        "AUTHORIZED:file",
        "TOKEN:the+group:a%0ATOKEN%3Ag%3Aroot",
    ]
    assert lines(client.get("/UserACLs?username=nobody%0AAUTHORIZED:x&idneeded=true"))[-1] == (
        "ID:nobody%0AAUTHORIZED%3Ax"
    )


def test_a_question_without_a_user_is_refused_with_400(authority):
    client = service_client()

    assert client.get("/UserACLs").status_code == 400
    assert client.get("/UserACLs?domain=x").status_code == 400
    assert client.post("/UserACLs?username=a").status_code == 405


@each_row("header", ["", "Bearer ", "Bearer wrong", "Token {}", "Basic {}"])
def test_without_a_token_of_a_service_the_answer_is_a_refusal(header, authority):
    _token, text = verbs.create_token(name="a search", made_by="vera")
    client = Client(HTTP_AUTHORIZATION=header.format(text)) if header else Client()

    answer = client.get("/UserACLs?username=alice")

    assert (answer.status_code, answer["WWW-Authenticate"]) == (401, "Bearer")
    assert b"staff" not in answer.content


def test_a_login_is_not_accepted_at_manifoldcfs_address(authority):
    client = client_of(ADMINISTRATOR)

    assert client.get("/UserACLs?username=alice").status_code == 401


def test_an_expired_or_revoked_token_is_refused(authority):
    expired, revoked = service_client("expired", days=1), service_client("revoked")
    assert lines(expired.get("/UserACLs?username=alice"))

    ServiceToken.objects.filter(name="expired").update(expires_at=read_clock() - dt.timedelta(seconds=1))
    verbs.delete_token(ServiceToken.objects.get(name="revoked").pk, made_by="vera")

    for client in (expired, revoked):
        assert client.get("/UserACLs?username=alice").status_code == 401
        assert client.get("/api/v1/authority/access/?username=alice").status_code == 401


def test_a_token_of_a_service_is_valid_only_for_the_authority_service(authority):
    client = service_client()

    assert client.get("/api/v1/authority/access/?username=alice").json()["answers"][0]["tokens"] == ["staff"]
    for path in ("authority-connections/", "service-tokens/", "jobs/", "authority/states/"):
        assert client.get(f"/api/v1/{path}").status_code == 401


def test_operators_may_ask_authorities_and_viewers_only_see_their_states(authority):
    operator, viewer = client_of(OPERATOR), client_of(VIEWER)
    question = "/api/v1/authority/access/?username=alice"

    (answer,) = operator.get(question).json()["answers"]
    assert (answer["authority"], answer["user"], answer["status"]) == ("file", "alice", "authorized")
    assert_problem(viewer.get(question), 403, "permission_denied")
    assert viewer.get("/api/v1/authority/states/").json() == [
        {"name": "file", "is_mapping": False, "group": "the group", "silent_since": None}
    ]
    assert_problem(viewer.get(f"/api/v1/authority-connections/{authority.pk}/"), 403, "permission_denied")


@each_row("query", ["", "username=", "username=a&nonsense=1", "domain=x", "username=a&idneeded=perhaps"])
def test_the_api_refuses_an_invalid_question(query):
    assert_problem(client_of(OPERATOR).get(f"/api/v1/authority/access/?{query}"), 400, "invalid")


def test_one_request_asks_about_users_of_several_domains(authority, group, users):
    make_authority("ad", group, kind="file", configuration={"path": str(users)}, domain="ad")

    query = {"username": "alice", "username_0": "bob", "domain_0": "ad"}
    answers = client_of(OPERATOR).get("/api/v1/authority/access/", query).json()["answers"]

    assert [(one["authority"], one["user"], one["status"]) for one in answers] == [
        ("ad", "bob", "unauthorized"),
        ("file", "alice", "authorized"),
    ]


def test_the_answer_shows_the_name_that_a_chain_of_mappings_gave(group, users):
    cut = make_mapping("cut", pattern="(.+)@x")
    up = make_mapping("up", replacement="$(1u)", prerequisite=cut.pk)
    make_authority("file", group, kind="file", configuration={"path": str(users)}, prerequisite=up.pk)

    (answer,) = client_of(OPERATOR).get("/api/v1/authority/access/?username=alice@x").json()["answers"]
    (unmapped,) = client_of(VIEWER, OPERATOR).get("/api/v1/authority/access/?username=alice").json()["answers"]

    assert (answer["user"], answer["status"]) == ("ALICE", "authorized")
    assert (unmapped["user"], unmapped["status"]) == (None, "user not found")


def test_a_change_of_an_authority_or_a_group_applies_to_the_next_question(authority, users, group):
    client = service_client()
    assert "TOKEN:the+group:staff" in lines(client.get("/UserACLs?username=alice"))

    verbs.change_group(group.pk, name="renamed", made_by="vera")
    assert "TOKEN:renamed:staff" in lines(client.get("/UserACLs?username=alice"))
    verbs.delete(AuthorityConnection, authority.pk, made_by="vera")

    assert lines(client.get("/UserACLs?username=alice")) == []


def test_a_search_gets_the_tokens_of_a_user_by_authority_group(authority, group):
    assert tokens_of("alice") == {("the group", "staff")}
    assert tokens_of("nobody") == {("the group", "DEAD_AUTHORITY")}
    assert tokens_of("alice", domain="elsewhere") == frozenset()


# --- Silence -----------------------------------------------------------------------------------------


def test_a_silent_authority_is_on_the_attention_list_until_it_answers(authority, users):
    users.unlink()
    for number in range(3):
        tokens_of(f"user {number}")

    (line,) = [one for one in read_attention(now=read_clock()) if one.kind == "authority_silent"]
    assert line.subject == "file"
    assert "cannot be read" in line.sentence
    state = client_of(VIEWER).get("/api/v1/authority/states/").json()[0]
    assert state["silent_since"] is not None

    users.write_text(CONTENT)
    tokens_of("alice")
    tokens_of("alice")

    assert not [one for one in read_attention(now=read_clock()) if one.kind == "authority_silent"]


@each_row("first, then, is_silent", [("gone", None, True), ("gone", "", False), ("", None, False), ("", "gone", True)])
def test_the_state_of_an_authority_is_stored_after_an_outage_of_the_database(authority, first, then, is_silent):
    def away(*_statement):
        raise OperationalError("the line was cut")

    (facts,) = read_snapshot().authorities
    if not first:
        AuthorityConnection.objects.update(silent_since=read_clock(), last_error="gone")
    unstored = UnstoredStates()
    unstored.note_stored(read_silent())
    unstored.note(facts, first)

    with pytest.raises(OperationalError), transaction.atomic(), connection.execute_wrapper(away):
        unstored.store()
    if then is not None:
        unstored.note(facts, then)
    unstored.store()

    authority.refresh_from_db()
    assert (authority.silent_since is not None, authority.last_error) == (is_silent, "gone" if is_silent else "")


def test_a_check_names_the_reason_why_a_connection_fails(authority, users):
    client, path = client_of(OPERATOR), f"/api/v1/authority-connections/{authority.pk}/test/"
    assert client.post(path).json() == {"works": True, "detail": ""}

    users.unlink()

    answer = client.post(path).json()
    assert answer["works"] is False
    assert "cannot be read" in answer["detail"]
    assert NodeEvent.objects.filter(message__contains="checked the authority file").count() == 2


# --- Changes -----------------------------------------------------------------------------------------


def test_mappings_in_a_circle_are_refused_by_name():
    first = make_mapping("first")
    second = make_mapping("second", prerequisite=first.pk)
    third = make_mapping("third", prerequisite=second.pk)

    with pytest.raises(Invalid, match="first → third → second → first"):
        verbs.change(MappingConnection, first.pk, prerequisite=third.pk, made_by="vera")
    response = client_of(ADMINISTRATOR).patch(f"/api/v1/mapping-connections/{first.pk}/", {"prerequisite": first.pk})
    assert_problem(response, 400, "invalid", fields={"prerequisite"})


def test_secrets_of_authorities_are_sealed_and_masked_in_the_journal(group):
    configuration = {
        "host": "db",
        "database": "d",
        "username": "u",
        "password": "very secret",
        "query": "SELECT %(user)s",
    }
    client = client_of(ADMINISTRATOR)
    body = {"name": "sql", "kind": "sql", "group": group.pk, "configuration": configuration}

    made = client.post("/api/v1/authority-connections/", body)

    assert made.status_code == 201, made.content
    assert b"very secret" not in made.content
    assert made.json()["configuration"]["password"] == "(secret)"
    stored = AuthorityConnection.objects.get()
    assert stored.configuration["password"].startswith("sealed:")
    again = client.patch(made["Location"], {"configuration": made.json()["configuration"]})
    assert again.status_code == 200
    assert AuthorityConnection.objects.get().configuration == stored.configuration
    event = NodeEvent.objects.get(message__contains="authority sql was created")
    assert "very secret" not in str(event.detail)
    assert event.detail["changes"]["configuration.password"]["after"] == "(secret)"


@each_row("field, value", [("host", "elsewhere.example"), ("port", 5433), ("tls", "disable")])
def test_a_password_must_be_written_again_for_another_server(group, field, value):
    configuration = {
        "host": "db.example",
        "database": "d",
        "username": "u",
        "password": "very secret",
        "query": "SELECT %(user)s",
    }
    client = client_of(ADMINISTRATOR)
    body = {"name": "sql", "kind": "sql", "group": group.pk, "configuration": configuration}
    made = client.post("/api/v1/authority-connections/", body)
    shown = made.json()["configuration"]

    refused = client.patch(made["Location"], {"configuration": {**shown, field: value}})

    assert_problem(refused, 400, "invalid", fields=["configuration.password"])
    assert field not in AuthorityConnection.objects.get().configuration or field == "host"
    # The first choice and an empty port mean the same as no value.
    same = {**shown, "tls": "prefer", "port": None, "database": "other"}
    assert client.patch(made["Location"], {"configuration": same}).status_code == 200


def test_a_stale_etag_and_a_name_in_use_are_refused(authority, group):
    client, path = client_of(ADMINISTRATOR), f"/api/v1/authority-connections/{authority.pk}/"
    tag = client.get(path)["ETag"]
    assert client.patch(path, {"domain": "x"}, headers={"If-Match": tag}).status_code == 200

    assert_problem(client.patch(path, {"domain": "y"}, headers={"If-Match": tag}), 412, "precondition_failed")
    taken = client.post("/api/v1/authority-connections/", {"name": "file", "kind": "null", "group": group.pk})
    assert_problem(taken, 409, "name_taken", fields={"name"})


@each_row(
    ("body", "field"),
    [
        ({"kind": "novell"}, "kind"),
        ({"group": 999_999}, "group"),
        ({"prerequisite": 999_999}, "prerequisite"),
        ({"time_limit": 0}, "time_limit"),
        ({"at_once": 101}, "at_once"),
        ({"configuration": {"path": "users.yaml"}}, "configuration.path"),
        ({"configuration": {"nonsense": 1}}, "configuration.nonsense"),
        ({"domain": "a\nb"}, "domain"),
        ({"name": " "}, "name"),
        ({"nonsense": 1}, "nonsense"),
    ],
)
def test_an_invalid_authority_connection_is_refused(body, field, group):
    valid = {"name": "a", "kind": "file", "group": group.pk, "configuration": {"path": "/x"}}

    response = client_of(ADMINISTRATOR).post("/api/v1/authority-connections/", {**valid, **body})

    assert response.status_code == 400, response.content
    assert field in response.json()["fields"]


def test_authorities_groups_and_mappings_in_use_are_not_deleted(group, authority):
    mapping = make_mapping("m")
    verbs.change(AuthorityConnection, authority.pk, prerequisite=mapping.pk, made_by="vera")
    free = verbs.create_group(name="free", made_by="vera")
    repository = RepositoryConnection.objects.create(name="the web", authority_group=free)
    client = client_of(ADMINISTRATOR)

    for path in (f"authority-groups/{group.pk}/", f"mapping-connections/{mapping.pk}/", f"authority-groups/{free.pk}/"):
        assert_problem(client.delete(f"/api/v1/{path}"), 409, "in_use")
    assert client.patch(f"/api/v1/repositories/{repository.pk}/", {"authority_group": None}).status_code == 200
    assert client.delete(f"/api/v1/authority-groups/{free.pk}/").status_code == 204


def test_a_repository_names_its_authority_group(group):
    client = client_of(ADMINISTRATOR)
    body = {"name": "files", "connector": "web", "authority_group": group.pk}

    made = client.post("/api/v1/repositories/", body)

    assert made.json()["authority_group"] == group.pk
    assert RepositoryConnection.objects.get().authority_group == group
    assert_problem(
        client.patch(made["Location"], {"authority_group": 999_999}), 400, "invalid", fields={"authority_group"}
    )


def test_a_token_is_shown_once_and_stored_as_a_digest():
    made = client_of(ADMINISTRATOR).post("/api/v1/service-tokens/", {"name": "a search", "days": 30}).json()

    token = ServiceToken.objects.get()
    assert made["token"].startswith("crawlctl_")
    assert token.digest == verbs.digest_of(made["token"])
    assert token.expires_at > read_clock() + dt.timedelta(days=29)
    assert made["token"] not in str(NodeEvent.objects.values_list("message", "detail"))
    assert "token" not in client_of(ADMINISTRATOR, VIEWER).get(f"/api/v1/service-tokens/{token.pk}/").json()


# --- Pages -------------------------------------------------------------------------------------------


def page_client(role):
    client = Client()
    client.force_login(make_user(role))
    return client


def test_the_page_shows_the_states_of_authorities_and_checks_all_on_request(authority, users, group):
    make_authority("other", group)
    users.unlink()
    client = page_client(OPERATOR)
    assert "no error" in client.get("/authorities/").content.decode()

    page = client.post("/authorities/check/").content.decode()

    assert "does not work" in page
    assert "cannot be read" in page
    assert "works</span>" in page


def test_the_page_shows_the_tokens_of_a_user_and_their_reasons(authority):
    client = page_client(OPERATOR)

    page = client.get("/authorities/ask/?username=alice").content.decode()
    refused = client.get("/authorities/ask/?username=bob").content.decode()

    assert "staff" in page
    assert "authorized" in page
    assert "The file disables this user." in refused
    assert "DEAD_AUTHORITY" in refused
    assert "Write the name of a user" in client.get("/authorities/ask/?username=").content.decode()


def test_the_page_creates_and_revokes_a_token_of_a_service(authority):
    client = page_client(ADMINISTRATOR)

    page = client.post("/authorities/tokens/new/", {"name": "a search", "days": ""}).content.decode()
    text = page[page.index("crawlctl_") :].split("<")[0]
    service = APIClient()
    service.credentials(HTTP_AUTHORIZATION=f"Bearer {text}")

    assert service.get("/UserACLs?username=alice").status_code == 200
    assert text not in client.get("/authorities/").content.decode()
    assert (
        "whole number of days" in client.post("/authorities/tokens/new/", {"name": "b", "days": "x"}).content.decode()
    )
    client.post(f"/authorities/tokens/{ServiceToken.objects.get().pk}/revoke/")
    assert service.get("/UserACLs?username=alice").status_code == 401


def test_a_connection_is_set_up_tested_and_deleted_on_the_set_up_pages(users, group):
    client = page_client(ADMINISTRATOR)
    facts = {"name": "file", "kind": "file", "built_for": "file", "group": group.pk, "domain": "", "prerequisite": ""}
    facts |= {"time_limit": 5, "at_once": 4}
    add = "/admin/authorities/authorityconnection/add/"
    assert "configuration_servers" in client.get(add).content.decode()

    refused = client.post(add, {**facts, "configuration_path": "users.yaml"})
    assert "Write an absolute path." in refused.content.decode()
    made = client.post(add, {**facts, "configuration_path": str(users)})

    assert made.status_code == 302, made.content.decode()
    stored = AuthorityConnection.objects.get()
    assert stored.configuration == {"path": str(users)}
    tested = client.post(reverse("admin:authorities_authorityconnection_test", args=[stored.pk]), follow=True)
    assert "The connection works." in tested.content.decode()
    change = f"/admin/authorities/authorityconnection/{stored.pk}/change/"
    changed = client.post(change, {**facts, "name": "renamed", "configuration_path": str(users)})
    assert changed.status_code == 302, changed.content.decode()
    client.post(f"/admin/authorities/authorityconnection/{stored.pk}/delete/", {"post": "yes"})
    assert not AuthorityConnection.objects.exists()
    messages = [event.message for event in NodeEvent.objects.order_by("id") if "authority " in event.message]
    assert [next(word for word in ("created", "checked", "changed", "deleted") if word in one) for one in messages] == [
        *("created", "created", "checked", "changed", "deleted")
    ]


def test_a_group_and_a_mapping_are_set_up_on_the_set_up_pages():
    client = page_client(ADMINISTRATOR)
    assert client.post("/admin/authorities/authoritygroup/add/", {"name": "g"}).status_code == 302
    again = client.post("/admin/authorities/authoritygroup/add/", {"name": "g"})
    facts = {"name": "m", "kind": "regex", "built_for": "regex", "prerequisite": "", "time_limit": 5, "at_once": 4}
    facts |= {"configuration_pattern": "(.+)@x", "configuration_replacement": "$(1)"}

    made = client.post("/admin/authorities/mappingconnection/add/", facts)

    assert "Another authority group has the name" in again.content.decode()
    assert made.status_code == 302, made.content.decode()
    assert MappingConnection.objects.get().configuration == {"pattern": "(.+)@x", "replacement": "$(1)"}
    assert AuthorityGroup.objects.count() == 1


def test_the_authority_service_reads_connections_only_after_a_change(authority, django_assert_num_queries):
    authority_service().ask({"": "alice"})

    with django_assert_num_queries(2):
        authority_service().ask({"": "alice"})
