"""
The files of exports, in the directory that a setting names. Partitions may share this directory, and their exports may
have equal numbers. So each partition except the control partition has a subdirectory.

The name of a file has the number of its export and of the attempt that wrote it, so an abandoned attempt does not touch
the files of another attempt. Names are read only from the row of an export.
"""

import re
import socket
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from django.conf import settings

from jobs.exports.models import Export
from jobs.partitions import this_partition
from jobs.settings.kept import EXPORTS
from nodes.errors import Refused
from nodes.settings.running import current

_OURS: Final = re.compile(r"export-([0-9]{1,18})-[0-9-]{1,30}\.(csv|jsonl|parquet|part|tmp)")


def directory() -> Path:
    """Return the directory of the files. It is created if it is missing."""
    given = current()[EXPORTS]
    place = Path(given) if given else settings.VAR_DIR / "exports"
    place /= this_partition.only_name()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


def part_name(export: Export, number: int) -> str:
    """Return the name of a part that this attempt writes."""
    return f"export-{export.pk}-{number}-{export.attempt}.part"


def unfinished_name(export: Export) -> str:
    """Return the name of the whole file while this attempt writes it."""
    return f"export-{export.pk}-{export.attempt}.tmp"


def whole_name(export: Export) -> str:
    """Return the name of the whole file of this attempt."""
    return f"export-{export.pk}-{export.attempt}.{export.format}"


def this_host() -> str:
    """Return the name of this machine."""
    return socket.gethostname()


def find_file(export: Export) -> Path:
    """
    Return the file of a complete export.

    Raises:
        Refused: the export has no file, or this machine does not have it.
    """
    if not export.file:
        raise Refused(f"Export {export.pk} has no file. {export.problem or 'Wait until it has ended.'}")
    path = directory() / export.file
    if not path.is_file():
        raise Refused(
            f"The file of export {export.pk} is not on this machine ({this_host()}). {export.host} wrote it. "
            "Set CRAWLCTL_EXPORTS to a directory that all machines share."
        )
    return path


def remove(names: Iterable[str]) -> None:
    """Delete files of this machine. A missing file is not an error."""
    place = directory()
    for name in names:
        (place / name).unlink(missing_ok=True)


def files_of(export: int) -> list[str]:
    """Return the names of all files of an export on this machine."""
    return [path.name for path in directory().glob(f"export-{export}-*") if _OURS.fullmatch(path.name)]


def files_by_export() -> dict[int, list[str]]:
    """Return the names of all files on this machine, by the numbers of their exports."""
    found: dict[int, list[str]] = {}
    for path in directory().iterdir():
        if match := _OURS.fullmatch(path.name):
            found.setdefault(int(match[1]), []).append(path.name)
    return found
