"""
Proves that the main manager records the cluster for each minute of 30 days, and that the page and the API show any
minute.
"""

import datetime as dt
import json

import pytest
from django.test import Client
from django.utils import timezone

from jobs.duties.allocate import allocate_groups
from jobs.duties.minute_history import KEPT, keep_minute
from jobs.models import ClusterMinute, Job, Progress, ThrottleGroup
from jobs.queries.cluster.facts import add_up, from_text
from jobs.queries.cluster.history import read_cluster_then
from jobs.queries.cluster.present import read_present
from jobs.queries.progress import States
from nodes.membership.fences import FenceRefused
from nodes.models import Node
from tests.support.api import assert_problem, client_of, make_user
from tests.support.cluster import register_node
from tests.support.factories import make_job, make_policy
from tests.support.partitions import be_partition
from tests.support.stepping import Main, Manager

MINUTE = dt.timedelta(minutes=1)


class Cluster:
    """A main manager with one group of a running job, another manager, and a worker."""

    def __init__(self, connection):
        self.connection = connection
        self.main = Main(connection)
        self.began_at = self.main.now = timezone.now().replace(second=0, microsecond=0) - dt.timedelta(hours=6)
        self.job = make_job(policy=make_policy("newspapers"))
        Job.objects.update(phase="active", run_no=1, started_at=self.began_at)
        self.main.step(allocate_groups)
        self.other = Manager(connection, name="other")
        self.worker = register_node(connection, "worker", name="worker-1")
        self.group = ThrottleGroup.objects.get()

    def store_minute(self, *, after=MINUTE):
        """Let time pass, store the minute, and return the facts of that moment."""
        self.main.now += after
        self.main.step(keep_minute)
        return read_present(self.connection, scope="cluster", minute=self.main.now)

    def read_minute(self, at=None):
        return read_cluster_then(self.main.now if at is None else at)

    def count(self, documents):
        """Let documents end in the minute that is stored next."""
        Progress.objects.create(
            job_id=self.job.pk, step=60, at=self.main.now, documents=documents, bytes=10, requests=3
        )
        states = {"waiting": 1, "active": 2, "indexed": 3, "unchanged": 4, "failed": 5, "excluded": 6}
        Progress.objects.filter(job_id=self.job.pk).update(**states)


@pytest.fixture
def viewer(db):
    client = Client()
    client.force_login(make_user("viewer"))
    return client


@pytest.fixture
def cluster(connection):
    return Cluster(connection)


def kept_until(at):
    rows = ClusterMinute.objects.filter(at__lte=at).order_by("at")
    last_whole = max(number for number, row in enumerate(rows) if row.is_whole)
    return add_up(from_text(row.facts) for row in rows[last_whole:])


# --- What is kept --------------------------------------------------------------------------------


def test_each_stored_minute_is_shown_unchanged(cluster):
    seen = {cluster.main.now + MINUTE: cluster.store_minute()}
    for change in (
        lambda: ThrottleGroup.objects.update(owner=cluster.other.id),
        lambda: Node.objects.filter(pk=cluster.worker.id).update(status="failed", stopped_at=timezone.now()),
        lambda: Job.objects.update(pause="paused"),
        lambda: cluster.count(120),
        lambda: Job.objects.update(phase="inactive", pause="no"),
    ):
        change()
        facts = cluster.store_minute()
        seen[cluster.main.now] = facts

    assert len({json.dumps(facts, sort_keys=True) for facts in seen.values()}) == len(seen)
    for at, facts in seen.items():
        assert kept_until(at) == facts


def test_a_minute_without_a_change_is_stored_as_an_empty_row(cluster):
    cluster.store_minute()

    cluster.store_minute()

    assert [row.facts for row in ClusterMinute.objects.order_by("at")][1:] == ["{}"]


def test_a_minute_is_stored_once(cluster):
    cluster.store_minute()
    first = ClusterMinute.objects.get()
    Job.objects.update(pause="paused")

    cluster.store_minute(after=dt.timedelta(seconds=20))

    assert ClusterMinute.objects.get().facts == first.facts


def test_the_whole_state_is_stored_each_hour_and_kept_for_30_days(cluster):
    ClusterMinute.objects.create(at=cluster.main.now - KEPT - MINUTE, is_whole=True, facts="{}")
    for _quarter in range(9):
        cluster.store_minute(after=dt.timedelta(minutes=15))

    whole = ClusterMinute.objects.filter(is_whole=True).order_by("at").values_list("at", flat=True)
    assert [at - cluster.began_at for at in whole] == [dt.timedelta(minutes=15 + 60 * hour) for hour in range(3)]


