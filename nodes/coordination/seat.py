"""
The seat of a daemon in its cluster's store of coordination, and the thread that keeps it.

The database decides who is main, who has failed and who owns what, also where there is such a store beside it. A seat
gives a daemon three things more. Whoever is *chosen* (holds the office there, by his own deadline) may stand for main
in the database, and nobody else may; a main that is chosen no more leaves its office. Who is *present* there is told to
the one that is chosen, at once when it changes: who has gone from there, too, need not be waited for as long
(`nodes.decisions.judge`). And what the database has is *mirrored* there, for who looks at that store: the groups as
a pool, their owners as shares, written by the main and only where something differs.

A seat is kept for as long as its node trusts itself: who cannot reach his database is of no use as a main, and lets
others have the office. So does who is chosen and does not become main. A store that is away takes nothing from a crawl. Nobody is elected then and nobody failed by it,
and its thread goes on trying, so that everybody has his seat again as soon as it is back.
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
    NotMain,
    NotMember,
    Office,
    Outdated,
    Unreachable,
)
from nodes.metrics import of_nodes
from nodes.trust import Clock, seconds_since_boot

logger = logging.getLogger(__name__)

# What the daemons' cluster is called, and the job whose items are its groups.
CLUSTER: Final = "crawl"
GROUPS: Final = "throttle-groups"
# A node is missed there before its trust in itself has ended for good; it says so often meanwhile that it is there.
_SESSION: Final = 2 / 3
_BEATS_A_SESSION: Final = 6
# For how many of its timeouts who is chosen may take to become main, until another is.
_IDLE: Final = 2
# How soon, in seconds, who has begun to trust itself notices that it does.
_GLANCE: Final = 0.1
# How often a store that is away is asked at the start of a process, each time for a session's length.
_TRIES: Final = 5


def session_timeout(timeout: dt.timedelta) -> dt.timedelta:
    """After what silence a node of this timeout is gone from the store."""
    return timeout * _SESSION


def reach(store: Coordination, *, gives_up: Callable[[], bool]) -> None:
    """
    Reach a store before the node begins its life.

    Raises:
        CoordinationError: it does not answer, after several tries or once one `gives_up`; or it will not have us.
    """
    for number in range(1, _TRIES + 1):
        try:
            store.connect()
        except Unreachable as error:
            logger.warning("try %d of %d to reach the store of coordination: %s", number, _TRIES, error)
            if number == _TRIES or gives_up():
                raise
        else:
            return


class Seat:
    """The seat of a node for which the database is the only store: it has none, and nobody asks for one."""

    @property
    def is_chosen(self) -> bool | None:
        """Whether I may stand for main, and go on as one; None where that is the database's alone to say."""
        return None

    @property
    def present(self) -> frozenset[str] | None:
        """The ids of who is a member of the store, as one who is chosen knows it; None where nobody knows."""
        return None

    def start(self) -> None:
        """Keep the seat from here on."""

    def stand_down(self) -> None:
        """Leave the office to others, for good."""

    def acts(self) -> None:
        """Say that I am the main of the database's record, too."""

    def mirror(self, owners: Mapping[str, str | None]) -> None:
        """Have the store show these groups with the ids of their owners, as soon as it can be; only who is chosen does."""

    def stop(self) -> None:
        """Leave, unless the store is away."""


