"""Metrics of every process about its program and its machine."""

import shutil
from pathlib import Path
from typing import Final

from nodes.metrics.kinds import Gauge, Process

_ALL: Final = frozenset({Process.MANAGER, Process.WORKER, Process.WEB, Process.AUTHORITY})

BUILD: Final = Gauge(
    name="crawlctl_build_info", labels=("version",), meaning="Always 1; the label is the version.", shown_by=_ALL
)
DISK_FREE: Final = Gauge(
    name="crawlctl_disk_free_bytes",
    labels=("directory",),
    meaning="Free space of the disk with this directory of the process, for logs and an embedded database.",
    shown_by=_ALL,
)
METRICS: Final[tuple[Gauge, ...]] = (BUILD, DISK_FREE)


def show(*, version: str, directory: Path) -> None:
    """
    Set the metric with the version of the program, and the metric with the free space on the disk of this directory.
    """
    BUILD.set(1, version)
    DISK_FREE.follow(lambda: _free_bytes(directory), str(directory))


def _free_bytes(directory: Path) -> float:
    try:
        return shutil.disk_usage(directory).free
    except OSError:
        # The directory is created at its first use.
        return float("nan")
