"""Proves runs over several partitions: the control partition sends the wanted state, and others follow and report."""

import pytest

from crawlctl.access.roles import ADMINISTRATOR
from jobs.authorities.models import AuthorityGroup
from jobs.duties.exchange import forget_references
from jobs.duties.partitioned_following import follow_runs
from jobs.duties.partitioned_runs import send_jobs
from jobs.duties.start import prepare_runs
from jobs.lifecycle.job import Pause, Phase, RunEnd, StartMethod, StopRequest
from jobs.models import ForeignReference, Job, PartitionedJob, PartitionFact, QueueItem, RepositoryConnection
from jobs.partitions import configuration
from jobs.partitions.facts import send_fact, sent_fact
from jobs.partitions.this_partition import ControlledElsewhere
from jobs.verbs import control, editing
from nodes.errors import Invalid
from tests.support.api import client_of
from tests.support.cluster import NOON
from tests.support.factories import hash_of, make_documents, make_job, make_lane
from tests.support.partitions import WANTED, Follower, Leader, be_partition, receive_fact
from tests.support.stepping import Main
from tests.support.tables import each_row


@pytest.fixture
def here(settings):
    """Return a function that makes this database a partition with the given name."""

    def here(name):
        be_partition(settings, name)

    return here


@pytest.fixture
def main(connection):
    return Main(connection)


# --- A partition that follows --------------------------------------------------------------------


@pytest.fixture
def follower(connection, main, here):
    here("b")
    return Follower(connection, main)


def test_a_new_partition_stores_no_job_before_it_knows_its_slots(follower):
    follower.receive_job(follower.stores_job())
    Job.objects.all().delete()
    PartitionFact.objects.filter(key="slots:all").delete()

    follower.main.step(follow_runs)

    assert not Job.objects.exists()


def test_a_partition_adopts_a_job_without_its_schedule(follower):
    known = follower.stores_job()
    Job.objects.update(start_method=StartMethod.WINDOW_BEGIN)
    follower.receive_job(known)
    Job.objects.all().delete()

    follower.main.step(follow_runs)

    adopted = Job.objects.get()
    assert (adopted.name, adopted.start_method) == ("news", StartMethod.MANUAL)
    assert list(adopted.seeds.values_list("urls", flat=True)) == [["http://a.example/"]]
    assert PartitionedJob.objects.get().number == 7


def test_pages_say_which_changes_must_be_made_in_the_control_partition(follower):
    page = f"/jobs/{follower.stores_job().pk}/pipeline/"

    answer = client_of(ADMINISTRATOR).post(
        page, {"count": "0"}, format="multipart", headers={"referer": f"http://testserver{page}"}, follow=True
    )

    assert answer.redirect_chain == [(f"http://testserver{page}", 302)]
    assert "Change and start jobs in the control partition, a." in answer.content.decode()


def test_a_partition_makes_the_authority_group_of_an_adopted_job(follower):
    known = follower.stores_job()
    known.repository.authority_group = AuthorityGroup.objects.create(name="staff")
    known.repository.save()
    Job.objects.update(access_rules=[{"pattern": ".", "allow": ["editors"], "deny": []}])
    follower.receive_job(known)
    for model in (Job, RepositoryConnection, AuthorityGroup):
        model.objects.all().delete()

    follower.main.step(follow_runs)

    adopted = Job.objects.get()
    assert adopted.repository.authority_group.name == "staff"
    assert adopted.access_rules[0]["allow"] == ["editors"]


def test_a_changed_job_is_adopted_again(follower):
    job = follower.stores_job()
    follower.receive_job(job)
    follower.main.step(follow_runs)
    definitions = configuration.read(job.pk)
    definitions[-1]["priority"] = 2
    receive_fact(follower.connection, "a", "b", "job:7", {"definitions": definitions})

    follower.main.step(follow_runs)

    assert Job.objects.get().priority == 2


def test_a_partition_starts_a_wanted_run_with_the_number_of_the_run(follower):
    running = follower.knows()
    Job.objects.update(phase=Phase.INACTIVE, run_no=2)

    job = follower.follows(run_no=5)

    assert (job.phase, job.run_no) == (Phase.READY_FOR_STARTUP, 4)
    assert running.job.pk == job.pk


