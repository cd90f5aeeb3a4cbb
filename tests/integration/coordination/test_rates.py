"""No item runs more often than its schedule allows, however items change, in both stores."""

import datetime as dt
import itertools
import threading
import time

import pytest

from nodes.distributed import DistributedJob, Schedule, one_thread, thread_per_item
from tests.support.waiting import wait_until

TIMEOUT = dt.timedelta(seconds=3)
PERIOD = dt.timedelta(seconds=0.8)
# Least distance of two runs by rate (part of a period).
APART = 0.85
# Time that a loaded machine may take between the decision of a node and the record of its run (seconds).
NOISE = 0.1


class Log:
    """A record of the moments at which runs of each item began and ended, on all nodes."""

    def __init__(self):
        self._lock = threading.Lock()
        self.began, self.ended = {}, {}

    def note(self, book, items):
        with self._lock:
            for item in items:
                book.setdefault(item, []).append(time.monotonic())

    def runs(self):
        return sum(map(len, self.began.values()))

    def shortest_gap(self):
        """Return the shortest time between the starts of two runs of one item (seconds)."""
        gaps = [b - a for moments in self.began.values() for a, b in itertools.pairwise(sorted(moments))]
        return min(gaps, default=float("inf"))

    def shortest_pause(self):
        """Return the shortest time between the end of a run and the start of the next run of its item (seconds)."""
        pairs = [pair for item, ends in self.ended.items() for pair in zip(ends, self.began[item][1:], strict=False)]
        return min((begin - end for end, begin in pairs), default=float("inf"))


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
        self._log.note(self._log.began, context.work_share)
        time.sleep(0.3)
        self._log.note(self._log.ended, context.work_share)


@pytest.mark.parametrize("running", [one_thread, thread_per_item])
def test_a_rate_holds_while_items_change_during_runs(bench, running):
    log = Log()
    job = Pulse(log, ["a"], schedule=Schedule.by_rate(PERIOD), running=running)

    with bench.manager_of("one")("one", [job], timeout=TIMEOUT):
        wait_until(lambda: log.runs() > 0)
        for number in range(15):
            job.items ^= {"b", f"c-{number}"}
            time.sleep(0.15)

    assert len(log.began["a"]) >= 2
    assert log.shortest_gap() > APART * PERIOD.total_seconds() - NOISE


@pytest.mark.parametrize("make_schedule", [Schedule.by_rate, Schedule.by_delay])
def test_a_schedule_holds_for_items_that_move_to_another_node(bench, make_schedule):
    # The period is longer than the start-up of another node, which gets the items right after they ran.
    log, items, period = Log(), [f"item-{number}" for number in range(4)], dt.timedelta(seconds=2)

    def manager(name):
        job = Pulse(log, items, schedule=make_schedule(period), running=thread_per_item)
        return bench.manager_of(name)(name, [job], timeout=TIMEOUT)

    with manager("first"):
        wait_until(lambda: log.runs() == 4)
        with manager("second"):
            wait_until(lambda: log.runs() >= 8)

    if make_schedule == Schedule.by_rate:
        assert log.shortest_gap() > APART * period.total_seconds() - NOISE
    else:
        assert log.shortest_pause() > period.total_seconds() - NOISE


def test_items_run_although_those_beside_them_change_all_the_time(bench):
    log = Log()
    job = Pulse(log, ["a"], schedule=Schedule.by_rate(PERIOD), running=thread_per_item, first=PERIOD)

    with bench.manager_of("one")("one", [job], timeout=TIMEOUT):
        for _ in range(15):
            job.items ^= {"b"}
            time.sleep(0.2)

    assert len(log.began["a"]) >= 2
