"""
The facts that a node knows without a store, the same for both kinds of stores: its name, the time for which it may
trust its membership, and its tokens.
"""

import datetime as dt
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from uuid import UUID, uuid4

from nodes.assignment.pools import WorkItem
from nodes.coordination.names import checked
from nodes.coordination.port import ItemLock, Leadership, NotMember, Unreachable
from nodes.life.trust_window import Clock, TrustWindow


class Participant:
    """The part of `port.Coordination` that needs no store. Stores renew `_trust` with each beat, and set `_leadership`."""

    def __init__(self, *, cluster: str, node: str, timeout: dt.timedelta, clock: Clock) -> None:
        """
        `timeout` is the silence after which other nodes consider this one lost.

        Raises:
            BadName: the name of the cluster or the node is invalid.
            ValueError: the timeout is not positive.
        """
        if timeout <= dt.timedelta():
            raise ValueError(f"a timeout of {timeout.total_seconds():g} s is invalid: it must be more than 0")
        self._cluster = checked("cluster", cluster)
        self._node = checked("node", node)
        self._timeout = timeout
        self._clock = clock
        self._trust = TrustWindow(timeout=timeout, clock=clock)
        self._leadership: Leadership | None = None
        # Tokens of unanswered lock requests, by item: under such a token this node may hold the lock.
        self._unanswered: dict[WorkItem, UUID] = {}
        # Guards the connection to the store, which executes one operation at a time.
        self._lock = threading.RLock()

    @property
    def node(self) -> str:
        return self._node

    @property
    def timeout(self) -> dt.timedelta:
        return self._timeout

    @property
    def leadership(self) -> Leadership | None:
        return self._leadership if self._trust.may_begin else None

    @property
    def is_member(self) -> bool:
        return self._trust.may_begin

    def _lose_membership(self) -> None:
        """Note that this node is no longer a member, and so no longer the main node."""
        self._trust.revoke()
        self._leadership = None

    def _not_a_member(self, job: str = "") -> NotMember:
        self._lose_membership()
        able = f" that can do {job}" if job else ""
        return NotMember(f"node {self._node} is not a member of cluster {self._cluster}{able}: it has to join again")

    @contextmanager
    def _token_for(self, item: WorkItem) -> Iterator[UUID]:
        """Yield a token for a lock request: the earlier one, if an earlier request for the item had no answer."""
        checked("job", item.job)
        checked("item", item.item)
        with self._tokens_for([item]) as (token,):
            yield token

    @contextmanager
    def _tokens_for(self, items: Sequence[WorkItem]) -> Iterator[list[UUID]]:
        """Yield a token for the lock of each of these items, as `_token_for` does."""
        with self._lock:
            tokens = [self._unanswered.pop(item) if item in self._unanswered else uuid4() for item in items]
        try:
            yield tokens
        except Unreachable:
            with self._lock:
                self._unanswered.update(zip(items, tokens, strict=True))
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
    """Return a lock that was requested at `began_at`. The store counts the lease from a later moment."""
    held_until = began_at + lease.total_seconds()
    return ItemLock(item=item, token=token, since=since, held_until=held_until, note=note, paced_from=paced_from)
