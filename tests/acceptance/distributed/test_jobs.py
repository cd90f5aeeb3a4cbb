"""Proves that one job on one instance follows its pool, its schedule, its strategy and the switches."""

import datetime as dt
import itertools
import logging
import time

import pytest

from nodes.assignment.pools import WorkItem
from nodes.coordination.names import BadName
from nodes.distributed import JobState, Schedule, Switches, Tuning, UnknownJob, one_thread, state_of, thread_per_item
from tests.support.behaviour import always, at_first, half
from tests.support.fleet import OFTEN
from tests.support.waiting import wait_until

SECOND = dt.timedelta(seconds=1)
HOUR = dt.timedelta(hours=1)


def let_pass(seconds):
    """Let this number of seconds pass, to check what does not happen in them."""
    until = time.monotonic() + seconds
    wait_until(lambda: time.monotonic() > until)


# --- Refusals and reports of a manager -----------------------------------------------------------


def test_a_job_with_an_invalid_id_is_refused_before_anything_starts(fleet):
    with pytest.raises(BadName, match="have 1 to 120 characters"):
        fleet.start("a", fleet.job("a job"))

    assert fleet.watcher().read_state().members == {}


def test_two_jobs_with_one_id_are_refused(fleet):
    with pytest.raises(ValueError, match="two jobs have the same id 'mails'"):
        fleet.start("a", fleet.job("mails"), fleet.job("mails"))


def test_a_lease_longer_than_the_timeout_of_its_node_is_refused(fleet):
    with pytest.raises(ValueError, match="the lease is 60 s: it must not be longer than the timeout of nodes, 3 s"):
        fleet.start("a", fleet.job("mails"), tuning=Tuning(lease=60 * SECOND))


def test_an_instance_without_jobs_logs_a_warning_and_can_be_the_main_node(fleet, caplog):
    with caplog.at_level(logging.WARNING):
        instance = fleet.start("a")

    assert "node a has no distributed jobs" in caplog.text
    wait_until(lambda: instance.status().leadership is not None)


def test_the_start_and_the_end_of_an_instance_are_logged(fleet, caplog):
    with caplog.at_level(logging.INFO):
        fleet.start("a", fleet.job("mails"))
        fleet.close("a")

    messages = [line.message for line in caplog.records if line.name == "nodes.distributed.engine.manager"]
    assert messages == [
        "starting the distributed jobs of node a",
        "the distributed jobs of node a are started: mails",
        "closing the distributed jobs of node a",
        "the distributed jobs of node a are closed",
    ]


# --- Pools ---------------------------------------------------------------------------------------


def test_a_job_with_an_empty_pool_never_runs_and_reports_no_error(fleet, caplog):
    with caplog.at_level(logging.WARNING):
        fleet.start("a", fleet.job("empty", items=()), fleet.job("mails"))
        wait_until(lambda: len(fleet.ledger.runs_of("mails")) > 10)

    assert fleet.ledger.runs_of("empty") == []
    assert caplog.records == []


@pytest.mark.parametrize(
    ("items", "words"),
    [
        (OSError("no route to the list"), "OSError: no route to the list"),
        (["north", "../south"], "the item of job reports '../south' is invalid"),
        ("north", "a pool is a set of names, and not the text 'north'"),
    ],
)
def test_a_job_whose_pool_cannot_be_read_stops_with_the_reason(fleet, caplog, items, words):
    job = fleet.job("reports", items=["north"], check=OFTEN)
    instance = fleet.start("a", job)
    wait_until(lambda: fleet.ledger.runs_of("reports"))

    job.items = items

    wait_until(lambda: not instance.status().jobs["reports"].runs.items)
    assert words in instance.status().jobs["reports"].problem
    assert "failed to access the work pool of job reports" in caplog.text
    stopped_at = time.monotonic()
    let_pass(0.5)
    assert fleet.ledger.runs_of("reports", since=stopped_at) == []

    job.items = ["north"]
    wait_until(lambda: fleet.ledger.runs_of("reports", since=stopped_at))
    assert instance.status().jobs["reports"].problem == ""


def test_an_unreadable_pool_is_kept_for_a_while_if_configured(fleet):
    job = fleet.job("reports", items=["north"], check=OFTEN)
    tuning = Tuning(keep_failed_pool=HOUR)
    instance = fleet.start("a", job, tuning=tuning)
    wait_until(lambda: fleet.ledger.runs_of("reports"))

    job.items = OSError("no route to the list")

    wait_until(lambda: "no route" in instance.status().jobs["reports"].problem)
    failed_at = time.monotonic()
    wait_until(lambda: len(fleet.ledger.runs_of("reports", since=failed_at)) > 3)

    instance.tuning = Tuning(keep_failed_pool=SECOND / 10)
    wait_until(lambda: not instance.status().jobs["reports"].runs.items)


