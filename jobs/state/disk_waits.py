"""
The reason of a job that waits for a disk. The text names the folder and the machine, and is the only record of the
wait.
"""

import re
from pathlib import Path
from typing import Final

# First words of the reason.
BEGINS: Final = "Waiting for the disk of "
_REASON: Final = re.compile(rf"{BEGINS}(?P<disk>/.*?) on (?P<host>\S+): ")


def reason_of(disk: Path, *, host: str, why: str) -> str:
    """Return the reason of a job that waits for the disk of this folder on this machine."""
    return f"{BEGINS}{disk} on {host}: {why} The job continues by itself when the disk can be written again."


def read_wait(reason: str) -> tuple[Path, str] | None:
    """Return the folder and the machine that a reason names; None for another reason."""
    found = _REASON.match(reason)
    return None if found is None else (Path(found["disk"]), found["host"])
