"""Proves that a thread counts as working while it loops, computes, waits for the database, or is idle."""

import threading
import time
from contextlib import contextmanager

import pytest

from nodes.life.thread_activity import ThreadActivity, Waiting
from tests.support.cluster import seconds


class Clock:
    """A clock that a test advances."""

    def __init__(self):
        self.at = 100.0

    def __call__(self):
        return self.at


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def activity(clock):
    """
    Return the activity of a thread that has completed one loop. A first call of `made_progress` has already reported this
    loop.
    """
    made = ThreadActivity(computes_at_most=seconds(100), clock=clock)
    made.note_pass()
    assert made.made_progress()
    made.made_progress()
    return made


@contextmanager
def computing(activity):
    """Run a thread that loops once and then computes until the block ends."""
    stop, began = threading.Event(), threading.Event()

    def compute():
        activity.note_pass()
        began.set()
        while not stop.is_set():
            sum(range(1000))

    thread = threading.Thread(target=compute)
    thread.start()
    began.wait(10)
    try:
        yield
    finally:
        stop.set()
        thread.join()


def wait_for_computing_time(cpu):
    """Wait until all threads of this process together have computed for this number of further seconds."""
    until = time.process_time() + cpu
    while time.process_time() < until:
        time.sleep(0.01)


def test_a_thread_that_loops_between_two_checks_counts_as_working(clock, activity):
    clock.at += 10
    activity.note_pass()

    assert activity.made_progress()
    clock.at += 10
    assert not activity.made_progress()


def test_a_thread_that_stands_still_does_not_count_as_working(clock, activity):
    clock.at += 10

    assert not activity.made_progress()


def test_a_computing_thread_counts_as_working_for_its_longest_computation(clock, activity):
    with computing(activity):
        assert activity.made_progress()
        clock.at += 1
        wait_for_computing_time(0.2)
        assert activity.made_progress()

        clock.at += 100
        wait_for_computing_time(2)
        assert not activity.made_progress()


def test_a_thread_that_waits_for_the_database_counts_as_working(clock, activity):
    with Waiting():
        clock.at += 1000
        assert activity.made_progress()
        clock.at += 1000
        assert activity.made_progress()

    clock.at += 10
    assert activity.made_progress(), "it has only just had its answer"
    clock.at += 10
    assert not activity.made_progress()


def test_an_idle_thread_counts_as_working_until_it_gets_work(clock, activity):
    activity.note_idle()
    clock.at += 1000
    assert activity.made_progress()

    activity.note_pass()

    assert activity.made_progress()
    clock.at += 10
    assert not activity.made_progress()


def test_a_wait_for_the_database_counts_only_for_its_own_thread(clock, activity):
    other = threading.Thread(target=Waiting().__enter__)
    other.start()
    other.join()
    clock.at += 10

    assert not activity.made_progress()
