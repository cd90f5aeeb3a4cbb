"""
The placement of hosts in partitions. Pure functions, without a database.

All host names are spread over `SLOTS` slots by a hash; a slot has one partition. Both schemes and all ports of a host
are together, so one partition paces it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import blake2b
from typing import Final

SLOTS: Final = 1024
# Number of hosts whose slots a process caches, because documents name the same hosts again and again. They need 2 MiB.
_SLOTS_HELD: Final = 10_000


@lru_cache(_SLOTS_HELD)
def slot_of(host: str) -> int:
    """Return the slot of a bin by its name: `example.org` and `example.org:8443` have the same slot."""
    name, colon, port = host.rpartition(":")
    if not colon or not port.isdigit():
        name = host
    digest = blake2b(name.lower().encode(), digest_size=8).digest()
    return int.from_bytes(digest) % SLOTS


def even_owner(slot: int, names: Sequence[str]) -> str:
    """Return the partition of a slot if all have equal parts."""
    return names[slot * len(names) // SLOTS]


@dataclass(frozen=True, slots=True)
class Placement:
    """
    The partitions, and the name of this partition (`here`). The first partition in the list is the control partition.

    `owners` has the partition of each slot (`jobs.partitions.slots`). Without `owners`, all partitions have equal
    parts.
    """

    here: str
    names: tuple[str, ...]
    owners: tuple[str, ...] = ()

    @property
    def control(self) -> str:
        return self.names[0]

    @property
    def is_control(self) -> bool:
        return self.here == self.control

    @property
    def others(self) -> tuple[str, ...]:
        return tuple(name for name in self.names if name != self.here)

    def partition_of(self, host: str) -> str:
        """Return the partition of a host."""
        slot = slot_of(host)
        return self.owners[slot] if self.owners else even_owner(slot, self.names)

    def foreign(self, host: str) -> str | None:
        """Return the other partition that has this host; None for a host of this partition."""
        name = self.partition_of(host)
        return None if name == self.here else name


class BadPartitions(Exception):
    """The settings of partitions contradict each other, or the database. The message can be shown as it is."""


def read_placement(here: str, addresses: Sequence[str]) -> Placement | None:
    """
    Return the placement that the settings describe; None if the database is the only one.

    Raises:
        BadPartitions: the settings do not name the own partition, or name one twice.
    """
    if not here and not addresses:
        return None
    names = tuple(address.partition("=")[0] for address in addresses)
    if not here:
        raise BadPartitions(
            "CRAWLCTL_PARTITIONS is set, but CRAWLCTL_PARTITION is not. Set it to the partition of this database."
        )
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise BadPartitions(f"CRAWLCTL_PARTITIONS names {twice!r} twice. Give each partition its own name.")
    if here not in names:
        known = ", ".join(names) or "none"
        raise BadPartitions(
            f"CRAWLCTL_PARTITION is {here!r}, which CRAWLCTL_PARTITIONS does not name. It names: {known}."
        )
    if len(names) == 1:
        return None
    return Placement(here, names)
