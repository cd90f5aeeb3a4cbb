"""
The contract of coordination, which the stores `database` and `zookeeper` both implement.

A *cluster* is a set of nodes that share jobs. A node *joins* it with the jobs that it can execute and their pools of
items. It is a member while it beats. A node that has not beaten for its timeout is lost to the others. One member at a
time is the *main* node, under a *term* that only grows. The main node reads the cluster, assigns the items, and stores
the assignment. A node takes the *lock* of an item before it executes the item.

Both stores guarantee:

- A node trusts itself for less time than others trust it. Its own deadline runs from before a beat was sent:
  at two thirds of the timeout it no longer leads, whatever its connection reports about itself.
- A write of the main node is checked against the facts that it has read: pools, members, assignment, its own term. If
  any of that has changed, nothing is written (`Outdated`, `NotMain`). A plan that changes nothing writes nothing.
- At no moment is an item assigned to two nodes.
- A lock has one holder at a time, and no other node gets it before its lease has ended, even if the holder is lost.
  The store's clock counts leases, and the holder counts from before its request. Clocks of nodes are never compared.
- Terms grow, even if the store lost its data (see `TermBound`).
- A watch may fire without need, and may miss a change while it has no connection. It fires after each new connection.

All calls may be made from any thread. They return within about a timeout, or raise `Unreachable`. After `Unreachable`,
the call may have taken effect or not, and repeating it is always safe.
"""

import datetime as dt
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from nodes.assignment.pools import Shares, Situation, WorkItem
from nodes.life.trust_window import Clock, seconds_since_boot

