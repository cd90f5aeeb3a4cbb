"""
The configuration of jobs for other partitions, as definitions.

`jobs.definitions` is a layer above this package, and registers its two functions at the start of the program.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Definitions = Sequence[Mapping[str, Any]]

_read: list[Callable[[int], Definitions]] = []
_adopt: list[Callable[[Definitions], int]] = []


def register(*, read: Callable[[int], Definitions], adopt: Callable[[Definitions], int]) -> None:
    """Register the functions behind `read` and `adopt`."""
    _read[:], _adopt[:] = [read], [adopt]


def read(job_id: int) -> Definitions:
    """Return the definitions of a job and of all that it uses, with sealed secrets."""
    return _read[0](job_id)


def adopt(definitions: Definitions) -> int:
    """
    Store a job of the control partition and all that it uses; return its id here.

    The schedule of the job stays in the control partition, which starts the runs of the job.
    """
    return _adopt[0](definitions)
