"""
Proves that every item keeps running, and never on two instances at once, while six applications are cut off, killed and
started.

CRAWLCTL_CHAOS_SECONDS sets the duration. The test of DJM lasts 60 s, and checks only that every item keeps running.
"""

import datetime as dt
import logging
import os
import random
import time

from tests.support.waiting import wait_until

logger = logging.getLogger(__name__)

SECONDS = float(os.environ.get("CRAWLCTL_CHAOS_SECONDS", "10"))
POOLS = {
    "job-1": ["all"],
    "job-3": ["a", "b", "c"],
    "job-6": [f"item-{number}" for number in range(6)],
    "job-16": [f"item-{number}" for number in range(16)],
}
EVERYTHING = {(job, item) for job, items in POOLS.items() for item in items}
NAMES = [f"djm{number}" for number in range(6)]


# Duration of a run, and of its end after it must stop: long enough to notice two instances that run an item at the same
# time, and short enough to end before its lease.
TAKES = LINGERS = dt.timedelta(seconds=0.15)


def start(fleet, name):
    jobs = (fleet.job(job, items=items, takes=TAKES, lingers=LINGERS) for job, items in POOLS.items())
    fleet.start(name, *jobs)


def wait_until_all_items_begin(fleet):
    """Wait until connected instances have begun every item within one second."""
    wait_until(lambda: fleet.ledger.items(since=time.monotonic() - 1) == EVERYTHING, within=40)


def test_no_item_runs_on_two_instances_at_once_despite_faults(fleet):
    seed = random.randrange(2**32)
    logger.info("seed %d", seed)
    chance = random.Random(seed)
    connected, cut = set(NAMES), set()
    for name in NAMES:
        start(fleet, name)
    wait_until_all_items_begin(fleet)

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        closed = set(NAMES) - connected - cut
        steps = [
            *[("cut", name) for name in connected if len(connected) > 1],
            *[(step, name) for name in connected if len(connected) > 1 for step in ("close", "kill")],
            *[("heal", name) for name in cut],
            *[("start", name) for name in closed],
        ]
        step, name = chance.choice(sorted(steps))
        logger.info("%s %s", step, name)
        if step == "cut":
            fleet.proxy_of(name).cut()
            connected.discard(name)
            cut.add(name)
        elif step == "heal":
            fleet.proxy_of(name).heal()
            cut.discard(name)
            connected.add(name)
        elif step in {"close", "kill"}:
            fleet.close(name) if step == "close" else fleet.kill(name)
            connected.discard(name)
        else:
            start(fleet, name)
            connected.add(name)
        wait_until_all_items_begin(fleet)
        assert fleet.conflicts() == []


def test_every_item_keeps_running_during_rolling_restarts(fleet):
    for name in NAMES[:4]:
        start(fleet, name)
    wait_until_all_items_begin(fleet)

    for group in ([NAMES[0]], [NAMES[1]], NAMES[2:4], NAMES[0:2]):
        for name in group:
            fleet.close(name)
        wait_until_all_items_begin(fleet)
        for name in group:
            start(fleet, name)
        wait_until_all_items_begin(fleet)

    assert fleet.conflicts() == []
