"""Proves that tasks survive the death of workers, managers and single processes of a worker."""

import datetime as dt
import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from nodes.database.clock import read_clock
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from tests.support.forking import ROOT
from tests.support.processes import QUICK_HEARTBEATS, wait_for
from tests.support.task_kinds import NAMED
from tests.support.tasks import lines_of

KINDS = {"CRAWLCTL_TASKS": NAMED}
SHORT_TIMEOUT = {"CRAWLCTL_CONSIDERED_DEAD_AFTER": "1.5"}
AGAIN = {"policy": "times", "times": 5, "seconds": 0}
# Number of tasks, and number of kills of the main manager meanwhile. A full test has 1,000 and 50, which takes some
# minutes.
TASKS, KILLS = (int(number) for number in os.environ.get("CRAWLCTL_TEST_LEADER_KILLS", "60,3").split(","))


# Script that starts a task worker, and requests its stop right after its registration.
STOPPED_DURING_ITS_START = """
import os, signal
import django
django.setup()
from jobs.loops.task_worker import run_task_worker
from nodes.tasks import roster
register = roster.register
def register_and_stop(*arguments, **facts):
    register(*arguments, **facts)
    os.kill(os.getpid(), signal.SIGTERM)
roster.register = register_and_stop
run_task_worker(name="short", work_on="*")
"""


@pytest.fixture(autouse=True)
def kinds(settings):
    settings.CRAWLCTL_TASKS = (NAMED,)


@pytest.fixture(autouse=True)
def no_templates(machine):
    """Remove the built-in templates, whose tasks would run among those of a test."""
    TaskTemplate.objects.all().delete()


@pytest.fixture
def manager(cluster):
    return cluster.start("runmanager")[0]


@pytest.fixture
def start_worker(cluster):
    """Start a task worker, and wait until it is on the roster."""

    def start(*arguments, **environment):
        command = cluster.machine.start("runtasks", *arguments, **(QUICK_HEARTBEATS | KINDS | environment))
        wait_for(lambda: command.has_ended or row_of(command) is not None, saying="the worker is on the roster")
        assert not command.has_ended, command.err
        return command

    return start


@pytest.fixture
def notes(tmp_path):
    return tmp_path / "notes"


def row_of(command):
    return TaskWorker.objects.filter(pid=command.pid).first()


def note(notes, **facts):
    seconds = facts.pop("seconds", 0)
    return verbs.create(kind="note", arguments={"file": str(notes), "seconds": seconds}, made_by="a test", **facts)


def wait_for_begin(task):
    wait_for(lambda: Task.objects.filter(pk=task.pk, started_at__isnull=False).exists(), saying="the task runs")


def wait_for_end(task, within=60):
    return wait_for(lambda: ArchivedTask.objects.filter(pk=task.pk).first(), within=within, saying="the task has ended")


def main_of(cluster, managers):
    """Return the main manager if it is among these live managers, else None."""
    main_id = cluster.database.value("SELECT main_id FROM nodes_mainterm WHERE scope = 'cluster' AND NOT resigned")
    return next((manager for manager in managers if cluster.node_of(manager).id == main_id), None)


def executing_child(command):
    """Return the process that executes the tasks of a worker. It is the first child of the worker."""
    return min(psutil.Process(command.pid).children(), key=lambda child: child.pid)