# --- State ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """
    A cluster as it was at one moment, on which the main node decides.

    `members` are the jobs that each member can execute, `gone` the recorded nodes that no longer beat. `shares` is the
    assignment, including that of lost nodes. `versions` belong to the store, which checks them before it writes.
    """

    members: Mapping[str, frozenset[str]]
    gone: frozenset[str]
    pools: Mapping[str, frozenset[str]]
    shares: Shares
    main: str | None
    term: int
    versions: object

    def situation(self, *, disabled: Collection[str] = frozenset()) -> Situation:
        """Return the facts that a strategy needs. No node counts as able to execute a disabled job."""
        able = {
            job: frozenset(node for node, jobs in self.members.items() if job in jobs and job not in disabled)
            for job in self.pools
        }
        previous = {item: node for item, node in self.shares.items() if node in self.members}
        return Situation(pools=self.pools, available=able, previous=previous)

    @property
    def idle_jobs(self) -> frozenset[str]:
        """Return the jobs that have a pool, and that no member can execute."""
        return frozenset(self.pools) - frozenset(job for jobs in self.members.values() for job in jobs)

    def refuse_nonmembers(self, shares: Shares) -> None:
        """
        Refuse shares of nodes that are not members.

        Raises:
            ValueError: the message names the first such share.
        """
        for item, node in shares.items():
            if node not in self.members:
                raise ValueError(
                    f"{item.job}/{item.item} cannot be assigned to {node}, which is not a member of the cluster"
                )


@dataclass(frozen=True, slots=True, kw_only=True)
class Leadership:
    """The leadership of a cluster: the main node and the number of its term."""

    main: str
    term: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemLock:
    """
    A lock that this node holds on an item, until `held_until` on this machine's clock of trust. `token` identifies the
    lock.

    `paced_from` is the moment of that clock from which the time to the item's next run counts. The store passes this
    moment from one holder to the next. If a holder died, it is the moment when that holder took the lock. None means
    that the item has not run.
    """

    item: WorkItem
    token: UUID
    since: dt.datetime
    held_until: float
    note: str = ""
    paced_from: float | None = None

    def remaining(self, *, clock: Clock = seconds_since_boot) -> dt.timedelta:
        """Return the time for which the lock is certainly held; zero once another node may hold it."""
        return dt.timedelta(seconds=max(0.0, self.held_until - clock()))

    def paced_ago(self, *, clock: Clock = seconds_since_boot) -> dt.timedelta | None:
        """Return the time since `paced_from`."""
        return None if self.paced_from is None else dt.timedelta(seconds=max(0.0, clock() - self.paced_from))


@dataclass(frozen=True, slots=True, kw_only=True)
class LockSeen:
    """
    A lock as others see it: its holder, its start, and the remaining time of its lease (by the store's clock).

    `holder` is empty if it is unknown: the stored data is not a lock, and counts as an expired one.
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


# --- Errors --------------------------------------------------------------------------------------


class CoordinationError(Exception):
    """A store could not execute an operation. The message says why."""


class Unreachable(CoordinationError):
    """The store did not answer. Retrying can help. It is unknown whether the operation took effect."""


class Refused(CoordinationError):
    """
    The store refuses us: credentials, permissions, a path in use by another application, no tables. An operator must
    act.
    """


class NoCluster(Refused):
    """No node has ever joined a cluster of this name, or it was removed."""


class NotMember(CoordinationError):
    """
    The node is not or no longer a member: it was silent for too long, or another process took its name. It may join
    again.
    """


class NotMain(CoordinationError):
    """This node is not the main node. Nothing was written."""


class Outdated(CoordinationError):
    """The facts behind a plan have changed. Nothing was written. Read the state again."""


# --- Interfaces ----------------------------------------------------------------------------------


class TermBound(Protocol):
    """
    The highest term that was ever used, stored where the store of coordination cannot lose it.

    A store that was wiped or restored from an old backup would count terms from the start again. So a term is stored
    here before it is used, and only a higher term can follow.

    The record also names the owner of the cluster, so that two installations never share a store by mistake.
    """

    def identity(self) -> str:
        """Return the identity of the cluster, which stays the same while this record exists."""
        ...

    def read(self) -> int:
        """Return the highest term stored."""
        ...

    def note(self, term: int) -> bool:
        """Store a term. Return False, and store nothing, if the stored term is at least as high."""
        ...


class Coordination(Protocol):
    """The connection of one node to the cluster."""

    @property
    def node(self) -> str:
        """Return the node's name, which is unique in the cluster."""
        ...

    @property
    def timeout(self) -> dt.timedelta:
        """Return the silence after which other nodes consider this one lost."""
        ...

    @property
    def leadership(self) -> Leadership | None:
        """Return the leadership that this node certainly holds now, by its own deadline. Asks no store."""
        ...

    @property
    def is_member(self) -> bool:
        """True if this node is certainly a member now, by its own deadline. Asks no store."""
        ...

    def connect(self) -> None:
        """
        Connect to the store, and create there what a cluster needs.

        Raises:
            Unreachable: the store does not answer.
            Refused: the store refuses us.
        """
        ...

    def close(self) -> None:
        """
        Close the connection. If this node is still a member, the others consider it lost, immediately or after its
        timeout.
        """
        ...

    # Membership

    def join(self, pools: Mapping[str, Collection[str]]) -> None:
        """
        Become a member that can execute these jobs and has no items yet. Items that the node had before become free.

        Existing pools of these jobs are replaced.

        Raises:
            BadName: the name of a job or an item is invalid.
        """
        ...

    def beat(self) -> None:
        """
        Report that this node is alive. Call this several times within a timeout.

        Raises:
            NotMember: this node is no longer a member.
        """
        ...

    def leave(self) -> None:
        """End the membership immediately, and the leadership with it."""
        ...

    def change_pool(self, job: str, items: Collection[str]) -> bool:
        """
        Replace the items of a job that this node can execute. Return True if they changed.

        Raises:
            BadName: the name of an item is invalid.
            NotMember: this node is no longer a member, or has not joined with this job.
        """
        ...

    def mine(self) -> Mapping[str, frozenset[str]]:
        """
        Return the items assigned to this node, by job.

        Raises:
            NotMember: this node is no longer a member.
        """
        ...

    # The main node

    def campaign(self) -> Leadership | None:
        """
        Become the main node if there is none, and return the leadership; None if another node leads. Call this often.

        Raises:
            NotMember: only a member can be the main node.
        """
        ...

    def resign(self) -> None:
        """Give up the leadership, so that the next main node need not wait for a timeout."""
        ...

    def read_state(self) -> ClusterState:
        """Return the state of the cluster in the store, as it is at the time of the call or later."""
        ...

    def assign(self, shares: Shares, *, seen: ClusterState, leadership: Leadership) -> int:
        """
        Store the assignment, and remove lost members. Return the number of items that changed nodes.

        Raises:
            Outdated: the cluster has changed since `seen`.
            NotMain: this node no longer leads.
        """
        ...

    def forget_idle(self, *, seen: ClusterState, leadership: Leadership) -> frozenset[str]:
        """
        Remove the pools of jobs that no member can execute, and free locks of items that no pool has. Return those
        jobs.

        Raises:
            Outdated, NotMain: as `assign`.
        """
        ...

    # Locks

    def acquire(self, item: WorkItem, *, lease: dt.timedelta, note: str = "") -> ItemLock | LockSeen:
        """
        Take the lock of an item if it is free or has expired. Return the new lock, or the lock of the present holder.
        """
        ...

    def acquire_all(self, items: Sequence[WorkItem], *, lease: dt.timedelta) -> Sequence[ItemLock] | LockSeen:
        """
        Take the locks of all these items. If another node has one of them, take none, and return the first such lock.
        """
        ...

    def prolong(self, lock: ItemLock, *, lease: dt.timedelta) -> ItemLock | None:
        """
        Extend a lock to a full lease from now. Return it, or None if this node has lost it.

        An expired lock can be extended if no other node took it.
        """
        ...

    def prolong_all(self, locks: Sequence[ItemLock], *, lease: dt.timedelta) -> Sequence[ItemLock | None]:
        """Extend many locks, each as `prolong` does."""
        ...

    def release(self, lock: ItemLock) -> bool:
        """Release a lock, with its `paced_from` for the next holder. Return True if this node still held it."""
        ...

    def release_all(self, locks: Sequence[ItemLock]) -> Sequence[bool]:
        """Release many locks, each as `release` does."""
        ...

    def lock_of(self, item: WorkItem) -> LockSeen | None:
        """Return the lock of an item, expired or not; None if the item has no lock."""
        ...

    def locks(self) -> tuple[LockSeen, ...]:
        """Return all locks, sorted by item."""
        ...

    # Watches

    def watch(self, wake: Callable[[], None]) -> None:
        """
        Call `wake` whenever members, pools, shares or the main node may have changed, from a thread of the store.
        `wake` must return soon, and must not call the store.
        """
        ...
