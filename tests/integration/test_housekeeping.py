"""Proves that the main manager deletes old nodes with their records, and keeps records that are still in use."""

import datetime as dt

import pytest

from jobs.duties.cleaning import clean, clean_without_task_workers
from jobs.duties.retention_subjects import SUBJECTS
from jobs.models import Job, JobEvent
from nodes.membership import members
from nodes.models import ClusterRequest, MainTerm, Node, NodeEvent
from tests.support.cluster import elect_main, register_node, seconds, status_of
from tests.support.factories import make_group, make_job
from tests.support.stepping import Main

LONG = dt.timedelta(days=15)


@pytest.fixture
def main(connection):
    """Return a function that performs the duty of the main manager as if it were later."""
    manager = register_node(connection, "manager", name="main")
    term = elect_main(connection, manager)

    def clean_nodes(*, later):
        now = dt.datetime.now(tz=dt.UTC) + later
        clean(connection, SUBJECTS["nodes"], now=now, term=term)

    return clean_nodes


def end(connection, node):
    members.begin_draining(connection, node_id=node.id, reason="asked to stop")
    members.stop(connection, node_id=node.id, reason="asked to stop")


def names():
    return sorted(Node.objects.values_list("name", flat=True))


def test_nodes_that_ended_long_ago_are_deleted_with_their_events(connection, main):
    gone = register_node(connection, "worker", name="gone")
    end(connection, gone)

    main(later=LONG)

    assert names() == ["main"]
    assert not NodeEvent.objects.filter(node=gone.id).exists()


def test_live_nodes_and_nodes_that_ended_recently_are_kept(connection, main):
    end(connection, register_node(connection, "worker", name="lately"))

    main(later=seconds(3600))

    assert names() == ["lately", "main"]
    assert NodeEvent.objects.count() > 4


def test_requests_that_ended_long_ago_are_deleted_and_open_ones_are_kept(connection, main):
    now = dt.datetime.now(tz=dt.UTC)
    usual = {"kind": ClusterRequest.Kind.REBALANCE, "asked_by": "somebody", "asked_at": now}
    ClusterRequest.objects.create(**usual, state=ClusterRequest.State.DONE, ended_at=now)
    still_open = ClusterRequest.objects.create(**usual)

    main(later=seconds(3600))
    assert ClusterRequest.objects.count() == 2
    main(later=LONG)
    assert ClusterRequest.objects.get() == still_open


def test_the_owner_of_a_group_is_not_deleted(connection, main):
    owner = register_node(connection, "manager", name="owner")
    make_group(make_job().seeds.get(), owner=owner)
    end(connection, owner)

    main(later=LONG)

    assert status_of(connection, owner.id) == "stopped"


def test_the_scope_of_a_one_shot_is_deleted_with_its_last_node(connection, main):
    ended, waited_for = (
        register_node(connection, "manager", name=scope, scope=scope) for scope in ("ended", "waited for")
    )
    alive = register_node(connection, "manager", name="alive", scope="alive")
    for node in (ended, waited_for, alive):
        elect_main(connection, node)
    Job.objects.filter(pk=make_job().pk).update(node_scope="waited for")
    end(connection, ended)
    end(connection, waited_for)

    main(later=LONG)

    assert sorted(MainTerm.objects.values_list("scope", flat=True)) == ["alive", "cluster", "waited for"]
    assert names() == ["alive", "main", "waited for"]


def test_a_main_manager_deletes_old_rows_itself_while_there_is_no_task_worker(connection, settings):
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, "crawl.keep_journals": 30}
    main = Main(connection)
    for days in (1, 20, 40):
        JobEvent.objects.create(job_name="old", at=main.now - dt.timedelta(days=days), kind="note", message=f"{days}")
    gone = register_node(connection, "worker", name="gone")
    end(connection, gone)
    main.now += LONG

    main.step(clean_without_task_workers)

    assert sorted(JobEvent.objects.values_list("message", flat=True)) == ["1"]
    assert "gone" not in names()