@each_row(
    "wanted, becomes",
    [
        ({"is_paused": True}, {"pause": Pause.PAUSING}),
        ({"is_stopped": True}, {"stop_request": StopRequest.ABORT}),
        ({"is_running": False}, {"stop_request": StopRequest.ABORT}),
        ({"run_no": 2}, {"stop_request": StopRequest.ABORT}),
        ({}, {"pause": Pause.NO, "stop_request": StopRequest.NONE}),
    ],
)
def test_a_run_follows_the_wanted_state(follower, wanted, becomes):
    PartitionedJob.objects.all().delete()
    Job.objects.all().delete()
    follower.knows()

    job = follower.follows(**wanted)

    assert {name: getattr(job, name) for name in becomes} == becomes


def test_a_paused_run_resumes_with_the_control_partition(follower):
    follower.knows()
    Job.objects.update(pause=Pause.PAUSED)

    job = follower.follows()

    assert (job.pause, job.resuming) == (Pause.NO, True)


def test_a_run_paused_for_a_local_reason_stays_paused(follower):
    follower.knows()
    Job.objects.update(pause=Pause.PAUSED, reason="the disk is full")

    assert follower.follows().pause == Pause.PAUSED


def test_a_run_may_finish_when_the_control_partition_permits_it(follower):
    follower.knows()

    follower.follows(may_finish=True)

    assert PartitionedJob.objects.get().may_finish_run == 1


def test_a_partition_answers_each_round_once(follower):
    running = follower.knows()
    follower.follows(round=3)
    first = follower.report()

    make_documents(make_lane(running.seed), ["late"])
    follower.follows(round=3)
    again = follower.report()
    follower.follows(round=4)

    assert first["figures"] == again["figures"] == {"quiet": True, "sent": {}, "applied": {}}
    assert follower.report()["figures"]["quiet"] is False
    assert follower.report()["round"] == 4


def test_figures_of_an_earlier_run_are_not_used_for_the_next_run(follower):
    running = follower.knows()
    follower.follows(round=3)
    Job.objects.update(run_no=2)
    make_documents(make_lane(running.seed), ["page"], run_no=2)

    follower.follows(run_no=2, round=3)

    assert (follower.report()["run_no"], follower.report()["figures"]["quiet"]) == (2, False)


def test_a_partition_with_work_counts_no_references(follower):
    running = follower.knows()
    make_documents(make_lane(running.seed), ["page"])
    follower.connection.execute(
        "INSERT INTO jobs_appliedreferences (job_number, run_no, source, amount) VALUES (7, 1, 'a', 5)"
    )

    follower.follows(round=1)

    assert follower.report()["figures"] == {"quiet": False, "sent": {}, "applied": {}}


def test_a_partition_with_a_waiting_reference_is_not_quiet(follower):
    follower.knows()
    ForeignReference.objects.create(
        source="a",
        number=1,
        target="b",
        job_number=7,
        run_no=1,
        hash=hash_of("page"),
        identifier="http://b.example/page",
        bin="b.example",
        seed=hash_of("seed"),
        depth=1,
        redirects=0,
        tracks_depth=False,
        found_on=hash_of("source"),
    )

    follower.follows(round=1)

    assert follower.report()["figures"]["quiet"] is False


def test_operators_change_and_start_jobs_in_the_control_partition_only(follower):
    job = follower.stores_job()

    with pytest.raises(ControlledElsewhere, match="This is partition b"):
        control.start(job.pk, made_by="operator", now=NOON)
    with pytest.raises(ControlledElsewhere, match="control partition, a"):
        editing.change_job(job.pk, priority=1, made_by="operator", now=NOON)


# --- The control partition -----------------------------------------------------------------------


@pytest.fixture
def leader(connection, main, here):
    here("a")
    return Leader(connection, main)


def test_the_control_partition_sends_the_job_and_its_wanted_state(leader):
    leader.leads()

    assert leader.wants == WANTED
    definitions = sent_fact(leader.connection, "a", "b", f"job:{leader.number}")["definitions"]
    assert [one["definition"] for one in definitions] == ["repository", "output", "job"]


def test_definitions_are_read_again_after_a_save(leader, django_assert_num_queries):
    leader.main.step(send_jobs)
    with django_assert_num_queries(0):
        leader.main.step(send_jobs)

    editing.change_job(leader.running.job.pk, priority=2, made_by="a test", now=NOON)
    leader.main.step(send_jobs)

    assert sent_fact(leader.connection, "a", "b", f"job:{leader.number}")["definitions"][-1]["priority"] == 2


def test_a_run_may_end_after_two_equal_rounds(leader):
    leader.leads()
    leader.receive()
    first = leader.leads()
    leader.receive()
    second = leader.leads()

    assert (first.may_finish_run, first.round_no) == (0, 1)
    assert second.may_finish_run == 1
    assert leader.wants["may_finish"] is True


