"""Proves that duties run one after the other, and that a waiting duty does not hold up the others."""

import datetime as dt
import time

import psycopg
import pytest

from jobs.loops.loop import ALWAYS, Duty, DutyRunner, duties
from tests.support.waiting import wait_until


class Duties:
    """Two duties. A test sets the duration and the failure of the first one."""

    def __init__(self):
        self.performed = []
        self.fails_with, self.takes = None, 0.0
        self.runner = DutyRunner(duties((self.first, 0.0, ALWAYS), (self.second, 0.0, ALWAYS)))

    def first(self, _context):
        self.performed.append("first")
        time.sleep(self.takes)
        if self.fails_with is not None:
            raise self.fails_with
        return 1

    def second(self, _context):
        self.performed.append("second")
        return 1

    def perform(self, **facts):
        self.performed.clear()
        return self.runner.perform(None, called={"first", "second"}, **facts)


@pytest.fixture
def due():
    return Duties()


def test_called_duties_are_performed_in_order(due):
    assert due.perform() == 2
    assert due.performed == ["first", "second"]


@pytest.mark.parametrize(
    "error", [psycopg.errors.LockNotAvailable, psycopg.errors.QueryCanceled, psycopg.errors.DiskFull]
)
def test_an_interrupted_duty_ends_the_pass_and_goes_last_in_the_next_pass(due, error):
    due.fails_with = error("in vain")
    due.takes = 0.3
    due.perform()
    assert (due.performed, due.runner.was_broken_off) == (["first"], True)
    due.fails_with, due.takes = None, 0.0

    due.perform()
    assert (due.performed, due.runner.was_broken_off) == (["second"], False)

    wait_until(lambda: due.perform() == 2)


def test_a_duty_with_a_defect_delays_no_other_duty(due):
    due.fails_with = ZeroDivisionError()

    assert due.perform() == 1
    assert due.performed == ["first", "second"]


def test_a_connection_that_broke_ends_the_pass(due):
    due.fails_with = psycopg.OperationalError("the connection is lost")

    with pytest.raises(psycopg.OperationalError, match="lost"):
        due.perform()


def test_a_node_that_may_no_longer_begin_duties_skips_the_remaining_duties(due):
    answers = iter([True, False])

    assert due.perform(may_begin=lambda: next(answers)) == 1
    assert due.performed == ["first"]


def test_a_collecting_duty_waits_after_each_call_to_collect_work():
    performed = []

    def collecting(_context):
        performed.append("collecting")
        return 5

    runner = DutyRunner((Duty(collecting, dt.timedelta(), ALWAYS, collect=dt.timedelta(minutes=1)),))

    assert [runner.perform(None, called={"collecting"}) for _ in range(2)] == [5, 0]
    assert (performed, runner.changed) == (["collecting"], 0)


@pytest.mark.parametrize(("in_flow", "expected"), [(True, [5, 0]), (False, [5, 5])])
def test_a_duty_that_can_wait_for_more_waits_only_in_a_steady_flow(in_flow, expected):
    runner = DutyRunner((Duty(lambda _context: 5, dt.timedelta(), ALWAYS, in_flow=dt.timedelta(minutes=1)),))

    assert [runner.perform(None, called={"<lambda>"}, in_flow=in_flow) for _ in range(2)] == expected


def test_an_event_speeds_up_frequent_duties_and_no_housekeeping():
    performed = []

    def often(_context):
        performed.append("often")
        return 0

    def seldom(_context):
        performed.append("seldom")
        return 0

    runner = DutyRunner(duties((often, 3.0, ALWAYS), (seldom, 60.0, ALWAYS)))
    for _ in range(2):
        runner.perform(None, called={"often", "seldom"})
        runner.speed_up()

    assert performed == ["often", "seldom", "often"]
