"""
Proves the states of a job with real daemons: a crawl reaches each state, and REST calls end each state.

`tests/support/walk.py` has a handwritten list of the changes that each state allows. A test holds a short state open by
its cause: a document, an output, a window, or an absent manager.
"""

import datetime as dt

import pytest

from jobs.models import Job, JobEvent
from tests.support.processes import wait_for
from tests.support.scripted_output import Sink
from tests.support.walk import Walk


@pytest.fixture
def walk(cluster, world, sink):
    return Walk(cluster, world, sink)


# --- Starting ----------------------------------------------------------------------------------------


def test_a_job_starts_runs_pauses_resumes_and_ends(walk):
    walk.make_job()
    walk.reaches("INACTIVE")
    with walk.without_managers():
        walk.ask("start")
        walk.reaches("READYFORSTARTUP")
    walk.reaches("ACTIVE")
    walk.is_asked_for()

    walk.ask("pause")
    walk.reaches("PAUSING")
    walk.let_go()
    walk.reaches("PAUSED")
    with walk.without_managers():
        walk.ask("resume")
        walk.reaches("RESUMING")

    walk.ends("finished")
    assert walk.sink.told() == [("add", walk.world.url("a")), ("complete", "")]
    kinds = list(JobEvent.objects.filter(job=walk.job).order_by("id").values_list("kind", flat=True))
    assert kinds == [
        *("created", "start", "prepare", "activate", "pause", "halt", "resume", "continue"),
        *("shut_down", "finish", "notify", "end"),
    ]


def test_a_minimal_run_is_shown_as_minimal_and_removes_nothing(walk):
    walk.make_job()
    walk.let_go()
    walk.world.put("a", links=["b"])
    walk.world.put("b")
    walk.cluster.run(walk.job)
    walk.world.put("a")

    with walk.without_managers():
        walk.ask("start-minimal")
        walk.reaches("READYFORSTARTUPMINIMAL")
    walk.ends("finished")

    assert ("remove", walk.world.url("b")) not in walk.sink.told()
    walk.ask("start")
    walk.ends("finished")
    assert ("remove", walk.world.url("b")) in walk.sink.told()


def test_a_source_that_does_not_answer_delays_the_start_with_a_reason(walk):
    walk.world.seeding(interruptions=2, retry_after=1)
    walk.make_job()
    walk.let_go()

    walk.ask("start")
    wait_for(lambda: walk.look()["failures"] == 1, saying="the start was postponed")
    assert walk.look()["status"] == "Starting up"
    assert "not to be seeded now" in walk.look()["reason"]

    walk.ends("finished")
    assert (walk.look()["failures"], walk.look()["retry_at"], walk.look()["run_no"]) == (0, None, 1)
    assert len(walk.world.seedings()) == 3


def test_a_source_that_permanently_fails_ends_the_run_with_an_error(walk):
    from jobs.connectors.repository.base import RetryLimit

    walk.world.seeding(interruptions=-1, retry_after=0.1, limit=RetryLimit(attempts=3))
    walk.make_job()

    walk.ask("start")

    walk.ends("error")
    assert "not to be seeded now" in walk.look()["reason"]
    assert len(walk.world.seedings()) == 3


@pytest.mark.parametrize(
    ("verb", "state"),
    [("restart", "ABORTINGSTARTINGUPFORRESTART"), ("restart-minimal", "ABORTINGSTARTINGUPFORRESTARTMINIMAL")],
)
def test_a_start_in_progress_can_be_aborted_and_restarted(walk, verb, state):
    walk.world.seeding(waits_for="seed")
    walk.make_job()
    walk.let_go()
    walk.ask("start")
    walk.reaches("STARTINGUP")
    wait_for(walk.world.seedings, saying="seeding is in progress")

    with walk.without_managers():
        walk.ask(verb)
        walk.reaches(state)
    walk.world.signal("seed")
    walk.ends("finished")

    assert walk.look()["run_no"] == 2


def test_a_reset_of_seeding_makes_the_next_run_read_its_whole_source(walk):
    walk.world.seeding(version="v1")
    walk.make_job()
    walk.let_go()
    for _ in range(2):
        walk.cluster.run(walk.job)

    walk.ask("reset-seeding")
    walk.cluster.run(walk.job)
    walk.cluster.run(walk.job)

    assert walk.world.seedings() == ["", "v1", "", "v1"]


# --- Stopping ----------------------------------------------------------------------------------------


