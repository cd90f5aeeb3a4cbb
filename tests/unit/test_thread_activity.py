"""Proves that a thread counts as working while it loops, computes, waits for the database, or is idle."""

import threading
import time
from contextlib import contextmanager

import pytest

from nodes.life.effort import Effort, Waiting
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
def effort(clock):
    """
    Return the effort of a thread that has completed one loop. A first call of `made_progress` has already reported this
    loop.
    """
    made = Effort(computes_at_most=seconds(100), clock=clock)
    made.note_pass()
    assert made.made_progress()
    made.made_progress()
    return made


@contextmanager
def computing(effort):
    """Run a thread that loops once and then computes until the block ends."""
    stop, began = threading.Event(), threading.Event()

    def compute():
        effort.note_pass()
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


def let_it_use(cpu):
    """Wait until all threads of this process have computed for this many more seconds."""
    until = time.process_time() + cpu
    while time.process_time() < until:
        time.sleep(0.01)


def test_a_thread_that_loops_between_two_checks_counts_as_working(clock, effort):
    clock.at += 10
    effort.note_pass()

    assert effort.made_progress()
    clock.at += 10
    assert not effort.made_progress()


def test_a_thread_that_stands_still_does_not_count_as_working(clock, effort):
    clock.at += 10

    assert not effort.made_progress()


def test_a_computing_thread_counts_as_working_for_its_longest_computation(clock, effort):
    with computing(effort):
        assert effort.made_progress()
        clock.at += 1
        let_it_use(0.2)
        assert effort.made_progress()

        clock.at += 100
        let_it_use(2)
        assert not effort.made_progress()


def test_a_thread_that_waits_for_the_database_counts_as_working(clock, effort):
    with Waiting():
        clock.at += 1000
        assert effort.made_progress()
        clock.at += 1000
        assert effort.made_progress()

    clock.at += 10
    assert effort.made_progress(), "it has only just had its answer"
    clock.at += 10
    assert not effort.made_progress()


def test_an_idle_thread_counts_as_working_until_it_gets_work(clock, effort):
    effort.note_idle()
    clock.at += 1000
    assert effort.made_progress()

    effort.note_pass()

    assert effort.made_progress()
    clock.at += 10
    assert not effort.made_progress()


def test_a_wait_for_the_database_counts_only_for_its_own_thread(clock, effort):
    other = threading.Thread(target=Waiting().__enter__)
    other.start()
    other.join()
    clock.at += 10

    assert not effort.made_progress()
