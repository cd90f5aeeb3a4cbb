"""Proves that pages of jobs and the attention list name workers without free space on a disk."""

import pytest

from jobs.attention.disks import disks_without_room
from jobs.duties.disks import report_full_disks
from jobs.models import Job
from nodes.membership import members
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_policy, make_running_job
from tests.support.stepping import Main

WHY = "the disk of /srv has 3 MiB left"


@pytest.fixture
def main(connection):
    return Main(connection)


@pytest.fixture
def job(main):
    return make_running_job(main.node, policy=make_policy()).job


def report_full_disk(connection, worker, disk):
    """Make the worker send a heartbeat with this report of a full disk. It is empty if no disk is full."""
    members.beat(connection, node_id=worker.id, progress={"disk": disk})


def reason_of(main, job):
    main.step(report_full_disks)
    return Job.objects.get(pk=job.pk).reason


def test_a_job_shows_a_reason_while_no_worker_has_free_disk_space(connection, main, job):
    first, second = (register_node(connection, "worker", name=name) for name in ("first", "second"))

    report_full_disk(connection, first, WHY)
    assert reason_of(main, job) == ""

    report_full_disk(connection, second, WHY)
    assert reason_of(main, job) == f"Waiting for room on a disk: first: {WHY}"

    report_full_disk(connection, first, "")
    assert reason_of(main, job) == ""


def test_a_full_disk_does_not_overwrite_another_reason_shown_for_a_job(connection, main, job):
    Job.objects.update(reason="its output refuses")
    report_full_disk(connection, register_node(connection, "worker"), WHY)

    assert reason_of(main, job) == "its output refuses"


def test_the_attention_list_has_a_line_for_each_worker_with_a_full_disk(connection):
    report_full_disk(connection, register_node(connection, "worker", name="w1"), WHY)
    report_full_disk(connection, register_node(connection, "worker", name="w2"), "")

    (line,) = disks_without_room(NOON)

    assert (line.kind, line.subject) == ("disk_full", "w1")
    assert WHY in line.sentence