def test_a_run_is_aborted_from_any_state_and_notifies_its_outputs(walk):
    walk.make_job()
    walk.ask("start")
    walk.reaches("ACTIVE")
    walk.is_asked_for()

    walk.ask("abort")
    walk.reaches("ABORTING")
    walk.let_go()

    walk.ends("aborted")
    assert walk.sink.told()[-1] == ("complete", "")


@pytest.mark.parametrize("paused", [False, True])
def test_a_restart_ends_a_run_and_begins_the_next_run_immediately(walk, paused):
    walk.make_job()
    walk.ask("start")
    walk.reaches("ACTIVE")
    walk.is_asked_for()
    if paused:
        walk.ask("pause")
        walk.reaches("PAUSING")

    walk.ask("restart-minimal" if paused else "restart")
    walk.reaches("ABORTINGFORRESTARTMINIMAL" if paused else "ABORTINGFORRESTART")
    walk.let_go()

    walk.ends("finished")
    shown = walk.look()
    assert (shown["run_no"], shown["minimal"]) == (2, paused)


def test_a_job_that_is_resuming_can_be_aborted(walk):
    walk.make_job()
    walk.ask("start")
    walk.is_asked_for()
    walk.ask("pause")
    walk.let_go()
    walk.reaches("PAUSED")

    with walk.without_managers():
        walk.ask("resume")
        walk.ask("abort")
        walk.reaches("ABORTING")

    walk.ends("aborted")


# --- Windows -----------------------------------------------------------------------------------------


def window_that_closes_in(seconds):
    """
    Return a window that opened at the start of this minute and closes in `seconds`. So a test can store it while it is
    open.
    """
    from jobs.lifecycle.schedule import Window

    now = dt.datetime.now(tz=dt.UTC)
    opened = now.replace(second=0, microsecond=0)
    return Window(hours=(opened.hour,), minutes=(opened.minute,), duration=now - opened + dt.timedelta(seconds=seconds))


def test_a_job_starts_waits_and_continues_with_its_windows(walk):
    from django.utils import timezone

    from jobs.lifecycle.schedule import Window
    from jobs.verbs import editing

    walk.make_job(start_method="window_inside", windows=[window_that_closes_in(15)], now=timezone.now())
    walk.world.put("a", links=["b"], waits_for="go")
    walk.world.put("b")
    walk.reaches("ACTIVE")
    walk.is_asked_for()

    shown = walk.reaches("ACTIVEWAITING")
    assert (shown["status"], "outside its window until " in shown["reason"]) == ("Stopping", True)
    walk.ask("pause")
    walk.reaches("PAUSINGWAITING")
    walk.let_go()
    walk.reaches("PAUSEDWAIT")
    walk.ask("resume")
    shown = walk.reaches("ACTIVEWAIT")
    assert (shown["status"], walk.world.asked("b")) == ("Waiting", 0)
    wait_for(
        lambda: "outside its window until " in walk.look()["reason"],
        saying="the job shows that it waits for its window",
    )

    always = Window(minutes=tuple(range(60)), duration=dt.timedelta(seconds=60))
    editing.change_job(walk.job.pk, windows=[always], made_by="a test", now=timezone.now())
    walk.ask("abort")
    walk.ends("aborted")
    wait_for(lambda: Job.objects.get(pk=walk.job.pk).run_no == 2, saying="the new window starts the job again")
    assert JobEvent.objects.filter(job=walk.job, kind="begin_window").count() == 2


def test_a_job_continues_when_its_next_window_opens(walk):
    from django.utils import timezone

    from jobs.lifecycle.schedule import Window
    from jobs.verbs import editing

    walk.make_job(start_method="window_inside", windows=[window_that_closes_in(15)], now=timezone.now())
    walk.world.put("a", links=["b"], waits_for="go")
    walk.world.put("b")
    walk.is_asked_for()
    walk.reaches("ACTIVEWAITING")
    walk.let_go()
    walk.reaches("ACTIVEWAIT")
    assert walk.world.asked("b") == 0

    always = Window(minutes=tuple(range(60)), duration=dt.timedelta(seconds=60))
    editing.change_job(walk.job.pk, windows=[always], made_by="a test", now=timezone.now() - dt.timedelta(minutes=2))

    wait_for(lambda: walk.world.asked("b"), saying="the job continued in its window")
    wait_for(
        lambda: JobEvent.objects.filter(job=walk.job, kind="unwait").exists(),
        saying="the journal shows that the job continued",
    )


# --- Seeding during the run --------------------------------------------------------------------------


