"""Freezes a process, like a machine that swaps or a virtual machine that is moved."""

import os
import signal
import time
from pathlib import Path


def freeze(pid: int) -> None:
    """Freeze the process, and return when all of its threads stand still."""
    os.kill(pid, signal.SIGSTOP)
    tasks = Path(f"/proc/{pid}/task")
    while not all(_stands_still(task) for task in tasks.iterdir()):
        time.sleep(0.005)


def _stands_still(task: Path) -> bool:
    try:
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "T"
    except (FileNotFoundError, ProcessLookupError):
        # The thread ended first.
        return True
