"""
Measures the cost of processes: CPU seconds and peak memory, by kind of process.

Memory is the proportional set size, so memory that several processes share counts once. Its peak is the largest of four
samples a second.
"""

import threading
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Self

import psutil

_INTERVAL = 0.25
_MIB = 1 << 20

# Finds the present processes of one kind: workers and database sessions come and go.
Finder = Callable[[], Iterable[psutil.Process]]


class Meter:
    """An observer of processes while the block runs."""

    def __init__(self, kinds: Mapping[str, Finder]) -> None:
        self._kinds = kinds
        self._seconds: dict[str, dict[psutil.Process, float]] = {kind: {} for kind in kinds}
        self._peaks = dict.fromkeys(kinds, 0)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="meter", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def cpu_seconds(self, kind: str) -> float:
        """Return the CPU of all processes of the kind over their whole life, up to the last look at each."""
        return sum(self._seconds[kind].values())

    def peak_mib(self, kind: str) -> float:
        """Return the most memory that all processes of the kind had together."""
        return self._peaks[kind] / _MIB

    def _run(self) -> None:
        self._look()
        while not self._stop.wait(_INTERVAL):
            self._look()

    def _look(self) -> None:
        for kind, find in self._kinds.items():
            memory = 0
            for process in find():
                with suppress(psutil.NoSuchProcess):
                    times = process.cpu_times()
                    self._seconds[kind][process] = times.user + times.system
                    memory += process.memory_full_info().pss
            self._peaks[kind] = max(self._peaks[kind], memory)


def tree_of(root: psutil.Process) -> list[psutil.Process]:
    """Return the process and all its descendants, or an empty list if it no longer exists."""
    try:
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def cpu_seconds_of_tree(root: psutil.Process) -> float:
    """Return the CPU of a live process, its descendants, and those of them that have ended."""
    total = 0.0
    for process in tree_of(root):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total


def busy_seconds_of_machine() -> float:
    """Return the CPU that all processes have used on this machine since its start."""
    times = psutil.cpu_times()
    return sum(times) - times.idle - times.iowait - times.guest - times.guest_nice
