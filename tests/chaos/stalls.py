"""
The stalls of this machine's processors. A request that reaches a site during a stall is logged late.

The host of a virtual machine sometimes takes its processors away, for up to a tenth of a second. A watcher for each
processor has priority over all other processes, where that is permitted. A watcher sleeps for moments, and notes when it woke
late (as Gil Tene's jHiccup does).
"""

import os
import subprocess
import sys
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

# Seconds between two checks of the clock, and seconds of delay that count as a stall.
_INTERVAL, _LATE = 0.005, 0.02


@dataclass(frozen=True, slots=True)
class Stall:
    """An interval of the monotonic clock, in seconds, in which a processor stood still."""

    since: float
    until: float


@contextmanager
def watched(path):
    """Note the stalls of all processors in a file until the block ends. Yield the process that does so."""
    watcher = subprocess.Popen([sys.executable, "-m", "tests.chaos.stalls", path])
    try:
        yield watcher
    finally:
        watcher.kill()
        watcher.wait()


def read_stalls(path):
    """Return the noted stalls, or none if there was no watcher."""
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
            time.sleep(_INTERVAL)
            now = time.monotonic()
            if now - before > _INTERVAL + _LATE:
                file.write(f"{before:.6f} {now:.6f}\n")
            before = now


def main(path):
    for processor in os.sched_getaffinity(0):
        threading.Thread(target=_watch, args=(processor, Path(path))).start()


if __name__ == "__main__":
    main(sys.argv[1])
