"""Proves that `manage.py drill` injects a real fault, measures its effect, and cleans up afterwards."""

import json

import pytest

from jobs.models import Job, ThrottleGroup
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.models import Node
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask
from tests.support.processes import QUICK_HEARTBEATS, wait_for


@pytest.fixture
def drill(machine):
    """Run a drill in a sandbox. Return its exit code and its report."""

    def perform(*arguments):
        command = machine.start("drill", *arguments, "--json", **QUICK_HEARTBEATS, CRAWLCTL_VAR=str(machine.directory))
        code = command.wait(within=180)
        assert command.out, command.err
        return code, json.loads(command.out.splitlines()[-1])

    return perform


def test_a_killed_main_manager_is_replaced_and_others_own_its_groups(drill, machine):
    code, report = drill("kill", "main")

    assert (code, report["missing"]) == (0, [])
    assert report["took_over"] >= report["detected"] - 0.1
    assert (report["regrouped"] is not None) == (report["groups"] > 0)
    assert report["fetched"] is not None
    assert machine.database.value("SELECT count(*) FROM nodes_node WHERE status = 'failed'") == 1


def test_a_frozen_worker_is_marked_failed_loses_documents_and_cannot_write(drill):
    code, report = drill("freeze", "worker")

    assert (code, report["missing"]) == (0, [])
    # One interval is subtracted, because the last heartbeat may be up to one interval before the freeze.
    assert report["detected"] >= report["timeout"] - report["beat"]
    assert report["documents"] > 0
    assert report["returned"] >= report["detected"]
    assert report["refused"] > 0


def test_no_node_is_marked_failed_while_the_database_is_cut_off(drill):
    code, report = drill("cut", "database")

    assert (code, report["missing"], report["failed"]) == (0, [], 0)
    assert report["restored"] >= report["timeout"]


def test_a_drill_that_a_task_performs_leaves_only_its_report(machine):
    environment = QUICK_HEARTBEATS | {"CRAWLCTL_VAR": str(machine.directory)}
    for daemon in ("runmanager", "runtasks"):
        machine.start(daemon, **environment)
    verbs.create(kind="drill", arguments={"drill": "kill worker"}, made_by="a test")

    (done,) = wait_for(ArchivedTask.objects.filter(kind="drill").all, within=180, saying="the task has ended")

    assert (done.why, done.result["missing"]) == ("done", [])
    assert not Job.objects.exists()
    assert not ThrottleGroup.objects.exists()
    assert not Node.objects.filter(stopped_at=None).exclude(scope=CLUSTER_SCOPE).exists()
    assert not list((machine.directory / "drills").iterdir())
    history = machine.start("drill", "--history")
    assert history.wait() == 0
    assert "kill worker: failed after" in history.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["kill"], "Write a fault and a target"),
        (["cut", "worker"], "cut needs the target database"),
        (["kill", "database"], "cut needs the target database"),
        (["freeze", "worker", "--seconds", "-1"], "--seconds is -1"),
        (["kill", "worker", "--seconds", "3"], "kill has no duration"),
        (["kill", "worker", "--yes"], "--yes needs --production"),
        (["kill", "worker", "--production"], "No running worker was found"),
    ],
)
def test_an_invalid_drill_is_refused_with_a_reason(machine, arguments, sentence):
    command = machine.start("drill", *arguments)

    assert command.wait() == 2
    assert sentence in command.err


def test_a_drill_in_production_needs_a_confirmation(cluster, machine):
    workers = cluster.start("runmanager", "runworker", "runworker")[1:]

    command = machine.start("drill", "kill", "worker", "--production", **QUICK_HEARTBEATS)

    assert command.wait() == 2
    assert "--yes" in command.err
    assert not any(worker.has_ended for worker in workers)


def test_a_drill_is_refused_for_a_node_without_a_replacement(cluster, machine):
    _, worker = cluster.start("runmanager", "runworker")

    command = machine.start("drill", "kill", "worker", "--production", "--yes", **QUICK_HEARTBEATS)

    assert command.wait() == 2
    assert "is the only worker" in command.err
    assert not worker.has_ended
