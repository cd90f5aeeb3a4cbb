"""
When a processor of this machine stood still, so that what reached a site meanwhile was logged late.

The host of a virtual machine takes its processors away now and then, for up to a tenth of a second. A watcher for each
processor, which runs before all others where that is permitted, sleeps for moments and notes when it woke late (as Gil
Tene's jHiccup does).
"""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# Seconds: between two looks, and by how much the next one has to be late.
_PULSE, _LATE = 0.005, 0.02


@dataclass(frozen=True, slots=True)
class Stall:
    """A processor stood still between two moments of the monotonic clock, in seconds."""

    since: float
    until: float


@contextmanager
def watched(path):
    """Note the stalls of all processors in a file until the block ends; gives the process that does."""
    watcher = subprocess.Popen([sys.executable, "-m", "tests.chaos.stalls", path])
    try:
        yield watcher
    finally:
        watcher.kill()
        watcher.wait()


def read_stalls(path):
    """The stalls that were noted; none where nobody watched."""
    if not path.exists():
        return []
    return [Stall(*map(float, line.split())) for line in path.read_text().splitlines()]


def _watch(processor, path):
    with suppress(PermissionError):
        me = threading.get_native_id()
        os.sched_setaffinity(me, {processor})
        os.sched_setscheduler(me, os.SCHED_RR, os.sched_param(2))
    with path.open("a", buffering=1) as file:
        before = time.monotonic()
        while True:
            time.sleep(_PULSE)
            now = time.monotonic()
            if now - before > _PULSE + _LATE:
                file.write(f"{before:.6f} {now:.6f}\n")
            before = now


def main(path):
    for processor in os.sched_getaffinity(0):
        threading.Thread(target=_watch, args=(processor, Path(path))).start()


if __name__ == "__main__":
    main(sys.argv[1])
