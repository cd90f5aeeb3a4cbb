"""
The contract of coordination, which the stores `database` and `zookeeper` keep alike.

A *cluster* is a circle of nodes that share jobs. A node *joins* it with the jobs that it can do and their
pools of items, and is a member for as long as it beats: who has not beaten for his timeout is gone for the
others. One member at a time is *main*, under a *term* that only grows. The main looks at the cluster,
decides who does what, and writes that down. Whoever is to do an item takes its *lock* first.

What is promised, by both stores:

- A node trusts itself for less time than others trust it. Its own deadline runs from before a beat was sent:
  at two thirds of the timeout it holds no office any more, whatever its connection says of itself.
- What the main writes is checked against what it has read: pools, members, who does what, its own term. If any
  of that has changed, nothing is written (`Outdated`, `NotMain`). A plan that changes nothing writes nothing.
- At no moment is an item assigned to two nodes.
- A lock is held by one at a time, and by nobody else before its lease has ended, whoever else is gone. Leases are
  counted by the store's clock, and by the holder from before he asked; clocks of nodes are never compared.
- Terms grow, also where the store lost what it knew (see `Floor`).
- A watch may fire without need, and miss something while there is no connection; it fires after each new one.

All calls may be made from any thread. They return within about a timeout, or raise `Unreachable`; then nobody
knows whether the thing was done, and to do it again is always safe.
"""

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from nodes.assignment.pools import Shares, Situation, WorkItem
from nodes.trust import Clock, seconds_since_boot

# --- What is seen --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """
    A cluster as it was at one moment, for the main to decide upon.

    `members` are the jobs that each member can do, `gone` the nodes on record that beat no more. `shares` are who
    does what, also of those that are gone. `versions` are the store's own: what it checks before it writes.
    """

    members: Mapping[str, frozenset[str]]
    gone: frozenset[str]
    pools: Mapping[str, frozenset[str]]
    shares: Shares
    main: str | None
    term: int
    versions: object

    def situation(self, *, disabled: Collection[str] = frozenset()) -> Situation:
        """What a strategy needs to know; nobody can do a job that is disabled."""
        able = {
            job: frozenset(node for node, jobs in self.members.items() if job in jobs and job not in disabled)
            for job in self.pools
        }
        previous = {item: node for item, node in self.shares.items() if node in self.members}
        return Situation(pools=self.pools, available=able, previous=previous)

    @property
    def idle_jobs(self) -> frozenset[str]:
        """The jobs that have a pool, and that no member can do."""
        return frozenset(self.pools) - frozenset(job for jobs in self.members.values() for job in jobs)

    def must_know(self, shares: Shares) -> None:
        """
        Refuse shares of nodes that are no members.

        Raises:
            ValueError: its sentence names the first.
        """
        for item, node in shares.items():
            if node not in self.members:
                raise ValueError(f"{item.job}/{item.item} cannot be done by {node}, which is no member of the cluster")


@dataclass(frozen=True, slots=True, kw_only=True)
class Office:
    """The office of the main, by the number of its term."""

    main: str
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLock:
    """
    A lock on an item that I hold, until `held_until` of this machine's clock of trust; `token` is mine alone.

    `paced_from` is the moment of that clock from which the time to the item's next run counts. The store keeps it from
    one holder to the next; where a holder died, it is when that one took the lock. None: the item has not run.
    """

    item: WorkItem
    token: UUID
    since: dt.datetime
    held_until: float
    note: str = ""
    paced_from: float | None = None

    def remaining(self, *, clock: Clock = seconds_since_boot) -> dt.timedelta:
        """How long it is held for certain; nothing is left when it may be somebody else's."""
        return dt.timedelta(seconds=max(0.0, self.held_until - clock()))

    def paced_ago(self, *, clock: Clock = seconds_since_boot) -> dt.timedelta | None:
        """Return how long ago `paced_from` was."""
        return None if self.paced_from is None else dt.timedelta(seconds=max(0.0, clock() - self.paced_from))


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSeen:
    """
    A lock as others see it: whose it is, since when, and for how long still (by the store's clock).

    `holder` is empty where nobody can tell: what is stored is no lock, and counts as one that has expired.
    """

    item: WorkItem
    holder: str
    since: dt.datetime | None
    remaining: dt.timedelta
    note: str = ""
    host: str = ""

    @property
    def has_expired(self) -> bool:
        return self.remaining <= dt.timedelta()


# --- What may go wrong ---------------------------------------------------------------------------


class CoordinationError(Exception):
    """What a store could not do; its sentence says why."""


class Unreachable(CoordinationError):
    """The store did not answer. Trying again can help; whether the thing was done, nobody knows."""


class Refused(CoordinationError):
    """The store will not have us: credentials, permissions, a place that something else uses, no tables. Somebody has to act."""


class NoCluster(Refused):
    """Nobody has ever been in a cluster of this name, or it was taken away."""


