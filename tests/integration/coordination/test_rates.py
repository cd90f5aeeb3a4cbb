"""Proves for both stores that no item runs more often than its schedule allows, even while items change."""

import datetime as dt
import itertools
import threading
import time
from collections import Counter

import pytest

from nodes.distributed import DistributedJob, Schedule, one_thread, thread_per_item
from nodes.distributed.engine.execution import JobOnNode
from tests.support.waiting import wait_until

TIMEOUT = dt.timedelta(seconds=3)
PERIOD = dt.timedelta(seconds=0.8)
# Shortest time between the starts of two runs by rate (part of a period).
APART = 0.85
# Tolerance (seconds): ZooKeeper gives moments in whole milliseconds.
ROUNDING = 0.002
# Number of changes of the items. They take 60 s, in which a run is due many times.
CHANGES = 400


class Log:
    """
    The runs of each item, on all nodes.

    The node itself records the moments. On a loaded machine, `run` may be called long after them.
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._begun = Counter()
        self._pasts = {}

    def note_begin(self, items):
        with self._lock:
            self._begun.update(items)

    def note_past(self, items, past):
        with self._lock:
            for item in items:
                self._pasts.setdefault(item, []).append(past)

    def runs(self, item=None):
        """Return the number of runs that began, of this item or of all items."""
        return self._begun.total() if item is None else self._begun[item]

    def shortest_gap(self):
        """Return the shortest time between the starts of two runs of one item (seconds)."""
        return min(later.started_at - earlier.started_at for earlier, later in self._pairs())

    def shortest_pause(self):
        """Return the shortest time between the end of a run and the start of the next run of its item (seconds)."""
        return min(later.started_at - earlier.ended_at for earlier, later in self._pairs())

    def _pairs(self):
        assert Counter({item: len(pasts) for item, pasts in self._pasts.items()}) == self._begun
        for pasts in self._pasts.values():
            yield from itertools.pairwise(sorted(pasts, key=lambda past: past.started_at))


@pytest.fixture
def log(monkeypatch):
    made, note_past = Log(), JobOnNode.note_past

    def note(job, items, past):
        made.note_past(items, past)
        note_past(job, items, past)

    monkeypatch.setattr(JobOnNode, "note_past", note)
    return made


class Pulse(DistributedJob):
    job_id = "pulse"

    def __init__(self, log, items, *, schedule, running, first=None):
        self._log, self.items, self._schedule, self._running = log, set(items), schedule, running
        self._first = first or dt.timedelta()

    def schedule(self):
        return self._schedule

    def initial_delay(self):
        return self._first

    def work_pool(self):
        return set(self.items)

    def pool_check_period(self):
        return dt.timedelta(seconds=0.1)

    def running_strategy(self):
        return self._running

    def run(self, context):
        self._log.note_begin(context.work_share)
        time.sleep(0.3)


def change_until(condition, job, *, every):
    """Add and remove other items than `a` until the condition holds."""
    for number in range(CHANGES):
        if condition():
            return
        # No more than three items, so that a busy machine keeps up.
        job.items = {"a", f"c-{number}", *(["b"] if number % 2 else [])}
        time.sleep(every)
    pytest.fail(f"the condition is still false after {CHANGES} changes")


@pytest.mark.parametrize("running", [one_thread, thread_per_item])
def test_a_rate_holds_while_items_change_during_runs(bench, log, running):
    job = Pulse(log, ["a"], schedule=Schedule.by_rate(PERIOD), running=running)

    with bench.manager_of("one")("one", [job], timeout=TIMEOUT):
        change_until(lambda: log.runs("a") >= 3, job, every=0.15)

    assert log.shortest_gap() > APART * PERIOD.total_seconds() - ROUNDING


@pytest.mark.parametrize("make_schedule", [Schedule.by_rate, Schedule.by_delay])
def test_a_schedule_holds_for_items_that_move_to_another_node(bench, log, make_schedule):
    # The period is longer than the start-up of another node, which gets the items right after they ran.
    items, period = [f"item-{number}" for number in range(4)], dt.timedelta(seconds=2)

    def manager(name):
        job = Pulse(log, items, schedule=make_schedule(period), running=thread_per_item)
        return bench.manager_of(name)(name, [job], timeout=TIMEOUT)

    with manager("first"):
        wait_until(lambda: log.runs() == 4)
        with manager("second"):
            wait_until(lambda: log.runs() >= 8)

    if make_schedule == Schedule.by_rate:
        assert log.shortest_gap() > APART * period.total_seconds() - ROUNDING
    else:
        assert log.shortest_pause() > period.total_seconds() - ROUNDING


def test_items_run_although_other_items_change_all_the_time(bench, log):
    job = Pulse(log, ["a"], schedule=Schedule.by_rate(PERIOD), running=thread_per_item, first=PERIOD)

    with bench.manager_of("one")("one", [job], timeout=TIMEOUT):
        change_until(lambda: log.runs("a") >= 2, job, every=0.2)
