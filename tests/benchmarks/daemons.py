"""Managers and workers as processes, for measurements of a working cluster."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator, Mapping

from tests.benchmarks.databases import ROOT


@contextlib.contextmanager
def running_daemons(environment: Mapping[str, str], *kinds: str) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Run daemons of these kinds until the block ends."""
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