def test_a_round_of_an_earlier_run_does_not_count_for_the_next_run(leader):
    leader.leads()
    leader.receive()
    leader.leads()
    Job.objects.update(run_no=2)

    leader.leads()
    leader.receive(run_no=2)

    assert leader.leads().may_finish_run == 0


@each_row(
    "report",
    [
        {"figures": {"quiet": False, "sent": {}, "applied": {}}},
        {"figures": {"quiet": True, "sent": {"a": 1}, "applied": {}}},
        {"figures": {"quiet": True, "sent": {}, "applied": {"a": 1}}},
        {"round": 99},
        {"run_no": 0},
    ],
    ids=[
        "it has work",
        "its reference travels",
        "it knows more than was sent",
        "an answer to another round",
        "an older run",
    ],
)
def test_a_run_continues_until_all_partitions_are_known_to_be_quiet(leader, report):
    for _ in range(4):
        leader.leads()
        leader.receive(**report)

    assert leader.leads().may_finish_run == 0


def test_the_control_partition_waits_for_its_own_documents(leader):
    make_documents(make_lane(leader.running.seed), ["page"])
    for _ in range(4):
        leader.leads()
        leader.receive()

    assert leader.leads().may_finish_run == 0
    assert QueueItem.objects.count() == 1


def test_a_partition_that_ends_early_ends_the_run_everywhere(leader):
    leader.leads()
    leader.receive(phase="inactive", run_end="error", reason="the output is missing")

    leader.leads()

    job = Job.objects.get()
    assert job.stop_request == StopRequest.ABORT
    assert job.reason == "partition b ended its run: the output is missing"


def test_after_a_restore_the_next_run_number_exceeds_all_partitions(leader):
    leader.leads()
    leader.receive(run_no=4, phase="inactive")
    Job.objects.update(phase=Phase.READY_FOR_STARTUP)

    leader.main.step(prepare_runs)

    assert Job.objects.get().run_no == 5


def test_a_run_with_a_number_that_was_used_before_a_restore_is_aborted(leader):
    leader.leads()
    leader.receive(run_no=4)

    leader.leads()

    job = Job.objects.get()
    assert job.stop_request == StopRequest.ABORT
    assert "partition b has had run 4" in job.reason


def test_the_control_partition_ends_a_run_after_all_other_partitions(leader):
    PartitionedJob.objects.update(may_finish_run=1)
    assert leader.leads().others_ended_run == 0

    leader.receive(phase="inactive", run_end="finished")

    assert leader.leads().others_ended_run == 1


def test_the_exchanged_rows_of_a_run_are_kept_until_it_ends(leader):
    facts = {
        "target": "b",
        "job_number": leader.number,
        "identifier": "x",
        "bin": "x",
        "seed": hash_of("s"),
        "depth": 1,
    }
    for run_no in (0, 1):
        ForeignReference.objects.create(
            source="a",
            number=run_no,
            run_no=run_no,
            hash=hash_of("x"),
            redirects=0,
            tracks_depth=False,
            found_on=hash_of("s"),
            **facts,
        )

    leader.main.step(forget_references)
    during = list(ForeignReference.objects.values_list("run_no", flat=True))
    Job.objects.update(phase=Phase.INACTIVE, run_end=RunEnd.FINISHED)
    leader.main.step(forget_references)

    assert during == [1]
    assert not ForeignReference.objects.exists()


def test_a_run_is_shared_before_it_begins(connection, main, here):
    here("a")
    job = make_job("news")
    Job.objects.update(phase=Phase.READY_FOR_STARTUP)

    main.step(prepare_runs)

    assert PartitionedJob.objects.get().number == job.pk


@each_row("option, field", [({"hop_limits": {"link": 3}}, "hop_limits")])
def test_limits_that_only_a_single_database_can_count_are_refused(connection, here, option, field):
    here("a")
    job = Job.objects.first() or make_job("news")

    with pytest.raises(Invalid) as refused:
        editing.change_job(job.pk, made_by="operator", now=NOON, **option)

    assert "several partitions" in refused.value.problems[field][0]


def test_an_unchanged_fact_is_not_sent_again(connection):
    assert send_fact(connection, "a", "b", "run:1", {"round": 1})
    assert not send_fact(connection, "a", "b", "run:1", {"round": 1})
    assert send_fact(connection, "a", "b", "run:1", {"round": 2})

    assert connection.execute("SELECT count(*) FROM jobs_partitionfact").fetchone() == (1,)