def test_a_seed_that_is_added_while_the_job_runs_is_read(walk):
    walk.make_job()
    walk.world.put("b")
    walk.ask("start")
    walk.is_asked_for()

    seeds = [{"urls": [walk.world.url("a")]}, {"urls": [walk.world.url("b")]}]
    assert walk.client.patch(walk.address, {"seeds": seeds}, format="json").status_code == 200
    wait_for(lambda: walk.world.asked("b"), saying="the new seed was read")
    walk.let_go()

    walk.ends("finished")
    assert walk.world.asked("a") == 1


def test_a_continuous_job_can_be_stopped_while_it_reads_its_seeds_again(walk):
    walk.make_job(kind="continuous", reseed_after=dt.timedelta(seconds=1))
    walk.ask("start")
    walk.is_asked_for()
    walk.world.seeding(names=["b"], waits_for="seed")
    walk.world.put("b")

    walk.reaches("ACTIVESEEDING")
    walk.world.signal("seed")
    wait_for(lambda: walk.world.asked("b"), saying="the document that the source lists now was read")
    walk.world.seeding(waits_for="seed again")
    walk.reaches("ACTIVESEEDING")
    walk.ask("abort")
    walk.world.signal("seed again")
    walk.let_go()

    walk.ends("aborted")


def seeded_meanwhile(walk, **facts):
    """Create a continuous job whose first document is in progress while its source is slow to list more."""
    walk.make_job(kind="continuous", reseed_after=dt.timedelta(seconds=1), **facts)
    if "windows" not in facts:
        walk.ask("start")
    walk.is_asked_for()
    walk.world.seeding(waits_for="seed")
    walk.reaches("ACTIVESEEDING")


def test_a_job_can_be_paused_and_resumed_while_it_is_seeded(walk):
    seeded_meanwhile(walk)

    walk.ask("pause")
    walk.reaches("PAUSINGSEEDING")
    walk.let_go()
    walk.reaches("PAUSEDSEEDING")
    walk.ask("resume")
    walk.reaches("ACTIVESEEDING")

    walk.ask("abort")
    walk.world.signal("seed")
    walk.ends("aborted")


@pytest.mark.parametrize(
    ("verb", "state"),
    [("restart", "ABORTINGFORRESTARTSEEDING"), ("restart-minimal", "ABORTINGFORRESTARTSEEDINGMINIMAL")],
)
def test_a_job_can_be_restarted_while_it_is_seeded(walk, verb, state):
    seeded_meanwhile(walk)

    walk.ask(verb)
    walk.reaches(state)
    walk.let_go()
    walk.world.signal("seed")

    wait_for(lambda: walk.look()["run_no"] == 2, saying="the next run has begun")
    walk.ask("abort")
    walk.ends("aborted")


def test_a_job_waits_after_a_window_that_closes_during_seeding(walk):
    from django.utils import timezone

    seeded_meanwhile(walk, start_method="window_inside", windows=[window_that_closes_in(20)], now=timezone.now())

    walk.reaches("ACTIVEWAITINGSEEDING")
    walk.ask("pause")
    walk.reaches("PAUSINGWAITINGSEEDING")
    walk.let_go()
    walk.reaches("PAUSEDWAITSEEDING")
    walk.ask("resume")
    walk.reaches("ACTIVEWAITSEEDING")

    walk.ask("abort")
    walk.world.signal("seed")
    walk.ends("aborted")


def test_a_job_without_a_reseed_interval_is_seeded_once(walk):
    walk.make_job(kind="continuous")
    walk.ask("start")
    walk.is_asked_for()
    walk.let_go()
    wait_for(lambda: walk.cluster.database.documents() == {(2, "OK"): 1}, saying="the document is done")
    walk.ask("abort")
    walk.ends("aborted")

    assert walk.world.seedings() == [""]


# --- The end -----------------------------------------------------------------------------------------


def test_unreached_documents_are_removed_while_the_job_shuts_down(walk):
    walk.make_job()
    walk.let_go()
    walk.world.put("a", links=["b"])
    walk.world.put("b")
    walk.cluster.run(walk.job)
    walk.world.put("a")
    walk.sink.hold("remove")

    walk.ask("start")
    walk.reaches("SHUTTINGDOWN")
    wait_for(lambda: walk.sink.waits("remove"), saying="a removal is in progress")
    walk.ask("abort")
    walk.reaches("ABORTINGSHUTTINGDOWN")
    walk.sink.let_go("remove")

    walk.ends("aborted")


