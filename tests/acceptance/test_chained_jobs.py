"""Proves that real daemons start the successor of a chain exactly once, even if main managers are killed meanwhile."""

import pytest

from jobs.models import ChainedStart, Job, JobEvent
from jobs.verbs import chains
from tests.support.processes import wait_for
from tests.support.walk import Walk

RUNS = 3


@pytest.fixture
def walk(cluster, world, sink):
    walk = Walk(cluster, world, sink)
    walk.make_job()
    walk.world.put("b")
    return walk


def run_both(walk, second, *, run_no):
    """Run the first job, and kill managers at its end until the second job has run."""
    walk.sink.hold("complete")
    walk.ask("start")
    walk.let_go()
    walk.reaches("NOTIFYINGOFCOMPLETION")
    for manager in walk.managers:
        manager.kill()
    walk.sink.let_go("complete")
    # This manager is killed at an unknown moment between the end of one job and the start of the next one.
    for manager in walk.cluster.start("runmanager"):
        wait_for(
            lambda: ChainedStart.objects.exists() or Job.objects.get(pk=second.pk).run_no >= run_no,
            saying="the first job has ended",
        )
        manager.kill()
    walk.managers = walk.cluster.start("runmanager")
    wait_for(
        lambda: Job.objects.filter(pk=second.pk, run_no=run_no, phase="inactive").exists(),
        saying="the second job has run and ended",
    )


def test_kills_of_main_managers_neither_lose_nor_add_a_start_of_a_chain(walk):
    second = walk.world.make_job("second", seeds=["b"], outputs=[walk.sink.connection()])
    chains.add(walk.job.pk, second.pk, overlap="queue", made_by="a test")

    for run_no in range(1, RUNS + 1):
        run_both(walk, second, run_no=run_no)

    assert JobEvent.objects.filter(job=second, kind="follow").count() == RUNS
    assert Job.objects.get(pk=second.pk).run_no == RUNS
    assert not ChainedStart.objects.exists()