class KeptSeat(Seat):
    """A seat in a store beside the database, of which `store` is this node's way."""

    def __init__(
        self,
        store: Coordination,
        *,
        timeout: dt.timedelta,
        stands: bool,
        is_fit: Callable[[], bool],
        changed: Callable[[], None] = lambda: None,
        clock: Clock = seconds_since_boot,
    ) -> None:
        """
        The store has been reached. `timeout` is the node's own, `stands` whether it would be main, and `is_fit` whether it trusts itself.

        `changed` is called, in the seat's thread, whenever `is_chosen` or `present` may be other than before.
        """
        self._store = store
        self._clock = clock
        self._idle_at_most = (_IDLE * timeout).total_seconds()
        # Since when I am chosen, or the last moment in which I acted upon it.
        self._idle_since = clock()
        self._pause = session_timeout(timeout).total_seconds() / _BEATS_A_SESSION
        self._stands = stands
        self._is_fit = is_fit
        self._changed = changed
        self._thread = threading.Thread(target=self._keep, name=f"seat of {store.node}", daemon=True)
        self._stopping, self._called = threading.Event(), threading.Event()
        # Set when the store may be other than it was last seen.
        self._is_outdated = threading.Event()
        self._is_seated = self._has_stood = False
        self._office: Office | None = None
        self._present: frozenset[str] | None = None
        self._owners: dict[str, str | None] | None = None
        self._complaint = ""

    @property
    def is_chosen(self) -> bool | None:
        return self._store.office is not None

    @property
    def present(self) -> frozenset[str] | None:
        return self._present if self.is_chosen else None

    def start(self) -> None:
        of_nodes.SEATED.follow(lambda: self._store.is_member)
        self._thread.start()

    def stand_down(self) -> None:
        self._stands = False
        self._called.set()

    def acts(self) -> None:
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
            # The node's life has not begun.
            self._store.close()

    # --- In the seat's thread --------------------------------------------------------------------

    def _keep(self) -> None:
        if self._stands:
            # Only managers act upon what changes.
            self._attempt(lambda: self._store.watch(self._wake))
        while not self._stopping.is_set():
            self._attempt(self._attend)
            self._tell_of_the_office()
            self._called.wait(self._pause if self._is_fit() else _GLANCE)
            self._called.clear()
        with suppress(CoordinationError):
            self._store.leave()
        self._store.close()

    def _wake(self) -> None:
        """In a thread of the store, which must not wait."""
        self._is_outdated.set()
        self._called.set()

    def _attempt(self, step: Callable[[], None]) -> None:
        """Do a step, and say once what hinders it for as long as it is the same."""
        complaint = ""
        try:
            step()
        except NotMember as error:
            self._is_seated, complaint = False, str(error)
            self._called.set()
        except (Outdated, NotMain):
            # Others were faster, as they may be: once more, from a fresh sight.
            self._called.set()
        except CoordinationError as error:
            complaint = str(error)
        if complaint and complaint != self._complaint:
            logger.warning("node %s has no seat: %s", self._store.node, complaint)
        elif self._complaint and not complaint:
            logger.warning("node %s has its seat again", self._store.node)
        self._complaint = complaint

    def _tell_of_the_office(self) -> None:
        office = self._store.office
        if office != self._office:
            self._office = office
            self._present = None if office is None else self._present
            self._changed()

    def _attend(self) -> None:
        """Say that I am there; be chosen if nobody is, and then look at the others."""
        if not self._is_fit():
            # No beat either: who stays unfit loses his seat.
            self._step_aside()
            return
        self._be_seated()
        if not self._stands:
            self._step_aside()
            return
        self._has_stood = True
        office = self._store.campaign()
        if office is None:
            return
        if office != self._office:
            self._idle_since = self._clock()
            self._is_outdated.set()
        if self._clock() - self._idle_since > self._idle_at_most:
            logger.warning("node %s was chosen, and does not become main: it lets another try", self._store.node)
            self._step_aside()
            return
        if self._is_outdated.is_set():
            self._is_outdated.clear()
            try:
                self._look_around(office)
            except BaseException:
                self._is_outdated.set()
                raise

    def _be_seated(self) -> None:
        if self._is_seated:
            self._store.beat()
            return
        self._store.connect()
        # Who joins says what the pool is: what it was already, since the main will know better.
        pools = {GROUPS: self._store.look().pools.get(GROUPS, frozenset())} if self._stands else {}
        self._store.join(pools)
        self._is_seated = True

    def _step_aside(self) -> None:
        if self._has_stood:
            self._has_stood = False
            self._store.resign()

    def _look_around(self, office: Office) -> None:
        seen = self._store.look()
        present = frozenset(seen.members)
        if present != self._present:
            self._present = present
            self._changed()
        if self._owners is not None:
            self._write_mirror(seen, self._owners, office=office)

    def _write_mirror(self, seen: ClusterState, owners: Mapping[str, str | None], *, office: Office) -> None:
        """Write what differs, and forget who is gone; nothing where nothing does."""
        if self._store.change_pool(GROUPS, owners):
            seen = self._store.look()
        shares = {WorkItem(GROUPS, group): owner for group, owner in owners.items() if owner and owner in seen.members}
        self._store.assign(shares, seen=seen, office=office)