def test_a_clean_up_that_wakes_documents_makes_the_run_active_again(walk):
    walk.make_job()
    walk.let_go()
    walk.world.put("a", links=["b", "c"])
    walk.world.put("b", links=["c"], carry={"c": {"colour": ["red"]}})
    walk.world.put("c")
    walk.cluster.run(walk.job)
    before = walk.world.asked("c")
    walk.world.put("a", links=["c"])

    walk.ask("start")
    walk.ends("finished")

    kinds = list(JobEvent.objects.filter(job=walk.job).order_by("id").values_list("kind", flat=True))
    assert kinds[kinds.index("wake_up") :] == ["wake_up", "shut_down", "finish", "notify", "end"]
    assert walk.world.asked("c") == before + 2
    assert walk.held() == {"a", "c"}


def test_outputs_are_notified_once_and_later_if_they_are_unavailable(walk):
    other = Sink(walk.sink.directory / "other")
    walk.make_job(outputs=[other.connection("other"), walk.sink.connection()])
    walk.let_go()
    walk.sink.refuse("complete", "It is full.")

    walk.ask("start")
    wait_for(lambda: walk.look()["failures"] == 1, saying="the notification was postponed")
    shown = walk.reaches("READYFORNOTIFY")
    assert (shown["status"], shown["reason"], shown["run_end"]) == ("End notification", "sink: It is full.", "finished")
    walk.sink.let_go("complete")

    walk.ends("finished")
    assert walk.sink.told().count(("complete", "")) == other.told().count(("complete", "")) == 1


def test_a_notification_in_progress_can_be_skipped(walk):
    walk.make_job()
    walk.let_go()
    walk.sink.hold("complete")
    walk.ask("start")
    walk.reaches("NOTIFYINGOFCOMPLETION")

    walk.ask("abort")

    walk.ends("finished")
    walk.sink.let_go("complete")


def test_a_worker_that_dies_while_it_notifies_an_output_is_replaced(walk):
    walk.make_job()
    walk.let_go()
    walk.sink.hold("complete")
    walk.ask("start")
    wait_for(lambda: walk.sink.waits("complete"), saying="a worker notifies the output")

    walk.workers[0].kill()
    walk.sink.let_go("complete")
    walk.cluster.start("runworker")

    walk.ends("finished")
    assert walk.sink.told().count(("complete", "")) == 1


# --- Deleting ----------------------------------------------------------------------------------------


def test_a_job_is_deleted_with_its_documents_and_its_output_is_notified(walk):
    walk.make_job()
    walk.let_go()
    walk.cluster.run(walk.job)
    walk.sink.hold("remove")
    walk.sink.hold("complete")

    with walk.without_managers():
        walk.ask("delete", status=202)
        walk.reaches("READYFORDELETE")
    walk.reaches("DELETING")
    walk.sink.let_go("remove")
    walk.reaches("NOTIFYINGOFDELETION")
    walk.sink.let_go("complete")

    walk.is_gone()
    assert walk.sink.told()[-2:] == [("remove", walk.world.url("a")), ("complete", "")]
    assert walk.cluster.database.value("SELECT count(*) FROM jobs_queueitem") == 0


# --- Missing connectors ------------------------------------------------------------------------------


def test_a_job_without_its_connector_waits_with_a_reason(walk):
    walk.make_job()
    walk.world.put("a", links=["b"], waits_for="go")
    walk.world.put("b")
    walk.ask("start")
    walk.is_asked_for()
    walk.managers[0].kill()
    (without,) = walk.cluster.start("runmanager", CRAWLCTL_CONNECTORS="")

    shown = walk.reaches("ACTIVE_UNINSTALLED")
    assert (shown["status"], shown["connectors_ready"]) == ("Running, no connector", False)
    assert shown["reason"] == "the connector 'scripted-all' is not installed"
    walk.let_go()
    wait_for(lambda: walk.cluster.database.documents().get((2, "OK")), saying="documents in flight have ended")
    without.kill()
    walk.managers = walk.cluster.start("runmanager")

    walk.ends("finished")
    assert walk.world.asked("b") == 1


def test_a_job_is_not_deleted_while_its_output_is_missing(walk):
    walk.make_job()
    walk.let_go()
    walk.cluster.run(walk.job)
    walk.managers[0].kill()
    (without,) = walk.cluster.start("runmanager", CRAWLCTL_OUTPUTS="")

    walk.ask("delete", status=202)
    shown = walk.reaches("DELETING_NOOUTPUT")
    assert shown["reason"] == "the output 'scripted-output' is not installed"
    without.kill()
    walk.managers = walk.cluster.start("runmanager")

    walk.is_gone()
    assert ("remove", walk.world.url("a")) in walk.sink.told()
