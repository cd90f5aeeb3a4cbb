"""
Proves that after a clock jump of days beyond the last heartbeat, deletions by age do not use the new time for a day.
"""

import datetime as dt
from uuid import uuid4

import pytest
from django.db import connection as django_connection

from jobs.models import JobEvent
from jobs.retention import kinds
from nodes.membership import members
from nodes.membership.silent_periods import moment_of_ages
from nodes.models import Node, NodeEvent
from nodes.tasks import roster
from nodes.tasks.context import TaskContext
from nodes.tasks.models import TaskWorker
from tests.support.cluster import register_node
from tests.support.jumps import set_clock_back

pytestmark = pytest.mark.django_db(transaction=True)
DAY = dt.timedelta(days=1)
JUMP = 40 * DAY
NEARLY = dt.timedelta(minutes=1)


@pytest.fixture(autouse=True)
def journals_are_kept_for_thirty_days(settings):
    settings.CRAWLCTL_ENVIRONMENT = {**settings.CRAWLCTL_ENVIRONMENT, "crawl.keep_journals": 30}


def register(connection):
    """Register a node of a machine that no other node shares."""
    return register_node(connection, "worker", boot_id=str(uuid4()))


def now_of(connection):
    return connection.execute("SELECT clock_timestamp()").fetchone()[0]


def write_journal(connection, *ages):
    for age in ages:
        JobEvent.objects.create(job_name="old", at=now_of(connection) - age * DAY, kind="note", message=f"{age}")


def clean_journals():
    """Perform the task. Return the ages that the remaining entries had when they were written."""
    django_connection.ensure_connection()
    kinds.clean(TaskContext(task=1, group="generic"), {"subject": "journals"})
    return sorted(float(event.message) for event in JobEvent.objects.all())


def silences():
    return NodeEvent.objects.filter(detail__has_key="silent_since")


def test_a_clock_jump_while_nodes_run_deletes_no_young_rows(connection):
    node = register(connection)
    write_journal(connection, 1, 20, 31)

    set_clock_back(connection, -JUMP)
    members.beat(connection, node_id=node.id, progress={})

    assert clean_journals() == [1, 20]


def test_a_clock_jump_is_noticed_before_the_first_heartbeat(connection):
    register(connection)
    write_journal(connection, 1, 20, 31)

    set_clock_back(connection, -JUMP)

    assert clean_journals() == [1, 20]


def test_a_clock_jump_while_nothing_runs_deletes_no_young_rows(connection):
    register(connection)
    write_journal(connection, 1, 20, 31)

    set_clock_back(connection, -JUMP)
    register(connection)

    assert clean_journals() == [1, 20]


def test_a_clock_jump_is_noticed_by_heartbeats_of_task_workers(connection):
    me = register(connection)
    Node.objects.all().delete()
    roster.register(connection, me=me, work_on="any")
    write_journal(connection, 1, 20, 31)

    set_clock_back(connection, -JUMP)
    assert roster.beat(connection, worker=me.id)

    assert clean_journals() == [1, 20]


def test_rows_are_deleted_by_the_new_time_a_day_after_the_jump(connection):
    node = register(connection)
    write_journal(connection, 1, 20, 31)
    set_clock_back(connection, -JUMP)
    members.beat(connection, node_id=node.id, progress={})

    silences().update(at=now_of(connection) - DAY)

    assert clean_journals() == []


def test_ages_count_from_the_present_after_the_clock_was_corrected(connection):
    node = register(connection)
    set_clock_back(connection, -JUMP)
    members.beat(connection, node_id=node.id, progress={})
    set_clock_back(connection, JUMP)

    register(connection)

    now = now_of(connection)
    assert moment_of_ages(connection, now=now) == now


def test_a_silence_is_recorded_in_the_journal_once(connection):
    nodes = [register(connection) for _ in range(3)]
    set_clock_back(connection, -JUMP)

    for node in [*nodes, *nodes]:
        members.beat(connection, node_id=node.id, progress={})
    register(connection)

    [event] = silences()
    assert event.message.startswith("No node was alive since")


def test_heartbeats_of_task_workers_prevent_a_silence_without_nodes(connection):
    me = register(connection)
    Node.objects.update(heartbeat_at=now_of(connection) - JUMP)
    roster.register(connection, me=me, work_on="any")
    silences().delete()
    TaskWorker.objects.update(last_seen_at=now_of(connection) - NEARLY)

    now = now_of(connection)
    assert moment_of_ages(connection, now=now) == now


def test_a_jump_of_hours_deletes_no_rows_that_are_hours_too_young(connection):
    node = register(connection)
    write_journal(connection, 29.9, 30.1)

    set_clock_back(connection, -dt.timedelta(hours=22))
    members.beat(connection, node_id=node.id, progress={})

    assert clean_journals() == [29.9]


def test_a_short_time_without_nodes_does_not_count_as_a_silence(connection):
    node = register(connection)
    set_clock_back(connection, -dt.timedelta(minutes=28))

    members.beat(connection, node_id=node.id, progress={})
    register(connection)

    assert not silences().exists()


@pytest.mark.parametrize("beats", ["node", "task worker"])
def test_a_process_that_was_suspended_alone_does_not_record_a_silence(connection, beats):
    node, other = register(connection), register(connection)
    roster.register(connection, me=other, work_on="any")
    late = now_of(connection) - dt.timedelta(hours=2)
    if beats == "node":
        Node.objects.filter(id=node.id).update(heartbeat_at=late)
        members.beat(connection, node_id=node.id, progress={})
    else:
        TaskWorker.objects.update(last_seen_at=late)
        assert roster.beat(connection, worker=other.id)

    assert not silences().exists()
