"""
Free space on the disks of a worker. Below a limit, the worker takes no work; above the limit, it continues by itself.

On a full disk, the embedded database would stop, a log would lose lines, and an output would refuse documents.
"""

import os
import stat
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from django.conf import settings

_MIB: Final = 1024 * 1024
# Seconds between two checks. A fast crawl writes some hundred MiB in this time.
_CHECK_INTERVAL: Final = 1.0


class FreeDisk:
    """The disks that one process writes to. Any thread may add a place; one thread checks the free space."""

    def __init__(self) -> None:
        self._places = _usual_places()
        self._checked_at = float("-inf")
        self._shortage = ""

    def writes_to(self, files: Iterable[Path]) -> None:
        """Add files that this process writes, so that the disks of their folders are checked."""
        for file in files:
            self._places.setdefault(file.parent, "output")

    def forget_files(self) -> None:
        """Forget the files, because an output may have another file now. The next write adds the files in use."""
        self._places = _usual_places()
        self._checked_at = float("-inf")

    def shortage(self, *, limit: int) -> str:
        """
        Return a sentence that names the disk with too little room; '' while each disk has more than `limit` MiB left.
        """
        if not limit:
            return ""
        if time.monotonic() - self._checked_at > _CHECK_INTERVAL:
            self._checked_at = time.monotonic()
            self._shortage = self._find_shortage(limit)
        return self._shortage

    def _find_shortage(self, limit: int) -> str:
        places = [(_free_at(place), f"the {what} directory {place}") for place, what in list(self._places.items())]
        places.append((_free_for_log(), "the log (standard error)"))
        short = [(free, place) for free, place in places if free is not None and free < limit * _MIB]
        if not short:
            return ""
        free, place = min(short)
        return (
            f"the disk of {place} has {free // _MIB:,} MiB left, and the limit (CRAWLCTL_FREE_DISK) is {limit:,} MiB. "
            "Make room there: crawling then continues by itself."
        )


def _usual_places() -> dict[Path, str]:
    """Return the directory of the embedded database and of this machine's logs."""
    return {Path(settings.VAR_DIR): "data"}


def may_write(place: Path, *, least: int) -> bool:
    """True if the disk of a folder is not read-only, and has at least this room (bytes)."""
    try:
        found = os.statvfs(place)
    except OSError:
        return False
    return not found.f_flag & os.ST_RDONLY and found.f_bavail * found.f_frsize >= least


def _free_at(place: Path) -> int | None:
    """Return the bytes that this process may still write there; None if the system does not report it."""
    while not place.exists() and place != place.parent:
        place = place.parent
    try:
        found = os.statvfs(place)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _free_for_log() -> int | None:
    """Return the bytes that standard error may still write, if it goes to a file; otherwise None."""
    try:
        descriptor = sys.stderr.fileno()
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        found = os.fstatvfs(descriptor)
    except (OSError, ValueError, AttributeError):
        return None
    return found.f_bavail * found.f_frsize
