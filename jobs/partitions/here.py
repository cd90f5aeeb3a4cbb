"""The partition of this process, as its settings say."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import psycopg

from jobs.partitions.facts import tell, told_to_itself
from jobs.partitions.placement import BadPartitions, Placement, read_placement
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.errors import Refused
from nodes.settings.running import current

# The key of the fact that a database notes for itself: its partition, and the names of all.
_NAMES: Final = "names:all"
_follows: ContextVar[bool] = ContextVar("follows", default=False)


class ControlledElsewhere(Refused):
    """Jobs are configured and started in the control partition only."""

    code = "controlled_elsewhere"


def placement() -> Placement | None:
    """
    Return the placement of this process; None if its database is the only one.

    Raises:
        BadPartitions: the settings contradict each other.
    """
    settings = current()
    stated = settings[PARTITIONS]
    return read_placement(settings[PARTITION], stated)


def check_partitions(connection: psycopg.Connection[Any]) -> None:
    """
    Check that the settings name the partitions that this database has had since its first start, and keep their names.

    Raises:
        BadPartitions: they contradict each other, or name other partitions.
    """
    stated = placement()
    before = told_to_itself(connection, _NAMES)
    if stated is None:
        if before is not None:
            raise BadPartitions(
                f"This database is partition {before['here']} of {', '.join(before['names'])}. "
                "Set CRAWLCTL_PARTITION and CRAWLCTL_PARTITIONS to these."
            )
        return
    now = {"here": stated.here, "names": list(stated.names)}
    if before is not None and before != now:
        raise BadPartitions(
            f"This database is partition {before['here']} of {', '.join(before['names'])}. "
            f"The settings say {stated.here} of {', '.join(stated.names)}. Partitions cannot be changed later."
        )
    if before is None:
        tell(connection, stated.here, stated.here, _NAMES, now)


def addresses() -> dict[str, str]:
    """Return the database address of each partition, by its name."""
    return dict(address.split("=", 1) for address in current()[PARTITIONS])


def refuse_elsewhere() -> None:
    """
    Check that operators may change and start jobs in this partition.

    Raises:
        ControlledElsewhere: this is not the control partition.
    """
    stated = placement()
    if stated is not None and not stated.is_control and not _follows.get():
        raise ControlledElsewhere(
            f"This is partition {stated.here}. Change and start jobs in the control partition, {stated.control}."
        )


@contextmanager
def following() -> Iterator[None]:
    """Let the verbs of this context change jobs: the control partition has asked for it."""
    token = _follows.set(True)
    try:
        yield
    finally:
        _follows.reset(token)
