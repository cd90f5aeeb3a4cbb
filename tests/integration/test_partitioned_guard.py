"""
Proves that one request of the guard for approval covers the removals of all partitions, and one answer decides them.
"""

import pytest

from jobs.duties.finish import end_runs
from jobs.duties.partitioned_following import follow_runs
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Guard, Phase, RunEnd
from jobs.models import Job, OutputConnection, PartitionedJob, RemovalQuestion
from jobs.partitions.this_partition import ControlledElsewhere
from jobs.verbs import control
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_lane
from tests.support.partitions import Follower, Leader, be_partition
from tests.support.stepping import Main
from tests.support.tables import each_row

GUARDED = {"guard_percent": 5, "guard_host_percent": None, "guard_documents": 20, "guard_seeds": False}


def guard(job):
    Job.objects.update(**GUARDED)
    job.outputs.set([OutputConnection.objects.create(name="index", connector="search")])


@pytest.fixture
def leader(connection, settings):
    be_partition(settings, "a")
    leader = Leader(connection, Main(connection))
    guard(leader.running.job)
    PartitionedJob.objects.update(may_finish_run=1)
    leader.leads()
    return leader


@pytest.fixture
def follower(connection, settings):
    be_partition(settings, "b")
    follower = Follower(connection, Main(connection))
    running = follower.knows()
    guard(running.job)
    old = {"run_no": 0, "stage": Stage.DONE, "seq": None, "indexed_before": True}
    make_documents(make_lane(running.seed), ["one", "two"], **old)
    return follower


def counted(leaving, staying):
    facts = {"leaving": leaving, "staying": staying, "hosts": [], "seeds": [], "parents": [], "outside": 0}
    rules = {"examined": 0, "refused": 0}
    return {"run_no": 1, "facts": {**facts, "rules": rules, "followed": 50000}, "examples": ["http://b.example/1"]}


# --- The control partition -----------------------------------------------------------------------


def test_one_request_for_approval_names_the_removals_of_all_partitions(leader):
    leader.main.step(end_runs)
    leader.receive(removals=counted(30, 70))
    leader.leads()
    assert leader.wants["removals"] == "held"

    leader.main.step(end_runs)

    asked = RemovalQuestion.objects.get()
    assert (asked.leaving, asked.staying, asked.examples) == (30, 70, ["http://b.example/1"])
    job = Job.objects.get()
    assert (job.guard, job.run_end) == (Guard.WAITING, RunEnd.HELD)
    assert "30 of 100 documents would be removed" in job.reason


@each_row("removals", [counted(30, 970), counted(15, 0)], ids=["a small share", "few documents"])
def test_removals_that_are_few_in_all_partitions_begin_without_approval(leader, removals):
    PartitionedJob.objects.update(decided_run=0, removals=None)
    Job.objects.update(phase=Phase.ACTIVE)
    leader.main.step(end_runs)
    leader.receive(removals=removals)

    leader.leads()
    leader.main.step(end_runs)

    assert leader.wants["removals"] == "allowed"
    assert Job.objects.get().phase == Phase.SHUTTING_DOWN


def test_the_control_partition_waits_for_the_removal_counts_of_all_partitions(leader):
    leader.receive()
    leader.main.step(end_runs)
    leader.leads()
    leader.main.step(end_runs)

    assert Job.objects.get().phase == Phase.ACTIVE
    assert leader.wants["removals"] == ""


def test_a_run_has_not_ended_while_another_partition_waits_for_approval(leader):
    leader.receive(phase="inactive", run_end="held", guard="waiting")

    assert leader.leads().others_ended_run == 0


# --- A partition that follows --------------------------------------------------------------------


def test_a_partition_counts_its_removals_and_waits_for_the_decision(follower):
    follower.follows(may_finish=True)

    follower.main.step(end_runs)
    job = follower.follows(may_finish=True)

    assert job.phase == Phase.ACTIVE
    assert follower.report()["removals"]["facts"]["leaving"] == 2


@each_row(
    "decision, phase, guard",
    [("held", Phase.INACTIVE, Guard.WAITING), ("allowed", Phase.SHUTTING_DOWN, Guard.NO)],
)
def test_a_partition_applies_the_decision_for_all_partitions(follower, decision, phase, guard):
    Job.objects.update(phase=Phase.ACTIVE, guard=Guard.NO)
    PartitionedJob.objects.update(decided_run=0, held_run=0)
    follower.follows(may_finish=True)
    follower.follows(may_finish=True, removals=decision)

    follower.main.step(end_runs)

    job = Job.objects.get()
    assert (job.phase, job.guard) == (phase, guard)


@each_row(
    "wanted, phase, guard",
    [
        ({"guard": "waiting", "is_running": False}, Phase.INACTIVE, Guard.WAITING),
        ({"guard": "allowed"}, Phase.SHUTTING_DOWN, Guard.ALLOWED),
        ({"guard": "no", "is_running": False}, Phase.INACTIVE, Guard.NO),
        ({"guard": "no"}, Phase.INACTIVE, Guard.WAITING),
    ],
    ids=["no answer yet", "allowed", "refused", "the control partition has not asked yet"],
)
def test_the_answer_of_an_operator_holds_for_all_partitions(follower, wanted, phase, guard):
    Job.objects.update(phase=Phase.INACTIVE, guard=Guard.WAITING, run_end=RunEnd.HELD)

    job = follower.follows(may_finish=True, removals="held", **wanted)

    assert (job.phase, job.guard) == (phase, guard)


def test_the_guard_is_answered_in_the_control_partition_only(follower):
    Job.objects.update(phase=Phase.INACTIVE, guard=Guard.WAITING, run_end=RunEnd.HELD)

    for verb in (control.allow_removals, control.refuse_removals):
        with pytest.raises(ControlledElsewhere):
            verb(Job.objects.get().pk, made_by="operator", now=NOON)
    follower.main.step(follow_runs)
    assert Job.objects.get().guard == Guard.WAITING
