"""Proves the rules of distributed jobs that need no store: ids, shares, switches, pools, run contexts."""

import datetime as dt
import logging
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.coordination.names import BadName
from nodes.distributed import (
    DistributedJob,
    JobContext,
    Schedule,
    Switches,
    Tuning,
    one_thread,
    thread_per_item,
    threads,
)
from nodes.distributed.engine import execution
from nodes.distributed.engine.execution import JobOnNode, NodeContext
from nodes.distributed.engine.job import by_id
from nodes.distributed.engine.locks import RunLocks
from nodes.distributed.engine.observer import Observer, ObserverGroup, Work
from nodes.distributed.engine.pools import KnownPool
from nodes.distributed.engine.sharing import change_of, split
from tests.support.tables import each_row
from tests.support.waiting import wait_until

ITEMS = st.frozensets(st.text("abc", min_size=1, max_size=5), max_size=30)
MINUTE = dt.timedelta(minutes=1)


class Reports(DistributedJob):
    def schedule(self):
        return Schedule.by_delay(MINUTE)

    def run(self, context):
        pass


class Named(Reports):
    def __init__(self, name):
        self._name = name

    @property
    def job_id(self):
        return self._name


# --- Ids -----------------------------------------------------------------------------------------


def test_a_job_has_the_name_of_its_class_unless_it_sets_another():
    assert Reports().job_id.endswith("test_distributed_rules.Reports")
    assert list(by_id([Reports(), Named("mails")])) == [Reports().job_id, "mails"]


@each_row("name", ["", "a job", "reports/north", "ä", "x" * 121, ".."])
def test_an_invalid_id_is_refused_with_the_valid_form(name):
    with pytest.raises(BadName, match=r"must have 1 to 120 characters of a-z, A-Z, 0-9, '\.', '_' and '-'"):
        by_id([Named(name)])


@each_row(("name", "shown"), [(7, "7 of type int"), (None, "None of type NoneType")])
def test_a_name_that_is_no_text_is_refused_with_its_type(name, shown):
    with pytest.raises(BadName, match=f"the job {shown} is invalid: it must have 1 to 120 characters"):
        by_id([Named(name)])


def test_an_invalid_job_is_refused():
    with pytest.raises(TypeError, match="Named'> is not a DistributedJob: pass an object"):
        by_id([Named])


def test_two_jobs_with_one_id_are_refused_and_both_are_named():
    class Other(Named):
        pass

    with pytest.raises(ValueError, match=r"two jobs have the same id 'mails': .*Named and .*Other"):
        by_id([Named("mails"), Other("mails")])


# --- Shares --------------------------------------------------------------------------------------


@given(ITEMS, st.integers(1, 40))
def test_a_share_is_split_into_groups_that_differ_by_one_at_most(items, count):
    groups = split(items, count)

    assert sorted(item for group in groups for item in group) == sorted(items)
    assert len(groups) == min(count, len(items))
    assert not items or max(map(len, groups)) - min(map(len, groups)) <= 1
    assert all(groups)


def test_running_strategies_have_a_number_of_threads():
    items = frozenset("abc")

    assert [strategy(items) for strategy in (one_thread, thread_per_item, threads(2))] == [1, 3, 2]
    assert [len(group) for group in split(items, 2)] == [2, 1]


def test_a_number_of_zero_threads_is_refused():
    for call in (lambda: threads(0), lambda: split({"a"}, 0)):
        with pytest.raises(ValueError, match="0 threads are too few: a job needs at least 1"):
            call()


ASSIGNMENTS = st.dictionaries(st.sampled_from(["r", "m", "x"]), ITEMS)


@given(ASSIGNMENTS, ASSIGNMENTS)
def test_after_a_change_a_node_runs_its_share_and_keeps_unchanged_jobs(running, assigned):
    change = change_of(running, assigned)

    after = {job: items for job, items in running.items() if job not in change.ends} | change.begins
    assert {job: items for job, items in after.items() if items} == {
        job: items for job, items in assigned.items() if items
    }
    assert all(running.get(job, frozenset()) != items for job, items in change.begins.items())


# --- Switches ------------------------------------------------------------------------------------


