"""Proves that the web server applies settings that are stored while it runs."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from jobs.models import Activity, Job
from jobs.settings.table import TABLE
from nodes.settings import versions
from tests.support.api import make_user
from tests.support.factories import make_job

pytestmark = pytest.mark.django_db


@pytest.fixture
def client():
    client = Client()
    client.force_login(make_user("administrator"))
    return client


def start(client, job):
    answer = client.post(f"/api/v1/jobs/{job.pk}/start/", {}, content_type="application/json")
    assert answer.status_code < 300, answer.content
    return Job.objects.get(pk=job.pk)


def test_pages_write_no_history_after_the_history_was_switched_off(client):
    versions.store(TABLE, {"crawl": {"keep_history": 0}}, made_by="otto")

    start(client, make_job())

    assert not Activity.objects.exists()


def test_settings_are_read_at_most_once_a_heartbeat(client):
    with CaptureQueriesContext(connection) as asked:
        client.get("/api/v1/jobs/")
        client.get("/api/v1/jobs/")

    assert sum("nodes_settingsversion" in query["sql"] for query in asked) == 1
