"""What a node knows of itself in either store: its name, for how long it trusts its place, and what it may hold."""

import datetime as dt
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID, uuid4

from nodes.assignment.pools import WorkItem
from nodes.coordination.names import checked
from nodes.coordination.port import ItemLock, NotMember, Office, Unreachable
from nodes.trust import Clock, TrustWindow


class Participant:
    """The part of `port.Coordination` that asks nobody. Stores renew `_trust` with each beat, and set `_office`."""

    def __init__(self, *, cluster: str, node: str, timeout: dt.timedelta, clock: Clock) -> None:
        """
        `timeout` is the silence after which the others hold the node for gone.

        Raises:
            BadName: the cluster or the node has a name that cannot be.
            ValueError: nobody could be silent for as short.
        """
        if timeout <= dt.timedelta():
            raise ValueError(f"a timeout of {timeout.total_seconds():g} s cannot be: it must be more than 0")
        self._cluster = checked("cluster", cluster)
        self._node = checked("node", node)
        self._timeout = timeout
        self._clock = clock
        self._trust = TrustWindow(timeout=timeout, clock=clock)
        self._office: Office | None = None
        # Asked for, and not answered: by item the token under which it may be mine.
        self._doubtful: dict[WorkItem, UUID] = {}
        # Guards the way to the store, on which one thing is done at a time.
        self._lock = threading.RLock()

    @property
    def node(self) -> str:
        return self._node

    @property
    def timeout(self) -> dt.timedelta:
        return self._timeout

    @property
    def office(self) -> Office | None:
        return self._office if self._trust.may_begin else None

    @property
    def is_member(self) -> bool:
        return self._trust.may_begin

    def _lose_place(self) -> None:
        """From here on I am no member, and hold no office."""
        self._trust.revoke()
        self._office = None

    def _is_no_member(self, job: str = "") -> NotMember:
        self._lose_place()
        able = f" that can do {job}" if job else ""
        return NotMember(f"node {self._node} is no member of cluster {self._cluster}{able}: it has to join again")

    @contextmanager
    def _token_for(self, item: WorkItem) -> Iterator[UUID]:
        """A token to ask for a lock under: that of an earlier question, where nobody knows what came of it."""
        checked("job", item.job)
        checked("item", item.item)
        with self._lock:
            token = self._doubtful.pop(item, None) or uuid4()
            try:
                yield token
            except Unreachable:
                self._doubtful[item] = token
                raise


def lock_held(
    item: WorkItem,
    token: UUID,
    *,
    since: dt.datetime,
    began_at: float,
    lease: dt.timedelta,
    note: str,
    paced_from: float | None = None,
) -> ItemLock:
    """A lock that was asked for at `began_at`: the store counts its lease from a moment after."""
    held_until = began_at + lease.total_seconds()
    return ItemLock(item=item, token=token, since=since, held_until=held_until, note=note, paced_from=paced_from)