@each_row(
    ("switches", "forbidden"),
    [
        (Switches(), False),
        (Switches(disabled={"mails": True}), True),
        (Switches(disabled={"reports": True}), False),
        (Switches(disabled_by_default=True), True),
        (Switches(disabled_by_default=True, disabled={"mails": False}), False),
        (Switches(all_disabled=True, disabled={"mails": False}), True),
    ],
)
def test_the_switch_of_all_jobs_overrides_a_jobs_switch_and_the_default(switches, forbidden):
    assert switches.disables("mails") is forbidden


# --- Pools ---------------------------------------------------------------------------------------


def test_a_pool_that_cannot_be_read_is_empty_unless_it_is_kept():
    good = KnownPool().after_success(frozenset("ab"), now=0)

    assert good.after_failure("gone", keep=dt.timedelta(), now=1).items == frozenset()
    assert good.after_failure("gone", keep=MINUTE, now=1).items == frozenset("ab")
    assert good.after_failure("gone", keep=MINUTE, now=1).problem == "gone"


def test_a_kept_pool_is_emptied_if_it_was_last_read_too_long_ago():
    failing = KnownPool().after_success(frozenset("ab"), now=0).after_failure("gone", keep=MINUTE, now=59)

    assert failing.items == frozenset("ab")
    assert failing.after_failure("gone", keep=MINUTE, now=60).items == frozenset()


def test_a_pool_that_was_never_read_is_empty():
    assert KnownPool().after_failure("gone", keep=MINUTE, now=0).items == frozenset()


# --- The context of a run ------------------------------------------------------------------------


def test_a_listener_is_called_once_when_the_run_should_stop():
    context, called = JobContext({"a"}), []
    context.add_shutdown_listener(lambda: called.append("told"))
    assert not context.should_stop

    context.stop()
    context.stop()

    assert context.should_stop
    wait_until(lambda: called == ["told"])


def test_a_listener_added_after_the_stop_is_called_immediately():
    context, called = JobContext({"a"}), []
    context.stop()

    context.add_shutdown_listener(lambda: called.append("told"))

    assert called == ["told"]


@each_row("failure", [OSError("the disk is full"), SystemExit("no more")])
def test_a_failing_listener_does_not_prevent_calls_of_other_listeners(caplog, failure):
    context, called = JobContext({"a"}, job="mails"), threading.Event()

    def fails():
        raise failure

    context.add_shutdown_listener(fails)
    context.add_shutdown_listener(called.set)
    with caplog.at_level(logging.ERROR):
        context.stop()
        assert called.wait(10)

    assert "a shutdown listener of job mails failed" in caplog.text


def test_a_listener_that_hangs_does_not_delay_the_end_of_the_run():
    context, free = JobContext({"a"}), threading.Event()
    context.add_shutdown_listener(free.wait)

    context.stop()

    assert context.should_stop
    free.set()


def test_a_removed_listener_is_not_called():
    context, called = JobContext({"a"}), []
    context.add_shutdown_listener(called.append)
    context.remove_shutdown_listener(called.append)
    context.remove_shutdown_listener(called.append)

    context.stop()
    context.add_shutdown_listener(lambda: called.append("the last"))

    assert called == ["the last"]


# --- Tuning and observers ------------------------------------------------------------------------


def test_a_lease_is_never_longer_than_the_timeout_of_its_node():
    assert Tuning().lease_for(MINUTE) == MINUTE
    assert Tuning(lease=MINUTE / 2).lease_for(MINUTE) == MINUTE / 2
    with pytest.raises(ValueError, match="the lease is 90 s: it must not be longer than the timeout of nodes, 60 s"):
        Tuning(lease=1.5 * MINUTE).lease_for(MINUTE)


@each_row("name", ["stop_within", "lease", "clean_every", "try_again", "start_within"])
def test_a_duration_of_zero_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} of 0 s is invalid: it must be more than 0"):
        Tuning(**{name: dt.timedelta()})


def test_a_failing_observer_does_not_prevent_calls_of_other_observers(caplog):
    class Fails(Observer):
        def work_begun(self, kind):
            raise RuntimeError("no memory")

    class Listens(Observer):
        begun = ()

        def work_begun(self, kind):
            self.begun = (kind,)

    listening = Listens()

    with ObserverGroup([Fails(), listening]).work(Work.REBALANCE):
        pass

    assert listening.begun == (Work.REBALANCE,)
    assert "an observer of distributed jobs failed" in caplog.text


# --- Answers of a job ------------------------------------------------------------------------------


