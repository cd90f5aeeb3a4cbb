"""
Run a command with the directory of data in memory: `python -m tests.support.in_memory COMMAND...`

Each acceptance test copies a database of a thousand files. On a disk, the copy takes up to half a second of processor
time, and in memory a tenth of that. If memory is scarce, or CRAWLCTL_VAR is set, the command runs with the directory on
the disk.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

_MEMORY = Path("/dev/shm")
_PREFIX = "crawlctl-tests-"
# Bytes of the databases of the tests and of their write-ahead log. The processes of the tests need as many.
_NEEDED = 3 * 2**30
# Seconds in which the embedded server ends after its last user.
_ENDS_WITHIN = 30


def has_room() -> bool:
    """Return True if the file system in memory and the memory itself have room for the tests."""
    if not os.access(_MEMORY, os.W_OK):
        return False
    facts = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
    available = int(facts["MemAvailable"].split()[0]) * 1024
    return shutil.disk_usage(_MEMORY).free >= _NEEDED and available >= 2 * _NEEDED


def remove_left_behind(memory: Path = _MEMORY) -> None:
    """Remove the directories of killed commands, unless their server still runs."""
    for directory in memory.glob(f"{_PREFIX}*"):
        pid = directory.name.removeprefix(_PREFIX).partition("-")[0]
        if not Path("/proc", pid).exists() and not _is_used(directory):
            shutil.rmtree(directory, ignore_errors=True)


def _is_used(directory: Path) -> bool:
    """Return True if a process works below this directory, as each process of the server does."""
    for link in Path("/proc").glob("[0-9]*/cwd"):
        try:
            if link.readlink().is_relative_to(directory):
                return True
        except OSError:
            # The process has ended, or belongs to another user.
            continue
    return False


def main(words: list[str]) -> int:
    """Run the command, and return its exit code."""
    if os.environ.get("CRAWLCTL_VAR") or not has_room():
        return subprocess.run(words, check=False).returncode
    remove_left_behind()
    directory = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=_MEMORY))
    try:
        command = subprocess.Popen(words, env={**os.environ, "CRAWLCTL_VAR": str(directory)})
        # A Ctrl-C in the terminal also reaches the command, so this process ignores it and waits for the command.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, lambda number, _frame: command.send_signal(number))
        return command.wait()
    finally:
        until = time.monotonic() + _ENDS_WITHIN
        while _is_used(directory) and time.monotonic() < until:
            time.sleep(0.1)
        shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
