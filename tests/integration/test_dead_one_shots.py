"""Proves that the cluster pauses or ends the job of a one-shot command whose processes have all died."""

import pytest

from jobs.duties import failover
from jobs.duties.failover import interrupt_dead_one_shots
from jobs.duties.finish import end_runs
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Pause, Phase
from jobs.models import Batch, BinState, Job, QueueItem, ThrottleGroup
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from jobs.verbs import control
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership import members
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_documents, make_job, make_lane, make_running_job
from tests.support.stepping import Main


@pytest.fixture
def main(connection):
    return Main(connection)


@pytest.fixture
def job(main, connection):
    """Return a job in the scope of a one-shot, with a node that has stopped."""
    node = register_node(connection, "manager", scope="one-shot")
    members.stop(connection, node_id=node.id, reason="asked to stop")
    return make_job(node_scope="one-shot")


def put(job, **facts):
    Job.objects.filter(pk=job.pk).update(**facts)


@pytest.mark.parametrize("facts", [{}, {"pause": Pause.PAUSING}, {"resuming": True}], ids=str)
def test_a_dead_one_shot_job_that_was_running_is_left_paused_in_the_cluster(main, job, facts):
    put(job, phase=Phase.ACTIVE, run_no=1, **facts)

    assert main.step(interrupt_dead_one_shots) == 1

    job.refresh_from_db()
    assert (job.manifoldcf_status, job.reason, job.node_scope) == (
        "PAUSED",
        "its process no longer exists",
        CLUSTER_SCOPE,
    )
    assert main.step(interrupt_dead_one_shots) == 0


@pytest.mark.parametrize("phase", [Phase.STARTING_UP, Phase.ACTIVE, Phase.SHUTTING_DOWN])
def test_a_dead_one_shot_job_that_was_aborted_ends_in_the_cluster(main, job, phase):
    put(job, phase=phase, run_no=1)
    control.abort(job.pk, made_by="a test", now=main.now)

    main.step(interrupt_dead_one_shots, end_runs)

    job.refresh_from_db()
    assert (job.phase, job.run_end, job.node_scope) == (Phase.INACTIVE, "aborted", CLUSTER_SCOPE)


def test_the_cluster_finishes_a_dead_one_shot_job_that_only_had_to_end(main, job):
    put(job, phase=Phase.SHUTTING_DOWN, run_no=1)

    main.step(interrupt_dead_one_shots, end_runs)

    job.refresh_from_db()
    assert (job.phase, job.run_end) == (Phase.INACTIVE, "finished")


@pytest.mark.parametrize("phase", [Phase.INACTIVE, Phase.READY_FOR_STARTUP, Phase.STARTING_UP])
def test_a_job_that_a_dead_command_had_not_started_stays_as_it_is(main, job, phase):
    put(job, phase=phase)

    assert main.step(interrupt_dead_one_shots) == 0

    job.refresh_from_db()
    assert (job.phase, job.node_scope) == (phase, "one-shot")


def test_a_one_shot_that_is_about_to_register_is_not_taken_over(main):
    job = make_job(node_scope="about to be")
    put(job, phase=Phase.ACTIVE)

    assert main.step(interrupt_dead_one_shots) == 0


class Killed(BaseException):
    """The exception that stands for a kill of the main manager."""


@pytest.mark.parametrize("step", ["forget_scope", "move"])
def test_the_next_main_finishes_a_takeover_that_was_killed_between_steps(main, connection, step, monkeypatch):
    manager, worker = (register_node(connection, kind, scope="one-shot") for kind in ("manager", "worker"))
    running = make_running_job(manager)
    make_documents(make_lane(running.seed), 2)
    stuff(connection, manager=manager.id, group=running.group, room=100, workers=1, now=NOON)
    take(connection, worker=worker.id, room=100, idle=True, now=NOON)
    # The worker was killed after its last outcome, before it closed its turn.
    QueueItem.objects.update(stage=Stage.DONE, batch=None)
    Batch.objects.update(state="done")
    assert BinState.objects.get().open_turns == 1
    for node in (manager, worker):
        members.stop(connection, node_id=node.id, reason="asked to stop")

    def die(*_given, **_facts):
        raise Killed

    with monkeypatch.context() as killed:
        killed.setattr(failover, step, die)
        with pytest.raises(Killed):
            main.step(interrupt_dead_one_shots)
    main.step(interrupt_dead_one_shots)

    running.job.refresh_from_db()
    assert (running.job.manifoldcf_status, running.job.node_scope) == ("PAUSED", CLUSTER_SCOPE)
    assert BinState.objects.get().open_turns == 0
    assert not Batch.objects.exists()
    assert not ThrottleGroup.objects.filter(node_scope="one-shot").exists()
