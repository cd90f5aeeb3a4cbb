"""Stopping a process in its tracks, as a machine that swaps or a virtual one that is moved would."""

import os
import signal
import time
from pathlib import Path


def freeze(pid: int) -> None:
    """Return when all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while not all(_stands_still(task) for task in tasks.iterdir()):
        time.sleep(0.005)


def _stands_still(task: Path) -> bool:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        # A thread that ended first.
        return True
