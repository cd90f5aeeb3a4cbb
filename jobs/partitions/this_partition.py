"""The partition of this process, according to its settings."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from typing import Any, Final

import psycopg
from django.urls import get_script_prefix, set_script_prefix

from jobs.partitions.placement import Placement, read_placement
from jobs.partitions.slots import read_map
from jobs.settings.partitions import PARTITION, PARTITIONS
from nodes.errors import Refused
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.settings.running import current

# Beginning of the addresses of another partition's pages and API in the control partition. The braces stand for the
# name of that partition.
_PATH: Final = "/partition/{}/"

_follows: ContextVar[bool] = ContextVar("follows", default=False)
# Name of the other partition whose database this thread uses; "" for the own database.
_inside: ContextVar[str] = ContextVar("inside", default="")


class ControlledElsewhere(Refused):
    """
    An operation was refused in this partition, because jobs are configured and started in the control partition only.
    """

    code = "controlled_elsewhere"


def placement() -> Placement | None:
    """
    Return the placement of this process, or of the partition that this thread works as.

    Return None if the database of this process is the only one.

    Raises:
        BadPartitions: the settings contradict each other.
    """
    settings = current()
    stated = settings[PARTITIONS]
    return read_placement(_inside.get() or settings[PARTITION], stated)


def placement_of_hosts(connection: psycopg.Connection[Any]) -> Placement | None:
    """
    Return the placement of this process, with the map of slots that this database noted.

    Raises:
        BadPartitions: the settings contradict each other.
    """
    stated = placement()
    return None if stated is None else replace(stated, owners=read_map(connection, stated.names).owners)


@contextmanager
def inside(name: str) -> Iterator[None]:
    """Work as another partition in this thread, whose connection leads to the database of that partition."""
    token = _inside.set(name)
    try:
        yield
    finally:
        _inside.reset(token)


def foreign_name() -> str:
    """Return the name of the other partition that this thread works as; "" if the thread works as its own partition."""
    return _inside.get()


def path_in(name: str) -> str:
    """
    Return the path prefix of a partition's pages in the control partition; "/" for the pages of the control partition
    itself.
    """
    return _PATH.format(name) if name else "/"


def address_in(name: str, address: str) -> str:
    """Return the address that a page of a partition has in the control partition. The empty name is this partition."""
    return path_in(name) + address.removeprefix("/")


@contextmanager
def addresses_in(name: str) -> Iterator[None]:
    """Add the prefix of a partition's pages to all addresses that are made in this context. `""` adds nothing."""
    before = get_script_prefix()
    if name:
        set_script_prefix(path_in(name))
    try:
        yield
    finally:
        set_script_prefix(before)


def key_in(name: str, number: object) -> str:
    """
    Return the key of a row in a list of all partitions, such as `b:17`. For a row of this partition, it is the number
    alone.
    """
    return f"{name}:{number}" if name else str(number)


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
    """Return the name of this partition if its answers do not cover other partitions; "" otherwise."""
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
    Check that operators may change a job of this scope in this partition. Jobs of a one-shot command may be changed in
    any partition.

    Raises:
        ControlledElsewhere: this is not the control partition.
    """
    if node_scope == CLUSTER_SCOPE:
        refuse_elsewhere()


def is_controlled_elsewhere(node_scope: str) -> bool:
    """True if this is not the control partition, which has the configuration of a job of this scope."""
    return node_scope == CLUSTER_SCOPE and bool(only_name())


@contextmanager
def following() -> Iterator[None]:
    """Allow changes of jobs in this context, although this is not the control partition: it has requested them."""
    token = _follows.set(True)
    try:
        yield
    finally:
        _follows.reset(token)
