"""Managers and workers as processes, for what is measured of a cluster at work."""

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping

from tests.benchmarks.databases import ROOT

_LONGEST = 60.0


@contextlib.contextmanager
def running_daemons(environment: Mapping[str, str], *kinds: str) -> Iterator[list[subprocess.Popen[bytes]]]:
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
        yield started
    finally:
        for daemon in started:
            daemon.terminate()
        for daemon in started:
            daemon.wait()


def wait_until(condition: Callable[[], bool], *, within: float = _LONGEST) -> None:
    """
    Return once it holds.

    Raises:
        RuntimeError: that took longer than `within` seconds.
    """
    deadline = time.monotonic() + within
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"it did not come true within {within:.0f} s")
        time.sleep(0.02)