def test_a_main_manager_whose_term_has_ended_stores_no_minute(cluster):
    cluster.connection.execute("UPDATE nodes_mainterm SET term = term + 1, main_id = %s", [cluster.other.id])

    with pytest.raises(FenceRefused):
        cluster.store_minute()

    assert not ClusterMinute.objects.exists()


# --- What is shown -------------------------------------------------------------------------------


def test_a_minute_has_its_main_owners_jobs_and_progress(cluster):
    cluster.count(120)
    cluster.store_minute()
    kept_at = cluster.main.now
    ThrottleGroup.objects.update(owner=cluster.other.id)
    Job.objects.update(phase="inactive")
    cluster.store_minute()

    stored = cluster.read_minute(kept_at)

    assert (stored.is_exact, stored.term, stored.main.id) == (True, 1, str(cluster.main.id))
    assert [(node.name, node.groups) for node in stored.managers] == [("n", 1), ("other", 0)]
    assert [node.name for node in stored.workers] == ["worker-1"]
    assert [(group.name, group.owner) for group in stored.groups] == [("newspapers", str(cluster.main.id))]
    (job,) = stored.jobs
    assert (job.name, job.status, job.run) == (cluster.job.name, "Running", 1)
    assert job.progress.documents == 120
    assert job.progress.states == States(waiting=1, active=2, indexed=3, unchanged=4, failed=5, excluded=6)
    assert cluster.read_minute().jobs == []


def test_a_minute_without_a_main_manager_is_shown_as_unknown(cluster, viewer):
    cluster.store_minute()
    cluster.store_minute(after=dt.timedelta(minutes=30))
    missing = cluster.main.now - dt.timedelta(minutes=10)

    stored = cluster.read_minute(missing)
    page = viewer.get(f"/cluster/history/?at={missing:%Y-%m-%dT%H:%M}").content.decode()

    assert (stored.is_exact, stored.at) == (False, cluster.main.now - dt.timedelta(minutes=30))
    assert "No state is stored for this minute" in page


def test_the_page_of_a_minute_links_to_earlier_and_later_minutes(cluster, viewer):
    cluster.store_minute()
    cluster.store_minute()
    at = cluster.main.now

    page = viewer.get(f"/cluster/history/?at={at:%Y-%m-%dT%H:%M}").content.decode()

    assert "newspapers" in page
    assert cluster.job.name in page
    assert f'href="?at={at + MINUTE:%Y-%m-%dT%H:%M}"' in page
    assert f'href="?at={at - MINUTE:%Y-%m-%dT%H:%M}"' in page
    assert f'href="?at={at - dt.timedelta(days=1):%Y-%m-%dT%H:%M}"' not in page


def test_the_page_says_if_no_minute_is_stored(viewer):
    page = viewer.get("/cluster/history/").content.decode()

    assert "No state is stored yet." in page


@pytest.mark.parametrize(
    "at", ["yesterday", "2026-13-01T00:00", "0000-00-00T00:00", "0001-01-01T00:00", "2026-01-01T00:00\x00"]
)
def test_an_invalid_minute_is_refused_with_the_right_form(viewer, at):
    answer = viewer.get("/cluster/history/", {"at": at})

    assert answer.status_code == 400
    assert "2030-01-31T12:00" in answer.content.decode() or "Null characters" in answer.content.decode()


def test_the_api_returns_the_same_minute(cluster):
    cluster.count(120)
    cluster.store_minute()
    client = client_of("viewer")

    stored = client.get(f"/api/v1/cluster/history/?at={cluster.main.now:%Y-%m-%dT%H:%M}:30Z").json()

    assert stored["at"] == f"{cluster.main.now:%Y-%m-%dT%H:%M:%S}Z"
    assert stored["is_exact"]
    assert [node["is_main"] for node in stored["managers"]] == [True, False]
    assert stored["jobs"][0]["progress"]["states"]["failed"] == 5
    assert stored["partition"] == ""
    assert_problem(client.get("/api/v1/cluster/history/?at=2020-01-01T00:00:00Z"), 404, "not_found")
    assert_problem(client.get("/api/v1/cluster/history/?at=noon"), 400, "invalid", fields=["at"])


def test_the_api_names_the_partition_that_a_minute_covers(cluster, settings):
    cluster.store_minute()
    be_partition(settings, "a")

    stored = client_of("viewer").get(f"/api/v1/cluster/history/?at={cluster.main.now:%Y-%m-%dT%H:%M}:30Z").json()

    assert stored["partition"] == "a"
