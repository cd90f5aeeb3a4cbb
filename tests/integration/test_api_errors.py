"""Proves that the API refuses bad input with errors of one form, without a change and without a server error."""

import json

import psycopg
import pytest
from django.db import InternalError, connection
from rest_framework.test import APIClient

from crawlctl.access.roles import ADMINISTRATOR, VIEWER
from jobs.api.views import JobView
from jobs.models import Job, ThrottlePolicy
from jobs.verbs.control import VERBS
from nodes.database.outage import is_outage, outage
from tests.support import lost_conflicts
from tests.support.api import assert_problem, client_of, make_world
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db

POLICIES = "/api/v1/policies/"


@pytest.fixture
def administrator():
    return client_of(ADMINISTRATOR)


def send(client, body, *, address=POLICIES, content_type="application/json"):
    return client.generic("POST", address, body, content_type=content_type)


@each_row(
    ("body", "says"),
    [
        (b"{", "line 1, column 2"),
        (b'{"name": "x",}', "not JSON"),
        (b'{"name": "\xff"}', "not UTF-8"),
        (b'{"name": "x", "min_gap": NaN}', "NaN"),
        (b'{"name": "x", "min_gap": Infinity}', "Infinity"),
        (b'{"name": "x", "min_gap": 1e400}', "out of range"),
        (b'{"name": "x", "open_requests": %s}' % (b"9" * 5000), "out of range"),
        (b'{"name": "a\\u0000b"}', "NUL"),
        (b'{"na\\u0000me": "b"}', "NUL"),
        (b'{"name": "\\ud800"}', "surrogate"),
        (b'{"name": ["' + b"[" * 10 + b'\\udfff"]}', "surrogate"),
        (b"[" * 100_000, "nested"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_with_a_reason(administrator, body, says):
    problem = assert_problem(send(administrator, body), 400, "parse_error")

    assert says in problem["detail"]
    assert not ThrottlePolicy.objects.exists()


@each_row("body", [b"[]", b'"text"', b"7", b"null"])
def test_a_body_that_is_no_object_is_refused(administrator, body):
    assert_problem(send(administrator, body), 400, "invalid", fields=["request"])


def test_a_body_above_the_limit_is_refused(administrator):
    body = json.dumps({"name": "x" * 17_000_000})

    assert_problem(send(administrator, body), 413, "too_large")


@each_row("content_type", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x"])
def test_a_body_of_another_type_is_refused(administrator, content_type):
    assert_problem(send(administrator, b"name=x", content_type=content_type), 415, "unsupported_media_type")


def test_a_request_that_accepts_only_another_type_is_refused(administrator):
    assert_problem(administrator.get(POLICIES, HTTP_ACCEPT="text/csv"), 406, "not_acceptable")


def test_an_unknown_field_is_named_with_a_list_of_known_fields(administrator):
    problem = assert_problem(
        administrator.post(POLICIES, {"name": "x", "speed": 3, "color": "red"}),
        400,
        "invalid",
        fields=["speed", "color"],
    )

    (sentence,) = problem["fields"]["speed"]
    assert sentence.startswith("Unknown field; known fields: name, open_requests, min_gap, ")


def test_a_field_that_crawlctl_sets_is_refused(administrator):
    job = make_world().job

    assert_problem(
        administrator.patch(f"/api/v1/jobs/{job.pk}/", {"phase": "active"}), 400, "invalid", fields=["phase"]
    )

    job.refresh_from_db()
    assert job.phase == "inactive"


@each_row(
    ("field", "value"),
    [
        ("open_requests", 0),
        ("open_requests", -1),
        ("open_requests", 10**30),
        ("open_requests", 1.5),
        ("open_requests", True),
        ("open_requests", None),
        ("min_gap", -0.1),
        ("min_gap", 1e300),
        ("min_gap", "fast"),
        ("name", ""),
        ("name", "x" * 201),
        ("name", None),
        ("name", ["x"]),
    ],
)
def test_an_invalid_value_is_refused_with_its_field(administrator, field, value):
    body = {"name": "x"} | {field: value}

    assert_problem(administrator.post(POLICIES, body), 400, "invalid", fields=[field])
    assert not ThrottlePolicy.objects.exists()


@each_row(
    "address",
    [
        "/api/v1/",
        "/api/v1/nothing/",
        "/api/v1/jobs",
        "/api/v1/jobs/0/",
        "/api/v1/jobs/9999999999999999999/",
        "/api/v1/jobs/-1/",
        "/api/v1/jobs/one/",
        "/api/v1/jobs/1%00/",
        "/api/v1/jobs/\u0661/",
        "/api/v1/jobs/99/counts/",
        "/api/v1/policies/9999999999999999999/",
        "/api/v1/outputs/7777777/",
        "/api/v1/documents/1-00000000000000000000000000000000/",
        "/api/v1/documents/9999999999999999999-00000000000000000000000000000000/",
        "/api/v1/documents/1-x/",
        "/api/v1/nodes/00000000-0000-0000-0000-000000000000/",
    ],
)
def test_an_unknown_address_is_not_found(administrator, address):
    assert_problem(administrator.get(address), 404, "not_found")


@each_row("verb", sorted(VERBS))
@each_row("job", [77, 9999999999999999999])
def test_an_action_on_an_unknown_job_is_not_found(administrator, verb, job):
    assert_problem(administrator.post(f"/api/v1/jobs/{job}/{verb}/"), 404, "not_found")


def test_a_request_without_a_login_is_refused_with_the_way_to_log_in():
    response = APIClient().get("/api/v1/jobs/")

    assert_problem(response, 401, "not_authenticated")
    assert response["WWW-Authenticate"] == "Token"


def test_a_wrong_method_is_refused_with_the_allowed_methods(administrator):
    response = administrator.delete(POLICIES)

    assert_problem(response, 405, "method_not_allowed")
    assert "POST" in response["Allow"]


@each_row(
    ("query", "field"),
    [
        ("limit=0", "limit"),
        ("limit=1000000000", "limit"),
        ("limit=many", "limit"),
        ("limit=1&limit=2", "limit"),
        ("cursor=x", "cursor"),
        ("cursor=a%00b", "cursor"),
        ("phase=asleep", "phase"),
        ("ordering=id;DROP", "ordering"),
        ("name=%00", "name"),
    ],
)
def test_a_list_refuses_invalid_parameters(query, field):
    refused = client_of(VIEWER).get(f"/api/v1/jobs/?{query}")

    assert_problem(refused, 400, "invalid", fields=[field])
    assert refused.json()["detail"] == f"Invalid fields: {field}."


def test_a_cursor_of_another_list_is_refused(administrator):
    for name in ("first", "second"):
        ThrottlePolicy.objects.create(name=name)
    following = administrator.get(f"{POLICIES}?limit=1").json()["next"]

    response = administrator.get(following.replace("/policies/", "/outputs/"))

    assert_problem(response, 400, "invalid", fields=["cursor"])


def test_policies_repositories_and_outputs_in_use_are_not_deleted(administrator):
    world = make_world()

    for address in (f"policies/{world.policy.pk}", f"repositories/{world.repository.pk}", f"outputs/{world.output.pk}"):
        assert_problem(administrator.delete(f"/api/v1/{address}/"), 409, "in_use")

    assert Job.objects.get().outputs.count() == 1


def test_a_lost_database_is_answered_as_an_outage(dsn, administrator):
    with psycopg.connect(dsn, autocommit=True) as other:
        other.execute("SELECT pg_terminate_backend(%s)", [connection.connection.info.backend_pid])

    gone = administrator.get("/api/v1/jobs/")
    connection.close()

    assert_problem(gone, 503, "database_unavailable")
    assert administrator.get("/api/v1/jobs/").status_code == 200


def test_a_database_that_became_a_standby_is_answered_as_an_outage(administrator):
    connection.cursor().execute("SET LOCAL transaction_read_only = on")

    refused = administrator.post(POLICIES, {"name": "slow"})
    connection.close()

    assert "it is a standby and takes no changes" in assert_problem(refused, 503, "database_unavailable")["detail"]


def test_a_session_that_the_server_ended_during_a_pause_is_an_outage():
    ended = InternalError("terminating connection due to idle-in-transaction timeout")
    ended.__cause__ = psycopg.errors.IdleInTransactionSessionTimeout(str(ended))

    assert is_outage(ended)
    assert outage(ended) == "The database does not answer: it ended the session, because the request paused too long"
    assert not is_outage(InternalError("another error"))


@pytest.mark.parametrize("code", lost_conflicts.CODES)
def test_a_change_that_lost_a_conflict_can_be_repeated(administrator, code):
    policy = ThrottlePolicy.objects.create(name="gently")

    with lost_conflicts.losing(code):
        lost = administrator.patch(f"{POLICIES}{policy.pk}/", {"min_gap": 7})

    assert "Try again." in assert_problem(lost, 409, "conflict")["detail"]
    assert administrator.patch(f"{POLICIES}{policy.pk}/", {"min_gap": 7}).status_code == 200


def test_an_unexpected_error_is_logged_and_answered_like_other_errors(administrator, monkeypatch, caplog):
    def broken(self):
        raise KeyError("something of ours")

    monkeypatch.setattr(JobView, "get_queryset", broken)

    body = assert_problem(administrator.get("/api/v1/jobs/"), 500, "internal_error")

    assert "something of ours" not in json.dumps(body)
    assert any(record.exc_info for record in caplog.records)


def test_an_unknown_host_header_is_refused_and_logged_as_one_line(administrator, caplog):
    for address in ("/api/v1/jobs/", "/", "/login/", "/nothing"):
        caplog.clear()

        refused = administrator.get(address, headers={"Host": "evil.test"})

        assert_problem(refused, 400, "unknown_host")
        assert [(record.levelname, record.exc_info) for record in caplog.records] == [("WARNING", None)]
        assert "evil.test" in caplog.text


def test_a_query_that_names_two_clusters_is_refused(administrator):
    refused = administrator.get("/api/v1/cluster/coordination/?cluster=a&cluster=b")

    assert_problem(refused, 400, "invalid", fields=["cluster"])
