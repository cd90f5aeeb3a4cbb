"""
Proves that every item keeps running, and never on two processes at once, while six processes are cut off, frozen and
killed.

This is DJM's chaos test, with faults that threads of one process cannot have. CRAWLCTL_CHAOS_SECONDS sets the duration.
"""

import logging
import os
import random
import signal
import time
from functools import partial

import pytest

from tests.acceptance.distributed.conftest import TIMEOUT
from tests.support.distributed_jobs import ITEMS, conflicts_in, entries_of

logger = logging.getLogger(__name__)

SECONDS = float(os.environ.get("CRAWLCTL_CHAOS_SECONDS", "8"))
NAMES = [f"djm{number}" for number in range(6)]
PATIENCE = 60.0


class Instance:
    """A named `manage.py runjobs`, with its own connection to the store."""

    def __init__(self, name, proxy, start):
        self.name, self.proxy = name, proxy
        self._start = start
        self.process = None
        self.wakes_at = None
        self.is_cut = False

    @property
    def is_there(self):
        return self.process is not None and not self.process.has_ended

    @property
    def is_well(self):
        return self.is_there and not self.is_cut and self.wakes_at is None

    def start(self):
        self.process = self._start()

    def end(self, number):
        self.process.send(number)
        # A process that has begun its work ends with 0. The signal kills a process that is still starting.
        assert self.process.wait() in ({0, -number} if number == signal.SIGTERM else {-number}), self.process.err[
            -3000:
        ]
        self.process = None

    def supervise(self):
        """
        Wake the process when its freeze is over. Restart it if it gave up because its connection was cut while it
        started.
        """
        if self.wakes_at is not None and time.monotonic() > self.wakes_at:
            self.thaw()
        if self.process is not None and self.process.has_ended and not self.is_cut:
            self.start()

    def freeze(self, seconds):
        self.process.send(signal.SIGSTOP)
        self.wakes_at = time.monotonic() + seconds

    def thaw(self):
        if self.wakes_at is not None:
            self.wakes_at = None
            self.process.send(signal.SIGCONT)

    def cut(self):
        self.is_cut = True
        self.proxy.cut()

    def heal(self):
        self.is_cut = False
        self.proxy.heal()


@pytest.fixture
def instances(store, start_jobs, machine):
    """Return six instances of one cluster, with none started."""
    made = []
    for name in NAMES:
        proxy = store.make_proxy()
        made.append(Instance(name, proxy, partial(start_jobs, "--node", name, **store.environment(proxy))))
    yield made
    for instance in made:
        instance.thaw()
        instance.heal()
    machine.clean_up()
    for instance in made:
        instance.proxy.__exit__()


def wait_until_all_items_begin(instances, diary):
    """Wait until every item was begun within two seconds."""
    deadline = time.monotonic() + PATIENCE
    while True:
        since = time.monotonic()
        while time.monotonic() < since + 2:
            time.sleep(0.05)
            for instance in instances:
                instance.supervise()
            if {entry.item for entry in entries_of(diary, since=since) if entry.what == "begin"} == set(ITEMS):
                return
        errors = "\n".join(one.process.err[-800:] for one in instances if one.is_there)
        assert time.monotonic() < deadline, f"an item is not done:\n{errors}"


def steps_of(instances, chance):
    """Yield each possible step by name. At least one instance stays unharmed."""
    well = [one for one in instances if one.is_well]
    for one in instances:
        if one.is_cut:
            yield "heal", one.heal
        elif not one.is_there:
            yield "start", one.start
        elif one.is_well and len(well) > 1:
            yield "cut", one.cut
            yield "kill", partial(one.end, signal.SIGKILL)
            yield "stop", partial(one.end, signal.SIGTERM)
            yield "freeze", partial(one.freeze, chance.uniform(0.3, 2) * TIMEOUT)


def test_no_item_runs_on_two_processes_at_once_despite_faults(instances, diary):
    seed = int(os.environ.get("CRAWLCTL_CHAOS_SEED", random.randrange(2**32)))
    chance = random.Random(seed)
    for instance in instances[:4]:
        instance.start()
    wait_until_all_items_begin(instances, diary)

    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        what, inject_fault = chance.choice(list(steps_of(instances, chance)))
        logger.info("seed %d: %s", seed, what)
        inject_fault()
        wait_until_all_items_begin(instances, diary)

    assert conflicts_in(diary) == []