class NotMember(CoordinationError):
    """The node is no member (any more): it was silent for too long, or another took its name. It may join again."""


class NotMain(CoordinationError):
    """Somebody else is main, or nobody; nothing was written."""


class Outdated(CoordinationError):
    """What the plan was made from has changed meanwhile; nothing was written. Look again."""


# --- What is asked for ---------------------------------------------------------------------------


class Floor(Protocol):
    """
    The highest term that there ever was, kept where the store cannot lose it.

    A store that was wiped or restored from an old backup would begin terms anew. So a term is noted here
    before it is used, and none below what is noted is ever taken.

    It also tells whose the cluster is, so that no store shares it between two that have nothing in common.
    """

    def identity(self) -> str:
        """Return by what the cluster is known, which is the same for ever and as long as the floor is."""
        ...

    def read(self) -> int:
        """Return the highest term noted."""
        ...

    def note(self, term: int) -> bool:
        """Note a term; returns False, and notes nothing, where one as high was noted before."""
        ...


class Coordination(Protocol):
    """One node's way to the cluster."""

    @property
    def node(self) -> str:
        """The node's name, which nobody else in the cluster has."""
        ...

    @property
    def timeout(self) -> dt.timedelta:
        """The silence after which the others hold the node for gone."""
        ...

    @property
    def office(self) -> Office | None:
        """The office that I hold for certain at this moment, by my own deadline. Asks nobody."""
        ...

    @property
    def is_member(self) -> bool:
        """Whether I am a member for certain at this moment, by my own deadline. Asks nobody."""
        ...

    def connect(self) -> None:
        """
        Reach the store, and make there what a cluster needs.

        Raises:
            Unreachable: it does not answer.
            Refused: it will not have us.
        """
        ...

    def close(self) -> None:
        """End the connection. A member that has not left is gone for the others after its timeout, or at once."""
        ...

    # Membership

    def join(self, pools: Mapping[str, Collection[str]]) -> None:
        """
        Become a member, who can do these jobs and does nothing yet; what the node had before is nobody's now.

        Pools that are there already are changed to these.

        Raises:
            BadName: a job or an item has a name that cannot be.
        """
        ...

    def beat(self) -> None:
        """
        Say that I am alive; to be called several times within a timeout.

        Raises:
            NotMember: I am none any more.
        """
        ...

    def leave(self) -> None:
        """End the membership at once, and the office with it."""
        ...

    def change_pool(self, job: str, items: Collection[str]) -> bool:
        """
        Change the items of a job that I can do; returns whether they were others.

        Raises:
            BadName: an item has a name that cannot be.
            NotMember: I am none any more, or have not joined with this job.
        """
        ...

    def mine(self) -> Mapping[str, frozenset[str]]:
        """
        Return the items that I am to do, by job.

        Raises:
            NotMember: I am none any more.
        """
        ...

    # The main

    def campaign(self) -> Office | None:
        """
        Become main if there is none, and return the office; None where somebody else has it. To be called often.

        Raises:
            NotMember: only a member can be main.
        """
        ...

    def resign(self) -> None:
        """Leave the office, so that the next main need not wait for a silence."""
        ...

    def look(self) -> ClusterState:
        """Return the cluster as the store itself sees it: never an older sight than what was there when this was asked."""
        ...

    def assign(self, shares: Shares, *, seen: ClusterState, office: Office) -> int:
        """
        Write down who does what, and forget the members that are gone; returns how many items changed hands.

        Raises:
            Outdated: the cluster is not as `seen` any more.
            NotMain: the office is no longer mine.
        """
        ...

    def forget_idle(self, *, seen: ClusterState, office: Office) -> frozenset[str]:
        """
        Forget the pools of jobs that no member can do, and free locks of items that no pool has; returns those jobs.

        Raises:
            Outdated, NotMain: as `assign`.
        """
        ...

    # Locks

    def acquire(self, item: WorkItem, *, lease: dt.timedelta, note: str = "") -> ItemLock | LockSeen:
        """Take the lock of an item if it is free or has expired; returns the lock, or whose it is instead."""
        ...

    def prolong(self, lock: ItemLock, *, lease: dt.timedelta) -> ItemLock | None:
        """Hold a lock for so long from now; returns it, or None where it is mine no more. An expired one can be, if nobody took it."""
        ...

    def release(self, lock: ItemLock) -> bool:
        """Give a lock back, with its `paced_from` for the next holder; return True if this node still held it."""
        ...

    def lock_of(self, item: WorkItem) -> LockSeen | None:
        """Return whose lock an item has, expired or not; None where it has none."""
        ...

    def locks(self) -> tuple[LockSeen, ...]:
        """Return all locks there are, in the order of their items."""
        ...

    # Watches

    def watch(self, wake: Callable[[], None]) -> None:
        """
        Call `wake` whenever members, pools, shares or the main may have changed, from a thread of the store.

        It must return soon, and must not call the store.
        """
        ...
