"""The partition of this process, as its settings say."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import psycopg

from jobs.partitions.placement import Placement, read_placement
from jobs.partitions.slots import read_map
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.errors import Refused
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.running import current

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


def placement_of_hosts(connection: psycopg.Connection[Any]) -> Placement | None:
    """
    Return the placement of this process with the slots as this database noted them.

    Raises:
        BadPartitions: the settings contradict each other.
    """
    stated = placement()
    return None if stated is None else replace(stated, owners=read_map(connection, stated.names).owners)


def addresses() -> dict[str, str]:
    """Return the database address of each partition, by its name."""
    return dict(address.split("=", 1) for address in current()[PARTITIONS])


def name() -> str:
    """Return the name of this partition; "" if its database is the only one."""
    stated = placement()
    return "" if stated is None else stated.here


def control_name() -> str:
    """Return the name of this partition if it is the control partition of several; "" otherwise."""
    stated = placement()
    return stated.here if stated is not None and stated.is_control else ""


def only_name() -> str:
    """Return the name of this partition if its answers are about this one only; "" otherwise."""
    stated = placement()
    return "" if stated is None or stated.is_control else stated.here


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


def refuse_job_elsewhere(node_scope: str) -> None:
    """
    Check that operators may change a job of this scope in this partition. Jobs of a one-shot belong to no control partition.

    Raises:
        ControlledElsewhere: this is not the control partition.
    """
    if node_scope == CLUSTER_SCOPE:
        refuse_elsewhere()


@contextmanager
def following() -> Iterator[None]:
    """Let the verbs of this context change jobs: the control partition has asked for it."""
    token = _follows.set(True)
    try:
        yield
    finally:
        _follows.reset(token)
