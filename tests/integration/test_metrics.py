"""Metrics at the web server: who may read them, and what they say of the cluster."""

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from crawlctl.roles import VIEWER
from jobs.metrics.table import shown_by
from jobs.models import InvariantCheck
from jobs.queries import cluster_figures
from nodes.metrics.figures import Level, Process
from tests.api import NOON, client_of, make_world, token_client_of
from tests.metrics import parse

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _read_anew(monkeypatch):
    monkeypatch.setattr(cluster_figures, "_GOOD_FOR", 0.0)


def read(client, **headers):
    answer = client.get("/metrics", **headers)
    assert answer.status_code == 200, answer.content
    return parse(answer.content.decode())


def test_nobody_reads_metrics_who_is_nobody_wherever_he_comes_from():
    assert APIClient().get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 401
    assert client_of().get("/metrics").status_code == 403


def test_who_may_see_nodes_reads_them_by_session_and_by_token():
    assert read(client_of(VIEWER))["crawlctl_database_up",] == 1
    assert APIClient().get("/metrics", HTTP_AUTHORIZATION="Bearer ").status_code == 401


def test_an_api_token_reads_them():
    assert read(token_client_of(VIEWER))["crawlctl_database_up",] == 1


def test_the_token_that_is_set_for_it_reads_them_and_no_other_one(settings):
    settings.CRAWLCTL_METRICS_TOKEN = "a word of our own"

    assert read(APIClient(), HTTP_AUTHORIZATION="Bearer a word of our own")["crawlctl_database_up",] == 1
    assert APIClient().get("/metrics", HTTP_AUTHORIZATION="Bearer another one").status_code == 401
    assert APIClient().get("/metrics", HTTP_AUTHORIZATION="Basic a word of our own").status_code == 401


def test_it_says_how_the_cluster_stands():
    make_world()
    InvariantCheck.objects.create(name="claims", checked_at=NOON, found=3, example="x", seconds=0.1)

    shown = read(client_of(VIEWER))

    assert shown["crawlctl_cluster_invariant_breaches", "claims"] == 3
    assert sum(amount for key, amount in shown.items() if key[0] == "crawlctl_cluster_jobs") == 1
    assert sum(amount for key, amount in shown.items() if key[0] == "crawlctl_cluster_nodes") >= 1


def test_everything_that_the_web_server_shows_is_read():
    shown = {name for name, *_ in read(client_of(VIEWER))}

    unread = {figure.name for figure in shown_by(Process.WEB) if figure.name not in shown and isinstance(figure, Level)}
    assert unread <= {"crawlctl_cluster_invariant_breaches"}


def test_a_reading_is_some_small_statements_and_the_next_within_seconds_none(monkeypatch):
    client = client_of(VIEWER)
    with CaptureQueriesContext(
        connection,
    ) as first:
        read(client)
    monkeypatch.setattr(cluster_figures, "_GOOD_FOR", 60.0)
    with CaptureQueriesContext(connection) as second:
        read(client)

    assert not [query["sql"] for query in first if "jobs_queueitem" in query["sql"]]
    assert 0 < len(first) - len(second) <= 12
    assert not [query["sql"] for query in second if "jobs_" in query["sql"]]
