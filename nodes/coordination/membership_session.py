"""
The membership of a daemon in its cluster's store of coordination (its *session*), and the thread that keeps it.

The database decides about the main manager, failed nodes and owners, even if there is a second store. A session adds
three things. First, only the *chosen* node may become main manager in the database. The chosen node is the leader in
the store, by its own deadline. A main manager that is no longer chosen gives up its leadership. Second, the chosen node
learns immediately which nodes are *present* in the store: a node that left the store as well is judged after a shorter
silence (`nodes.decisions.judge`). Third, the store *mirrors* the database, for the store's own tools: the groups as a
pool, their owners as shares. The main manager writes this pool and these shares, and only where something differs.

A session lasts while its node trusts itself: a node that cannot reach the database gives up leadership. A chosen node
that does not become main manager gives up leadership, too. An outage of the store does not affect a crawl: it elects no
node and marks no node as failed. The thread of a session keeps trying, so that every node has its session again as soon
as the store answers.
"""

import datetime as dt
import logging
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from nodes.assignment.pools import WorkItem
from nodes.coordination.port import (
    ClusterState,
    Coordination,
    CoordinationError,
    Leadership,
    NotMain,
    NotMember,
    Outdated,
    Unreachable,
)
from nodes.life.trust_window import Clock, seconds_since_boot
from nodes.metrics import node_metrics

logger = logging.getLogger(__name__)

# Name of the daemons' cluster, and of the job whose items are its throttle groups.
CLUSTER: Final = "crawl"
GROUPS: Final = "throttle-groups"
# Length of a session, in timeouts of the node. Below 1, so that the store loses a silent node before its timeout has
# passed.
_SESSION_LENGTH: Final = 2 / 3
# Number of heartbeats in a session.
_BEATS_A_SESSION: Final = 6
# Time in which a chosen node must become main manager before it makes room for another (in timeouts).
_LEADS_WITHIN: Final = 2
# Interval at which a node checks whether it trusts itself again (seconds).
_RECHECK: Final = 0.1
# Number of connection attempts at the start of a process. Each lasts at most for the length of a session.
_TRIES: Final = 5


def session_timeout(timeout: dt.timedelta) -> dt.timedelta:
    """Return the silence after which the store considers a node with this timeout lost."""
    return timeout * _SESSION_LENGTH


def reach(store: Coordination, *, gives_up: Callable[[], bool]) -> None:
    """
    Connect to a store before the node begins its life.

    Raises:
        CoordinationError: the store refuses us, or does not answer within several attempts or until `gives_up` returns
        True.
    """
    for number in range(1, _TRIES + 1):
        try:
            store.connect()
        except Unreachable as error:
            logger.warning("attempt %d of %d to reach the coordination store: %s", number, _TRIES, error)
            if number == _TRIES or gives_up():
                raise
        else:
            return


class MembershipSession:
    """The session of a node whose only store is the database. Its methods do nothing."""

    @property
    def is_chosen(self) -> bool | None:
        """True if this node may become or stay main manager; None if the database alone decides that."""
        return None

    @property
    def present(self) -> frozenset[str] | None:
        """Return the ids of the members of the store, as the chosen node knows them; None if they are unknown."""
        return None

    def start(self) -> None:
        """Keep the session from now on."""

    def stand_down(self) -> None:
        """Leave the leadership to other nodes permanently."""

    def note_leading(self) -> None:
        """Note that this node is main manager in the database, too."""

    def mirror(self, owners: Mapping[str, str | None]) -> None:
        """
        Show these groups in the store, with the ids of their owners, as soon as possible. Only the chosen node writes
        them.
        """

    def stop(self) -> None:
        """Leave the store, unless it does not answer."""