def test_changed_items_of_a_pool_are_used_from_the_next_run_on(fleet):
    job = fleet.job("reports", items=["item-1"], check=OFTEN)
    fleet.start("a", job)
    wait_until(lambda: ("reports", "item-1") in fleet.ledger.items())

    job.items = ["item-2"]

    wait_until(lambda: ("reports", "item-2") in fleet.ledger.items(), within=10)
    changed_at = time.monotonic()
    wait_until(lambda: len(fleet.ledger.runs_of("reports", since=changed_at)) > 3)
    assert fleet.ledger.items(since=changed_at) == {("reports", "item-2")}


def test_a_pool_that_is_never_checked_for_changes_is_read_once(fleet):
    job = fleet.job("reports", items=["item-1"])
    fleet.start("a", job)
    job.items = ["item-2"]

    wait_until(lambda: len(fleet.ledger.runs_of("reports")) > 10)

    assert fleet.ledger.items() == {("reports", "item-1")}


def test_a_new_pool_appears_in_the_cluster(fleet):
    fleet.start("a", fleet.job("reports", items=["north", "south"]))

    assert fleet.watcher().read_state().pools == {"reports": {"north", "south"}}


# --- Schedules -----------------------------------------------------------------------------------


def starts(fleet, job, count):
    wait_until(lambda: len(fleet.ledger.runs_of(job)) >= count)
    return [run.began_at for run in fleet.ledger.runs_of(job)]


@pytest.mark.parametrize("schedule", [Schedule.by_delay, Schedule.by_rate], ids=["delay", "rate"])
def test_a_job_runs_as_often_as_its_schedule_says(fleet, schedule):
    # Period of the schedule: longer than the delays of a busy machine.
    fleet.start("a", fleet.job("mails", every=schedule(SECOND * 0.4)))

    began = starts(fleet, "mails", 12)

    gaps = sorted(later - earlier for earlier, later in itertools.pairwise(began))
    # Use the median: a busy machine delays some of the starts.
    assert 0.36 <= gaps[len(gaps) // 2] <= 0.6
    assert gaps[0] >= 0.2


@pytest.mark.parametrize("first", [None, HOUR], ids=["by the schedule", "of its own"])
def test_a_changed_schedule_applies_immediately(fleet, first):
    job = fleet.job("mails", every=HOUR, first=first)
    instance = fleet.start("a", job)
    wait_until(lambda: instance.status().jobs["mails"].runs.next_at is not None)
    let_pass(1)
    assert fleet.ledger.runs_of("mails") == []

    job.every = Schedule.by_delay(SECOND)
    if first is not None:
        job.first = SECOND

    wait_until(lambda: fleet.ledger.runs_of("mails"), within=10)


def test_an_invalid_schedule_is_read_again_until_it_is_valid(fleet, caplog):
    job = fleet.job("mails", first="soon")
    instance = fleet.start("a", job)
    wait_until(lambda: "the schedule of job mails cannot be read" in caplog.text)
    assert fleet.ledger.runs_of("mails") == []
    assert "its schedule cannot be read: AttributeError" in instance.status().jobs["mails"].problem

    job.first = dt.timedelta()

    wait_until(lambda: fleet.ledger.runs_of("mails"))
    assert instance.status().jobs["mails"].problem == ""


def test_a_job_that_failed_runs_again(fleet, caplog):
    instance = fleet.start("a", fleet.job("mails", fails=at_first))

    wait_until(lambda: len(fleet.ledger.runs_of("mails")) > 10)

    runs = instance.status().jobs["mails"].runs
    assert (runs.failures, runs.failures_in_a_row) == (1, 0)
    assert runs.last_failure == "RuntimeError: the mails are not there"
    assert "job mails failed; it will run again" in caplog.text


def test_a_job_that_fails_repeatedly_waits_longer_each_time(fleet):
    instance = fleet.start("a", fleet.job("mails", fails=always))

    first, second, third = starts(fleet, "mails", 3)[:3]

    assert second - first >= 1
    assert third - second >= 2
    assert instance.status().jobs["mails"].runs.failures_in_a_row >= 2


# --- Threads -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "running", "sizes"),
    [(3, one_thread, {3}), (3, thread_per_item, {1}), (10, half, {2}), (11, half, {2, 3})],
    ids=["one thread", "a thread per item", "half as many", "not divisible"],
)
def test_the_running_strategy_divides_items_among_threads(fleet, count, running, sizes):
    items = [f"item-{number}" for number in range(count)]
    fleet.start("a", fleet.job("reports", items=items, running=running))

    wait_until(lambda: len(fleet.ledger.items()) == count and len(fleet.ledger.runs_of()) > 20)

    assert {len(run.items) for run in fleet.ledger.runs_of()} == sizes
    assert fleet.conflicts() == []