def test_a_task_worker_that_is_stopped_during_its_start_leaves_the_roster(machine):
    environment = {**machine.database.environment, "DJANGO_SETTINGS_MODULE": "crawlctl.settings"}

    done = subprocess.run(
        [sys.executable, "-c", STOPPED_DURING_ITS_START],
        cwd=ROOT,
        env=environment,
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    assert not TaskWorker.objects.exists()


def test_a_worker_is_on_the_roster_and_leaves_it_when_it_is_stopped(cluster, start_worker):
    worker = start_worker("--work-on", "mail", "--name", "post")
    row = row_of(worker)

    assert (row.name, row.work_on, row.pid) == ("post", "mail", worker.pid)
    wait_for(lambda: len(psutil.Process(worker.pid).children()) == 3, saying="the processes of the worker run")
    stopped_at = time.monotonic()
    worker.send(signal.SIGTERM)
    wait_for(lambda: row_of(worker) is None, within=5, saying="the worker left the roster")
    assert time.monotonic() - stopped_at < 2
    assert worker.wait() == 0


def test_a_due_task_begins_within_two_seconds_and_not_before_its_date(manager, start_worker, notes):
    start_worker()
    at_once, later = note(notes), note(notes, at=read_clock() + dt.timedelta(seconds=3))

    first, second = wait_for_end(at_once), wait_for_end(later)

    for task in (first, second):
        assert 0 <= (task.last_started_at - task.last_due_at).total_seconds() < 2


def test_a_stopped_worker_finishes_its_task_before_it_ends(manager, start_worker, notes):
    worker = start_worker()
    task = note(notes, seconds=3)
    wait_for_begin(task)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    assert ArchivedTask.objects.get(pk=task.pk).why == "done"
    assert not TaskWorker.objects.exists()


def test_a_task_that_does_not_end_in_time_follows_its_policy(manager, start_worker, notes):
    worker = start_worker(CRAWLCTL_TASKS_STOP_WITHIN="0.5")
    task = note(notes, seconds=600, retry_policy=AGAIN)
    wait_for_begin(task)

    worker.send(signal.SIGTERM)

    assert worker.wait() == 0
    waiting = Task.objects.get(pk=task.pk)
    assert (waiting.last_crashed, waiting.last_class, waiting.worker_id) == (True, "WorkerLost", None)


def test_a_task_that_takes_ten_times_its_workers_timeout_runs_once(cluster, start_worker, notes):
    cluster.start("runmanager", **SHORT_TIMEOUT)
    worker = start_worker(**SHORT_TIMEOUT)
    task = note(notes, seconds=10 * float(SHORT_TIMEOUT["CRAWLCTL_CONSIDERED_DEAD_AFTER"]))
    wait_for_begin(task)
    seen_at = row_of(worker).last_seen_at

    assert wait_for_end(task).attempts == 1
    assert row_of(worker).last_seen_at > seen_at
    assert len(lines_of(notes)) == 2


def test_a_task_that_kills_its_process_is_retried_by_its_policy(manager, start_worker, notes):
    worker = start_worker()
    task = verbs.create(kind="exit", retry_policy={"policy": "times", "times": 1, "seconds": 0}, made_by="a test")

    ended = wait_for_end(task)

    assert (ended.why, ended.attempts, ended.last_crashed) == ("tried-too-many-times", 2, True)
    assert wait_for_end(note(notes)).why == "done"
    assert row_of(worker) is not None


def test_a_killed_executing_process_is_replaced_and_the_task_runs_again(manager, start_worker, notes):
    worker = start_worker()
    task = note(notes, seconds=2, retry_policy=AGAIN)
    wait_for_begin(task)

    executing_child(worker).kill()

    ended = wait_for_end(task)
    assert (ended.why, ended.attempts) == ("done", 2)
    assert row_of(worker) is not None


def test_an_idle_process_that_is_killed_is_replaced(manager, start_worker, notes):
    worker = start_worker()
    for place in range(3):
        wait_for(lambda: len(psutil.Process(worker.pid).children()) == 3, saying="the processes of the worker run")
        sorted(psutil.Process(worker.pid).children(), key=lambda child: child.pid)[place].kill()
        assert wait_for_end(note(notes)).why == "done"


def test_a_killed_worker_leaves_no_process_and_its_task_goes_to_another(manager, start_worker, notes):
    worker = start_worker()
    task = note(notes, seconds=2, retry_policy=AGAIN)
    wait_for_begin(task)
    children = psutil.Process(worker.pid).children()
    start_worker("--name", "another")

    worker.kill()

    assert psutil.wait_procs(children, timeout=10)[1] == []
    ended = wait_for_end(task)
    assert (ended.why, ended.attempts) == ("done", 2)
    assert [row.name for row in TaskWorker.objects.all()] == ["another"]


def test_a_frozen_worker_is_retired_and_ends_when_it_wakes(cluster, start_worker, notes):
    cluster.start("runmanager", **SHORT_TIMEOUT)
    worker = start_worker(**SHORT_TIMEOUT)
    task = note(notes, seconds=1, retry_policy=AGAIN)
    wait_for_begin(task)
    frozen = [psutil.Process(worker.pid), *psutil.Process(worker.pid).children()]
    for process in frozen:
        process.suspend()

    wait_for(lambda: not Task.objects.filter(started_at__isnull=False).exists(), saying="the worker is retired")
    start_worker("--name", "another", **SHORT_TIMEOUT)
    assert wait_for_end(task).attempts == 2
    for process in frozen:
        process.resume()

    assert worker.wait() == 1
    assert "tasks went to other workers" in worker.err
    assert (ArchivedTask.objects.get(pk=task.pk).attempts, Task.objects.count()) == (2, 0)


def test_a_process_above_the_memory_limit_ends_after_its_task(manager, start_worker):
    worker = start_worker("--memory-limit", "250")
    wait_for(lambda: len(psutil.Process(worker.pid).children()) == 3, saying="the processes of the worker run")
    first = executing_child(worker)

    small = wait_for_end(verbs.create(kind="grow", arguments={"megabytes": 1}, made_by="a test"))
    assert executing_child(worker) == first
    large = wait_for_end(verbs.create(kind="grow", arguments={"megabytes": 300}, made_by="a test"))

    assert (small.why, large.why) == ("done", "done")
    wait_for(lambda: not first.is_running(), saying="the process has ended")
    assert row_of(worker) is not None


def test_kills_of_the_main_manager_lose_and_repeat_no_task(cluster, start_worker, notes):
    managers = cluster.start("runmanager", "runmanager")
    for number in range(2):
        start_worker("--name", f"worker-{number}")
    tasks = []
    for _ in range(KILLS):
        tasks += [note(notes, seconds=0.01) for _ in range(TASKS // KILLS)]
        main = wait_for(lambda managers=managers: main_of(cluster, managers), saying="a living manager is main")
        wait_for(lambda tasks=tasks: len(lines_of(notes)) > 2 * len(tasks) - TASKS // KILLS, saying="tasks run")
        main.kill()
        managers = [manager for manager in managers if manager is not main] + cluster.start("runmanager")
    wait_for(lambda: not Task.objects.exists(), within=120, saying="all tasks have ended")

    begun = [line["task"] for line in lines_of(notes) if line["begins"]]
    assert sorted(begun) == sorted(task.pk for task in tasks)
    assert set(ArchivedTask.objects.values_list("why", "attempts")) == {("done", 1)}
