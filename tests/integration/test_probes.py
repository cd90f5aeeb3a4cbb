"""Proves the probes `/healthz` and `/readyz` of the web server, which need no login."""

import pytest
from django.db.migrations.recorder import MigrationRecorder
from django.test import Client, RequestFactory

from crawlctl.web.probes import Probes

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
@pytest.mark.parametrize("method", ["get", "head"])
def test_a_running_web_server_is_healthy_and_ready(path, method):
    answer = getattr(Client(), method)(path)

    assert answer.status_code == 200
    assert answer.headers["Cache-Control"] == "no-store"
    assert not answer.cookies


def test_a_probe_may_use_any_host_name_and_http(settings):
    settings.SECURE_SSL_REDIRECT = True

    for path in ("/healthz", "/readyz"):
        assert Client().get(path, headers={"Host": "10.1.2.3"}).status_code == 200
    assert Client().get("/", headers={"Host": "10.1.2.3"}).status_code == 400


def test_probes_answer_only_get_and_head():
    refused = Client().post("/readyz")

    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD")


@pytest.mark.django_db(transaction=True)
def test_without_a_database_the_process_is_healthy_but_not_ready(database_away):
    answer = Client().get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["code"] == "database_unavailable"
    assert answer.json()["detail"] == "The database does not answer: its server does not run or refuses connections."
    assert Client().get("/healthz").status_code == 200


def test_with_a_missing_migration_the_server_is_not_ready():
    MigrationRecorder.Migration.objects.filter(app="nodes").delete()

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()["code"]) == (503, "schema_behind")
    assert "migrate" in answer.json()["detail"]


def test_with_a_migration_of_a_newer_version_the_server_is_not_ready():
    MigrationRecorder.Migration.objects.create(app="jobs", name="9999_from_the_future")

    answer = Client().get("/readyz")

    assert (answer.status_code, answer.json()["code"]) == (503, "schema_too_new")


def test_many_probes_read_the_database_once(django_assert_max_num_queries):
    probes, request = Probes(lambda _request: None), RequestFactory().get("/readyz")
    probes(request)

    with django_assert_max_num_queries(0):
        assert [probes(request).status_code for _ in range(20)] == [200] * 20
