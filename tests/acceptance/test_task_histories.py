"""
Proves that every task is archived once in random histories of requests, stops and kills.

    CRAWLCTL_TEST_TASK_HISTORIES=100 pytest --timeout 0 tests/acceptance/test_task_histories.py
"""

import os
import random
import signal
import time

import pytest

from nodes.tasks import statistics, verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from tests.support.processes import QUICK_HEARTBEATS, wait_for
from tests.support.task_kinds import NAMED

HISTORIES = int(os.environ.get("CRAWLCTL_TEST_TASK_HISTORIES", "2"))
GROUPS = ("generic", "fast-lane")
ACTIONS = 12
# Retry policy: a task of a killed worker runs again, up to 20 times. More kills of one task are unlikely.
AGAIN = {"policy": "times", "times": 20, "seconds": 0}


class History:
    """A cluster under random actions."""

    def __init__(self, cluster, chance, notes):
        self.cluster, self.chance, self.notes = cluster, chance, notes
        self.managers = cluster.start("runmanager")
        self.workers = [self.start_worker() for _ in range(chance.randint(1, 4))]
        self.made = dict.fromkeys(GROUPS, 0)

    def start_worker(self):
        return self.cluster.machine.start("runtasks", **QUICK_HEARTBEATS, CRAWLCTL_TASKS=NAMED)

    def act(self):
        (
            self.enqueue
            if self.chance.random() < 0.5
            else self.chance.choice([self.wait, self.end_worker, self.end_manager])
        )()

    def enqueue(self):
        group = self.chance.choice(GROUPS)
        for _ in range(self.chance.randint(1, 10)):
            arguments = {"file": str(self.notes), "seconds": self.chance.random() / 20}
            verbs.create(kind="note", arguments=arguments, group=group, retry_policy=AGAIN, made_by="a test")
            self.made[group] += 1

    def wait(self):
        time.sleep(self.chance.random())

    def end_worker(self):
        place = self.chance.randrange(len(self.workers))
        self._end(self.workers[place])
        self.workers[place] = self.start_worker()

    def end_manager(self):
        self._end(self.managers[0])
        self.managers = [self.cluster.machine.start("runmanager", **QUICK_HEARTBEATS)]

    def _end(self, process):
        if self.chance.random() < 0.5:
            process.kill()
        else:
            process.send(signal.SIGTERM)
            process.wait()


@pytest.mark.parametrize("seed", range(HISTORIES))
def test_every_task_of_a_random_history_is_archived_once(seed, cluster, settings, tmp_path):
    settings.CRAWLCTL_TASKS = (NAMED,)
    TaskTemplate.objects.all().delete()
    history = History(cluster, random.Random(seed), tmp_path / "notes")

    for _ in range(ACTIONS):
        history.act()

    wait_for(lambda: not Task.objects.exists(), within=max(60, 4 * ACTIONS), saying="all tasks have ended")
    of_group = {group: ArchivedTask.objects.filter(group=group).count() for group in GROUPS}
    assert of_group == history.made
    assert set(ArchivedTask.objects.values_list("why", flat=True)) <= {"done"}
    found = statistics.read_statistics()
    assert (found.queued, found.running, found.zombies) == (0, 0, 0)
    assert found.throughput == sum(statistics.read_statistics(group=group).throughput for group in GROUPS)
    if found.latency is not None:
        assert 0 <= found.latency < 120
        assert found.execution_time < 1
    wait_for(
        lambda: TaskWorker.objects.count() == len(history.workers),
        saying="the roster has the living workers, and no other",
    )
