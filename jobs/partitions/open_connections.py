"""Connections to the databases of other partitions, for a query that needs all of them at the same time."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from jobs.partitions import this_partition
from jobs.partitions.merged import ANSWERS_WITHIN, is_known_silent, note_silence

# Milliseconds without an acknowledgement of sent bytes after which a connection counts as broken.
_LOST_AFTER: Final = 10_000


@dataclass(frozen=True, slots=True)
class Opened:
    """Open connections by the name of their partition, and the partitions that do not answer."""

    connections: Mapping[str, psycopg.Connection[Any]] = field(default_factory=dict)
    silent: Sequence[str] = ()


@contextmanager
def open_others(*, among: Collection[str] | None = None) -> Iterator[Opened]:
    """
    Yield connections to the other partitions, or to those `among` them. The connections only read. Partitions other
    than the control partition get none.

    Partitions outside of `among` count as silent.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        yield Opened()
        return
    addresses, silent = this_partition.addresses(), []
    with ExitStack() as stack:
        connections: dict[str, psycopg.Connection[Any]] = {}
        for name in placement.others:
            opened = None if among is not None and name not in among else _open(addresses[name])
            if opened is None:
                silent.append(name)
            else:
                connections[name] = stack.enter_context(opened)
        yield Opened(connections, silent)


def _open(address: str) -> psycopg.Connection[Any] | None:
    if is_known_silent(address):
        return None
    try:
        return psycopg.connect(
            address,
            connect_timeout=int(ANSWERS_WITHIN),
            tcp_user_timeout=_LOST_AFTER,
            options="-c default_transaction_read_only=on",
        )
    except psycopg.Error:
        note_silence(address)
        return None
