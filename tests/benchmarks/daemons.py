"""Managers and workers as processes, for what is measured of a cluster at work."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from tests.benchmarks.databases import ROOT

_LONGEST = 60.0


@contextlib.contextmanager
def running_daemons(environment: Mapping[str, str], *kinds: str) -> Iterator[None]:
    """Daemons of these kinds, until the block ends."""
    started = [
        subprocess.Popen(
            [sys.executable, "manage.py", kind],
            cwd=ROOT,
            env={"CRAWLCTL_LOG_LEVEL": "ERROR", **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )
        for kind in kinds
    ]
    try:
        yield
    finally:
        for daemon in started:
            daemon.terminate()
        for daemon in started:
            daemon.wait()


def wait_until(condition: Callable[[], bool]) -> None:
    """
    Return once it holds.

    Raises:
        RuntimeError: that took a minute.
    """
    deadline = time.monotonic() + _LONGEST
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"it did not come true within {_LONGEST:.0f} s")
        time.sleep(0.02)