class StoreSession(MembershipSession):
    """
    A session in a store of coordination that is used in addition to the database. `store` is this node's connection to
    the store.
    """

    def __init__(
        self,
        store: Coordination,
        *,
        timeout: dt.timedelta,
        is_candidate: bool,
        is_fit: Callable[[], bool],
        changed: Callable[[], None] = lambda: None,
        clock: Clock = seconds_since_boot,
    ) -> None:
        """
        The store is already connected. `timeout` is the node's own. `is_candidate` is True if the node may become main
        manager. `is_fit` returns True while the node trusts itself.

        `changed` is called, in the session's thread, whenever `is_chosen` or `present` may have changed.
        """
        self._store = store
        self._clock = clock
        self._idle_at_most = (_LEADS_WITHIN * timeout).total_seconds()
        # The moment when this node was chosen, or the last moment when it acted as main manager.
        self._idle_since = clock()
        self._pause = session_timeout(timeout).total_seconds() / _BEATS_A_SESSION
        self._is_candidate = is_candidate
        self._is_fit = is_fit
        self._changed = changed
        self._thread = threading.Thread(target=self._keep, name=f"session of {store.node}", daemon=True)
        self._stopping, self._called = threading.Event(), threading.Event()
        # Set when the store may have changed since it was last read.
        self._is_outdated = threading.Event()
        self._has_joined = self._has_stood = False
        self._leadership: Leadership | None = None
        self._present: frozenset[str] | None = None
        self._owners: dict[str, str | None] | None = None
        self._complaint = ""

    @property
    def is_chosen(self) -> bool | None:
        return self._store.leadership is not None

    @property
    def present(self) -> frozenset[str] | None:
        return self._present if self.is_chosen else None

    def start(self) -> None:
        node_metrics.IS_MEMBER.follow(lambda: self._store.is_member)
        self._thread.start()

    def stand_down(self) -> None:
        self._is_candidate = False
        self._called.set()

    def note_leading(self) -> None:
        self._idle_since = self._clock()

    def mirror(self, owners: Mapping[str, str | None]) -> None:
        if owners != self._owners:
            self._owners = dict(owners)
            self._is_outdated.set()
            self._called.set()

    def stop(self) -> None:
        self._stopping.set()
        self._called.set()
        if self._thread.is_alive():
            self._thread.join(timeout=self._pause)
        elif self._thread.ident is None:
            # The thread was never started, because the node's life has not begun.
            self._store.close()

    # --- In the session's thread --------------------------------------------------------------------

    def _keep(self) -> None:
        if self._is_candidate:
            # Only managers act on changes.
            self._attempt(lambda: self._store.watch(self._wake))
        while not self._stopping.is_set():
            self._attempt(self._take_part)
            self._notice_leadership()
            self._called.wait(self._pause if self._is_fit() else _RECHECK)
            self._called.clear()
        with suppress(CoordinationError):
            self._store.leave()
        self._store.close()

    def _wake(self) -> None:
        """Wake the session's thread. The store calls this in a separate thread, which must not wait."""
        self._is_outdated.set()
        self._called.set()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Execute a step. Log an obstacle once until it changes."""
        complaint = ""
        try:
            step()
        except NotMember as error:
            self._has_joined, complaint = False, str(error)
            self._called.set()
        except (Outdated, NotMain):
            # Another node was faster, which is normal: try again from a fresh read.
            self._called.set()
        except CoordinationError as error:
            complaint = str(error)
        if complaint and complaint != self._complaint:
            logger.warning("node %s has no session: %s", self._store.node, complaint)
        elif self._complaint and not complaint:
            logger.warning("node %s has its session again", self._store.node)
        self._complaint = complaint

    def _notice_leadership(self) -> None:
        leadership = self._store.leadership
        if leadership != self._leadership:
            self._leadership = leadership
            self._present = None if leadership is None else self._present
            self._changed()

    def _take_part(self) -> None:
        """Beat, become the chosen node if there is none, and then read the other members."""
        if not self._is_fit():
            # Send no beat either: a node that stays unfit loses its session.
            self._step_aside()
            return
        self._join_or_beat()
        if not self._is_candidate:
            self._step_aside()
            return
        self._has_stood = True
        leadership = self._store.campaign()
        if leadership is None:
            return
        if leadership != self._leadership:
            self._idle_since = self._clock()
            self._is_outdated.set()
        if self._clock() - self._idle_since > self._idle_at_most:
            logger.warning("node %s was elected but does not start to lead: another node may try", self._store.node)
            self._step_aside()
            return
        if self._is_outdated.is_set():
            self._is_outdated.clear()
            try:
                self._read_members(leadership)
            except BaseException:
                self._is_outdated.set()
                raise

    def _join_or_beat(self) -> None:
        if self._has_joined:
            self._store.beat()
            return
        self._store.connect()
        # A joining manager must name the pool. It repeats the present one, since only the main manager changes it.
        pools = {GROUPS: self._store.read_state().pools.get(GROUPS, frozenset())} if self._is_candidate else {}
        self._store.join(pools)
        self._has_joined = True

    def _step_aside(self) -> None:
        if self._has_stood:
            self._has_stood = False
            self._store.resign()

    def _read_members(self, leadership: Leadership) -> None:
        seen = self._store.read_state()
        present = frozenset(seen.members)
        if present != self._present:
            self._present = present
            self._changed()
        if self._owners is not None:
            self._write_mirror(seen, self._owners, leadership=leadership)

    def _write_mirror(self, seen: ClusterState, owners: Mapping[str, str | None], *, leadership: Leadership) -> None:
        """Write the differences to the store, and remove lost members. Write nothing if nothing differs."""
        if self._store.change_pool(GROUPS, owners):
            seen = self._store.read_state()
        shares = {WorkItem(GROUPS, group): owner for group, owner in owners.items() if owner and owner in seen.members}
        self._store.assign(shares, seen=seen, leadership=leadership)
