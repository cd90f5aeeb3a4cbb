"""
Proves that the control partition divides the document limit of a job, and that the other partitions keep their shares.
"""

import pytest

from jobs.duties.finish import end_runs
from jobs.duties.partitioned_following import follow_runs
from jobs.lifecycle.job import RunEnd
from jobs.models import Budget, Job, PartitionedJob
from jobs.partitions.this_partition import following
from jobs.state.runs import ask_for_run
from tests.support.cluster import NOON
from tests.support.factories import make_documents, make_job, make_lane
from tests.support.partitions import Follower, Leader, be_partition
from tests.support.stepping import Main
from tests.support.tables import each_row


@pytest.fixture
def leader(connection, settings):
    be_partition(settings, "a")
    leader = Leader(connection, Main(connection))
    Job.objects.update(max_documents=10)
    Budget.objects.create(job=leader.running.job, run_no=1, most=5, total=10)
    return leader


@pytest.fixture
def follower(connection, settings):
    be_partition(settings, "b")
    follower = Follower(connection, Main(connection))
    follower.running = follower.knows()
    Job.objects.update(max_documents=10)
    Budget.objects.create(job=follower.running.job, run_no=1, most=0)
    return follower


def receive_confirmation(leader, *, told=None, **facts):
    """Receive a report of partition `b` about its share."""
    told = leader.wants["share"] if told is None else told
    usual = {"told": told, "most": told, "free": 0, "lacks": False, "rests": False}
    leader.receive(share=usual | facts)


def use_places(admitted, *, waiting=()):
    Budget.objects.update(admitted=admitted)
    if waiting:
        make_documents(make_lane(Job.objects.get().seeds.get()), waiting)


# --- The control partition -----------------------------------------------------------------------


def test_a_partition_added_during_a_run_gets_only_unassigned_places(leader):
    Budget.objects.update(most=9)

    leader.leads()

    assert leader.wants["share"] == 1


@pytest.mark.usefixtures("connection")
@each_row("partition, most, total", [("a", 6, 11), ("b", 0, None)])
def test_a_run_begins_with_the_share_of_its_partition(settings, partition, most, total):
    be_partition(settings, partition)
    with following():
        job = make_job(f"news of {partition}", max_documents=11)

    ask_for_run(job.pk, "start", made_by="operator", now=NOON)

    assert list(Budget.objects.filter(job=job).values_list("most", "total")) == [(most, total)]


def test_the_control_partition_sends_each_partition_its_share(leader):
    leader.leads()

    assert leader.wants["share"] == 5


def test_unused_places_move_to_a_partition_that_lacks_places(leader):
    use_places(1)
    leader.leads()
    receive_confirmation(leader, lacks=True, rests=True)

    leader.leads()
    assert (Budget.objects.get().most, leader.wants["share"]) == (3, 5)
    leader.leads()
    assert leader.wants["share"] == 7


def test_a_share_is_lowered_and_confirmed_before_its_places_are_given(leader):
    leader.leads()
    use_places(5, waiting=["more"])
    receive_confirmation(leader, free=4)

    leader.leads()
    assert (Budget.objects.get().most, leader.wants["share"]) == (5, 3)
    leader.leads()
    assert Budget.objects.get().most == 5
    receive_confirmation(leader, most=4)
    leader.leads()

    assert Budget.objects.get().most == 6


def test_a_run_ends_at_its_limit_in_all_partitions(leader):
    leader.leads()
    use_places(5, waiting=["more"])
    receive_confirmation(leader, rests=True)

    leader.leads()
    assert leader.wants["ends_at_limit"] is True
    leader.receive(phase="inactive", run_end="document_limit")
    leader.leads()
    assert Job.objects.get().stop_request == "none"
    leader.main.step(end_runs)

    assert Job.objects.get().run_end == RunEnd.DOCUMENT_LIMIT


def test_a_run_continues_while_another_partition_works(leader):
    leader.leads()
    use_places(5, waiting=["more"])
    receive_confirmation(leader, rests=False)

    leader.leads()

    assert PartitionedJob.objects.get().ends_at_limit_run == 0


# --- A partition that follows --------------------------------------------------------------------


def test_a_partition_takes_its_share_and_confirms_it(follower):
    follower.follows(share=5)
    follower.follows(share=5)

    assert Budget.objects.get().most == 5
    assert follower.report()["share"] == {"told": 5, "most": 5, "free": 4, "lacks": False, "rests": False}


def test_a_partition_keeps_the_places_that_it_has_used(follower):
    follower.follows(share=5)
    use_places(4)

    follower.follows(share=2)

    assert follower.report()["share"] == {"told": 2, "most": 4, "free": 0, "lacks": False, "rests": True}


def test_a_partition_with_documents_and_no_place_lacks_places(follower):
    use_places(0, waiting=["more"])

    follower.follows(share=0)

    assert follower.report()["share"] == {"told": 0, "most": 0, "free": 0, "lacks": True, "rests": True}


def test_a_run_ends_at_its_limit_when_the_control_partition_ends_it(follower):
    use_places(0, waiting=["more"])
    follower.follows(share=0)

    follower.follows(share=0, ends_at_limit=True, is_running=False)
    follower.main.step(follow_runs, end_runs)

    job = Job.objects.get()
    assert (job.run_end, job.stop_request) == (RunEnd.DOCUMENT_LIMIT, "none")