class Many(Named):
    """A job that requests a thread for each item, and records the items that ran."""

    def __init__(self, job_id):
        super().__init__(job_id)
        self.ran = set()

    def initial_delay(self):
        return dt.timedelta()

    def running_strategy(self):
        return thread_per_item

    def run(self, context):
        self.ran |= context.work_share


class FreeLocks:
    """Locks of items that no other node wants."""

    def __init__(self):
        self._locks = RunLocks(self)

    def take(self, items, *, wanted, stop):
        return self._locks

    def paced_from(self, tokens):
        return {}

    def pace_from(self, tokens, moment):
        pass

    def give_back(self, tokens):
        pass


def test_a_job_with_too_few_threads_still_runs_all_of_its_items(monkeypatch, caplog):
    job, items = Many("mails"), frozenset(f"item-{number}" for number in range(12))
    node_context = NodeContext(locks=FreeLocks(), observer=ObserverGroup([]), tuning=Tuning, may_begin=lambda: True)
    on_node, start = JobOnNode("mails", job, node_context), execution._Group.start

    def start_few(group):
        if sum(thread.name.startswith("mails ") for thread in threading.enumerate()) >= 5:
            raise RuntimeError("can't start new thread")
        start(group)

    monkeypatch.setattr(execution._Group, "start", start_few)
    on_node.take_up(items)
    assert not on_node.items
    assert on_node.wait(MINUTE)
    on_node.take_up(items)

    wait_until(lambda: job.ran == items)
    assert on_node.items == items
    assert (
        "job mails could start only 5 of its 12 threads: can't start new thread; next attempt with 2 threads"
        in caplog.text
    )
    on_node.close()
    assert on_node.wait(MINUTE)


class Undecided(Named):
    """A job that returns a changeable initial delay, and counts the calls."""

    says, asked = "soon", 0

    def initial_delay(self):
        self.asked += 1
        return self.says


def test_an_invalid_schedule_of_a_job_is_logged_once_while_it_lasts(caplog, monkeypatch):
    monkeypatch.setattr(execution, "_CHECK_INTERVAL", 0.01)
    caplog.set_level(logging.INFO)
    job = Undecided("mails")
    on_node = JobOnNode(
        "mails", job, NodeContext(locks=None, observer=ObserverGroup([]), tuning=Tuning, may_begin=lambda: False)
    )

    def problem():
        return on_node.seen(now=dt.datetime.now(dt.UTC)).problem

    on_node.take_up(frozenset({"singleton"}))
    wait_until(lambda: job.asked > 3)
    assert "AttributeError: 'str' object has no attribute 'total_seconds'" in problem()
    assert caplog.text.count("the schedule of job mails cannot be read") == 1

    job.says = 7
    wait_until(lambda: "'int' object" in problem())
    # The thread of the job stores the problem first, and logs the problem afterwards.
    wait_until(lambda: caplog.text.count("the schedule of job mails cannot be read") == 2)

    job.says = MINUTE
    wait_until(lambda: problem() == "")
    wait_until(lambda: "the schedule of job mails can be read again" in caplog.text)
    on_node.close()
    assert on_node.wait(MINUTE)


class Exits(Named):
    """A job whose methods all raise SystemExit until `willing` is set."""

    willing = False

    def _exit(self):
        if not self.willing:
            raise SystemExit("no work today")

    def schedule(self):
        self._exit()
        return super().schedule()

    def running_strategy(self):
        self._exit()
        return super().running_strategy()


def test_a_job_whose_methods_raise_system_exit_is_logged_and_tried_again(caplog, monkeypatch):
    monkeypatch.setattr(execution, "_CHECK_INTERVAL", 0.01)
    job = Exits("mails")
    node_context = NodeContext(locks=None, observer=ObserverGroup([]), tuning=Tuning, may_begin=lambda: False)
    on_node = JobOnNode("mails", job, node_context)

    def problem():
        return on_node.seen(now=dt.datetime.now(dt.UTC)).problem

    on_node.take_up(frozenset({"singleton"}))
    wait_until(lambda: "its schedule cannot be read: SystemExit: no work today" in problem())
    assert "the running strategy of job mails failed: the job gets 1 thread" in caplog.text

    job.willing = True

    wait_until(lambda: problem() == "")
    on_node.close()
    assert on_node.wait(MINUTE)