def test_threads_of_one_job_run_concurrently(fleet):
    items = ["a", "b", "c"]
    instance = fleet.start("a", fleet.job("reports", items=items, running=thread_per_item, takes=HOUR))

    wait_until(lambda: instance.status().jobs["reports"].runs.in_progress == 3)


# --- Switches ------------------------------------------------------------------------------------


def test_switches_stop_and_start_jobs_during_their_runs(fleet):
    mails, reports = fleet.job("mails", takes=HOUR), fleet.job("reports")
    instance = fleet.start("a", mails, reports)
    wait_until(lambda: fleet.ledger.runs_of("mails") and fleet.ledger.runs_of("reports"))

    disabled_at = time.monotonic()
    instance.switches = Switches(all_disabled=True, disabled={"reports": False})
    wait_until(lambda: mails.told_to_stop_at)
    assert mails.told_to_stop_at[0] - disabled_at < 1
    wait_until(lambda: not instance.status().jobs["reports"].runs.items)

    enabled_at = time.monotonic()
    instance.switches = Switches(disabled={"mails": True})
    wait_until(lambda: len(fleet.ledger.runs_of("reports", since=enabled_at)) > 3)
    assert fleet.ledger.runs_of("mails", since=enabled_at) == []

    instance.switches = Switches(disabled_by_default=True, disabled={"mails": False})
    wait_until(lambda: fleet.ledger.runs_of("mails", since=enabled_at))


def test_a_disabled_job_is_assigned_to_no_node(fleet):
    fleet.start("a", fleet.job("mails"), fleet.job("reports"), switches=Switches(disabled={"mails": True}))

    wait_until(lambda: fleet.ledger.runs_of("reports"))

    assert set(fleet.watcher().read_state().shares) == {WorkItem("reports", "singleton")}


# --- The state "running" -------------------------------------------------------------------------


def test_a_job_is_shown_as_running_while_a_node_runs_one_of_its_items(fleet):
    job = fleet.job("mails", takes=HOUR)
    fleet.start("a", job)
    watcher = fleet.watcher()
    wait_until(lambda: state_of(watcher, "mails") == JobState.RUNNING)

    fleet.close("a")

    assert state_of(watcher, "mails") == JobState.STOPPED
    with pytest.raises(UnknownJob, match="there is no distributed job 'letters' in this cluster; there are: mails"):
        state_of(watcher, "letters")


def test_items_of_a_run_are_locked_by_its_node(fleet):
    fleet.start("a", fleet.job("mails", takes=HOUR))
    watcher = fleet.watcher()

    (lock,) = wait_until(watcher.locks)

    assert (lock.item, lock.holder) == (WorkItem("mails", "singleton"), "a")
    assert lock.since is not None
    # The lease is extended as long as the run lasts.
    let_pass(4)
    assert watcher.lock_of(lock.item).since == lock.since
    assert not watcher.lock_of(lock.item).has_expired
    assert len(fleet.ledger.runs_of("mails")) == 1


# --- The end -------------------------------------------------------------------------------------


def test_a_closing_instance_waits_for_its_runs_and_frees_their_items(fleet):
    instance = fleet.start("a", fleet.job("mails", takes=HOUR))
    wait_until(lambda: fleet.ledger.runs_of("mails"))

    assert instance.close()

    (run,) = fleet.ledger.runs_of("mails")
    assert run.ended_at is not None
    assert fleet.watcher().locks() == ()
    assert fleet.watcher().read_state().members == {}


def test_items_of_a_run_that_does_not_end_stay_locked(fleet):
    job = fleet.job("mails", takes=HOUR, obeys=False)
    instance = fleet.start("a", job, tuning=Tuning(stop_within=SECOND / 2))
    watcher = fleet.watcher()
    wait_until(watcher.locks)

    closed_at = time.monotonic()
    assert not instance.close()

    assert time.monotonic() - closed_at < 3
    (lock,) = watcher.locks()
    assert not lock.has_expired
