"""
Documents and files of other partitions, in places that several partitions may share. This partition must not remove
them.

A path of an output or of an archive may lead to the same file, directory or bucket in several partitions.
"""

from typing import Any, Final

import psycopg

from jobs.connectors.output.base import Output
from jobs.partitions import this_partition
from jobs.partitions.placement import Placement

_OF_HOSTS: Final = ("http://", "https://")


def sharing_partitions(connection: psycopg.Connection[Any], output: Output) -> Placement | None:
    """Return the placement of the hosts, or None if no other partition can have documents in the output."""
    if output.is_transactional:
        # The documents of a transactional output are in the database of this partition.
        return None
    return this_partition.placement_of_hosts(connection)


def may_belong_elsewhere(url: str, placement: Placement | None) -> bool:
    """True if a document that this partition does not know may belong to another partition."""
    if placement is None:
        return False
    # The slot of its host decides which partition has a document, and only the address of a web page names a host.
    return not url.startswith(_OF_HOSTS) or placement.foreign(url.split("/", 3)[2]) is not None
