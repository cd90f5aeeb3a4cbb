"""The web server shows metrics of the cluster, and only to clients that may read metrics."""

import os
import time

import pytest
from django.conf import settings
from django.db import connection
from django.test.utils import CaptureQueriesContext, override_settings
from rest_framework.test import APIClient

from crawlctl import __version__
from crawlctl.access.roles import VIEWER
from jobs.api import cluster_metrics
from jobs.lifecycle.document import Stage
from jobs.metrics.table import shown_by
from jobs.models import InvariantCheck, Job, JobCounter
from nodes.database.clock import read_clock
from nodes.metrics.kinds import Gauge, Process
from nodes.tasks import verbs
from tests.support.api import NOON, client_of, make_node, make_world, token_client_of
from tests.support.factories import make_job
from tests.support.metrics import parse

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _no_cached_figures(monkeypatch):
    monkeypatch.setattr(cluster_metrics, "_REUSED_FOR", 0.0)


def read(client, **headers):
    answer = client.get("/metrics", **headers)
    assert answer.status_code == 200, answer.content
    return parse(answer.content.decode())


def test_metrics_need_a_user_or_a_token_from_any_address():
    assert APIClient().get("/metrics", REMOTE_ADDR="127.0.0.1").status_code == 401
    assert client_of().get("/metrics").status_code == 403


def test_users_who_may_see_nodes_read_metrics_by_session_and_token():
    assert read(client_of(VIEWER))["crawlctl_database_up",] == 1
    assert APIClient().get("/metrics", HTTP_AUTHORIZATION="Bearer ").status_code == 401


def test_an_api_token_gives_access_to_metrics():
    assert read(token_client_of(VIEWER))["crawlctl_database_up",] == 1


def test_only_the_configured_metrics_token_gives_access_without_a_user(settings):
    settings.CRAWLCTL_METRICS_TOKEN = "a word of our own"

    assert read(APIClient(), HTTP_AUTHORIZATION="Bearer a word of our own")["crawlctl_database_up",] == 1
    assert APIClient().get("/metrics", HTTP_AUTHORIZATION="Bearer another one").status_code == 401
    assert APIClient().get("/metrics", HTTP_AUTHORIZATION="Basic a word of our own").status_code == 401


def test_the_metrics_show_the_state_of_the_cluster():
    make_world()
    InvariantCheck.objects.create(name="claims", checked_at=NOON, found=3, example="x", seconds=0.1)

    shown = read(client_of(VIEWER))

    assert shown["crawlctl_cluster_invariant_breaches", "claims"] == 3
    assert sum(amount for key, amount in shown.items() if key[0] == "crawlctl_cluster_jobs") == 1
    assert sum(amount for key, amount in shown.items() if key[0] == "crawlctl_cluster_nodes") >= 1


def test_a_scrape_has_every_metric_of_the_web_server_that_has_a_value():
    shown = {name for name, *_ in read(client_of(VIEWER))}

    unread = {figure.name for figure in shown_by(Process.WEB) if figure.name not in shown and isinstance(figure, Gauge)}
    assert unread <= {
        "crawlctl_cluster_invariant_breaches",
        "crawlctl_cluster_job_paused",
        "crawlctl_cluster_job_ended_timestamp_seconds",
        "crawlctl_cluster_attention_lines",
        "crawlctl_cluster_backup_age_seconds",
        "crawlctl_cluster_backup_log_age_seconds",
        "crawlctl_cluster_tasks",
        "crawlctl_cluster_task_workers",
        "crawlctl_cluster_tasks_ended",
    }


def shown_of(name):
    """Return the amounts of one metric by its label values, in the order of the label names."""
    with override_settings(CRAWLCTL_METRICS_TOKEN="a word of our own"):
        shown = read(APIClient(), HTTP_AUTHORIZATION="Bearer a word of our own")
    return {tuple(values): amount for (found, *values), amount in shown.items() if found == name}


def test_background_tasks_are_shown_by_group_and_state():
    verbs.create(kind="sleep", arguments={"seconds": 1}, group="mail", made_by="a test")

    assert shown_of("crawlctl_cluster_tasks") == {("mail", "queued"): 1}


def stored_job(name, **facts):
    """Return a job with these values in its row."""
    job = make_job(name=name)
    Job.objects.filter(pk=job.pk).update(**facts)
    return job


def test_paused_jobs_show_their_operator_and_the_reason():
    stored_job("by hand", phase="active", pause="paused")
    stored_job("full", phase="active", pause="paused", reason="The disk is full.")
    stored_job("moving", phase="active")

    assert shown_of("crawlctl_cluster_job_paused") == {
        ("operator", "by hand", ""): 1,
        ("crawlctl", "full", "The disk is full."): 1,
    }


def test_the_last_end_of_each_job_is_shown():
    stored_job("done", ended_at=NOON)
    make_job(name="new")

    assert shown_of("crawlctl_cluster_job_ended_timestamp_seconds") == {("done",): NOON.timestamp()}


def test_documents_of_paused_jobs_do_not_count_as_waiting():
    for name, pause in {"moving": "no", "held": "paused"}.items():
        job = stored_job(name, phase="active", pause=pause)
        JobCounter.objects.create(job_id=job.pk, run_no=job.run_no, measure="stage", stage=Stage.PENDING, amount=7)

    assert shown_of("crawlctl_cluster_waiting_documents") == {(): 7}
    assert shown_of("crawlctl_cluster_documents")["pending",] == 14


def test_the_size_of_the_database_the_free_disk_and_the_version_are_shown():

    assert shown_of("crawlctl_cluster_database_bytes")[()] > 1_000_000
    assert shown_of("crawlctl_build_info") == {(__version__,): 1}
    assert shown_of("crawlctl_disk_free_bytes")[str(settings.VAR_DIR),] > 0


def test_the_age_of_the_last_backup_is_read_from_its_file(settings, tmp_path):
    assert shown_of("crawlctl_cluster_backup_age_seconds") == {}

    settings.CRAWLCTL_BACKUP_FILE = str(tmp_path / "backup")
    assert shown_of("crawlctl_cluster_backup_age_seconds") == {(): float("inf")}

    (tmp_path / "backup").touch()
    an_hour_ago = time.time() - 3600
    os.utime(tmp_path / "backup", (an_hour_ago, an_hour_ago))
    assert 3600 <= shown_of("crawlctl_cluster_backup_age_seconds")[()] < 3700


def test_lines_of_the_attention_list_are_counted_by_kind():
    make_node(name="w1", status="failed", reason="It was silent.", stopped_at=read_clock())

    assert shown_of("crawlctl_cluster_attention_lines")["node_lost", ""] == 1


def test_a_scrape_needs_few_statements_and_the_next_scrape_needs_none(monkeypatch):
    client = client_of(VIEWER)
    with CaptureQueriesContext(
        connection,
    ) as first:
        read(client)
    monkeypatch.setattr(cluster_metrics, "_REUSED_FOR", 60.0)
    with CaptureQueriesContext(connection) as second:
        read(client)

    assert not [query["sql"] for query in first if "jobs_queueitem" in query["sql"]]
    assert 0 < len(first) - len(second) <= 47
    assert not [query["sql"] for query in second if "jobs_" in query["sql"]]
