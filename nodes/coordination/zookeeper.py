"""
The store of coordination in ZooKeeper, for operators that already run an ensemble.

The tree is DJM's (`paths`), and so are its transactions: each reads the versions of the state that it depends on, and
increments the versions of the state that it changes. If two transactions depend on the same state, the second is
refused. Beyond DJM, a plan of the main node also checks the versions of all that it was made from, that its members
exist, and its own term. Between changes a cluster writes nothing but locks.

Before each read, a sync makes the read current. Membership is an ephemeral node, and the main node has the oldest
latch. The reports of kazoo about a session are not trusted. A beat is a sync: the ensemble's leader confirms that the
session lives, and our deadline runs from before the request (`TrustWindow`). A member that no longer beats ends its own
session: kazoo would keep it alive for a process whose work hangs.

The term is counted in a node. A ZooKeeper that was wiped, or restored from an old backup, has an old number there, or
none. So a new term is higher than the node's number, than any term this process ever saw, and than the lower bound in
the database, if there is one. A member that knows a higher term writes it there, and a main node with a lower term must
then take the leadership again.
"""

import datetime as dt
import json
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final, TypeVar

from nodes.assignment.pools import Shares, WorkItem
from nodes.coordination.names import checked, checked_pools
from nodes.coordination.participant import Participant
from nodes.coordination.paths import MARK, Tree
from nodes.coordination.port import (
    ClusterState,
    ItemLock,
    Leadership,
    LockSeen,
    NoCluster,
    NotMain,
    NotMember,
    Outdated,
    Refused,
    TermBound,
    Unreachable,
)
from nodes.coordination.zookeeper_locks import ZooKeeperLocks
from nodes.coordination.zookeeper_session import (
    UNREADABLE,
    Absent,
    Address,
    Check,
    Conflict,
    Create,
    Delete,
    Operation,
    Session,
    Set,
    Stat,
)
from nodes.life.trust_window import Clock, seconds_since_boot

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

# Number of attempts of a transaction that is refused because another one was faster. Each begins with a fresh read. DJM
# makes the same number of attempts to register a node.
_TRIES: Final = 10

# Number of attempts of a read of many nodes, which starts again if a node is missing and a version has changed.
_READ_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class _Versions:
    """The facts behind a read: versions, and the assigned items below each node, so that they can be removed."""

    pools: int
    workers: int
    assignments: int
    term: int
    available: Mapping[str, frozenset[str]]
    assigned: Mapping[str, Mapping[str, frozenset[str]]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Term:
    """The stored term: its number, its main node, and the latch under which it was taken."""

    term: int
    main: str = ""
    latch: str = ""

    @classmethod
    def parse(cls, data: bytes) -> "_Term":
        with suppress(*UNREADABLE):
            content = json.loads(data)
            return cls(term=int(content["term"]), main=str(content["main"]), latch=str(content["latch"]))
        return cls(term=0)

    def data(self) -> bytes:
        return json.dumps({"term": self.term, "main": self.main, "latch": self.latch}).encode()


class ZooKeeperCoordination(Participant):
    """The connection of one node to a cluster whose state is in ZooKeeper (the contract is `port.Coordination`)."""

    def __init__(
        self,
        *,
        address: Address,
        cluster: str,
        node: str,
        timeout: dt.timedelta,
        term_bound: TermBound | None = None,
        read_only: bool = False,
        clock: Clock = seconds_since_boot,
    ) -> None:
        """
        `timeout` is the timeout of the session: the silence after which other nodes consider this node lost. With
        `read_only` the process never connects or joins, and writes nothing. It then computes the remaining time of a
        lease by its own machine's clock.

        Raises:
            BadName: the name of the cluster or the node is invalid.
        """
        super().__init__(cluster=cluster, node=node, timeout=timeout, clock=clock)
        self._address = address
        self._tree = Tree(f"{address.root}/{cluster}")
        self._locks = ZooKeeperLocks(self._tree, node=node, clock=clock, read_only=read_only)
        self._term_bound = term_bound
        self._last_beat_at = clock()
        # The cluster's identity in the database, once it was read.
        self._identity: bytes | None = None
        # The highest term that this process ever saw, even if ZooKeeper has lost it since.
        self._known = 0
        self._wake: Callable[[], None] | None = None
        self._session: Session | None = None
        # The session in which the node has joined.
        self._joined: Session | None = None
        self._closing = threading.Event()
        self._guarding: threading.Thread | None = None

    def connect(self) -> None:
        with self._asking() as session:
            self._make_tree(session)

    def close(self) -> None:
        self._closing.set()
        self._lose_membership()
        with self._lock:
            self._drop()
        if self._guarding is not None:
            self._guarding.join()

    # --- Membership ------------------------------------------------------------------------------

    def join(self, pools: Mapping[str, Collection[str]]) -> None:
        wanted = checked_pools(pools)
        began_at = self._clock()
        with self._asking() as session:
            self._make_tree(session)
            with self._dropping_session_on_error():
                self._retry_after_conflicts(lambda: self._join(session, wanted))
            self._joined = session
            self._leadership = None
            self._last_beat_at = began_at
            self._trust.renew(began_at=began_at)

    def _join(self, session: Session, pools: Mapping[str, frozenset[str]]) -> None:
        tree = self._tree
        session.sync(tree.root)
        guards = [self._increment_of(session, tree.pool_version), self._increment_of(session, tree.worker_version)]
        # A node that joins again gives up leadership: its own, or the leadership of an earlier process with its name.
        operations: list[Operation] = [Delete(tree.latch(latch)) for latch in self._latches_of_own_name(session)]
        if session.stat(tree.member(self._node)) is not None:
            operations.append(Delete(tree.member(self._node)))
        operations += self._removal(session, self._node)
        operations.append(Create(tree.member(self._node), ephemeral=True))
        operations += [
            Create(tree.worker(self._node)),
            Create(tree.available(self._node)),
            Create(tree.assigned(self._node)),
        ]
        operations += [Create(tree.available(self._node, job)) for job in sorted(pools)]
        for job, items in sorted(pools.items()):
            operations += self._difference(session, job, items)
        session.commit_in_parts(guards, operations)

    def beat(self) -> None:
        began_at = self._clock()
        with self._asking() as session:
            session.sync(self._tree.root)
            self._must_be_member(session)
            self._last_beat_at = began_at
            self._trust.renew(began_at=began_at)

    def leave(self) -> None:
        self._lose_membership()
        with self._asking() as session:
            if session is not self._joined:
                return
            self._joined = None
            with self._dropping_session_on_error():
                self._retry_after_conflicts(lambda: self._leave(session))

    def _leave(self, session: Session) -> None:
        tree = self._tree
        session.sync(tree.root)
        guards = [self._increment_of(session, tree.worker_version)]
        operations = self._removal(session, self._node)
        mine = session.stat(tree.member(self._node))
        if mine is None or mine.session != session.id:
            return
        latch = self._latch(session.children(tree.latches), session)
        operations.append(Delete(tree.member(self._node)))
        operations += [] if latch is None else [Delete(tree.latch(latch))]
        session.commit_in_parts(guards, operations)

    def change_pool(self, job: str, items: Collection[str]) -> bool:
        wanted = checked_pools({job: items})[job]
        with self._asking() as session:
            return self._retry_after_conflicts(lambda: self._change_pool(session, job, wanted))

    def _change_pool(self, session: Session, job: str, items: frozenset[str]) -> bool:
        tree = self._tree
        session.sync(tree.root)
        guards = [self._increment_of(session, tree.pool_version)]
        operations = self._difference(session, job, items)
        if not operations:
            return False
        self._must_be_member(session)
        if session.stat(tree.available(self._node, job)) is None:
            raise self._not_a_member(job)
        needs = [Check(tree.available(self._node, job)), Check(tree.member(self._node))]
        session.commit_in_parts(guards, operations, needs=needs)
        return True

    def mine(self) -> Mapping[str, frozenset[str]]:
        tree = self._tree
        with self._asking() as session:
            session.sync(tree.root)
            self._must_be_member(session)
            jobs = sorted(session.children(tree.assigned(self._node)))
            shares = session.children_of([tree.assigned(self._node, job) for job in jobs])
        return {job: items for job, items in zip(jobs, shares, strict=True) if items}

    # --- The main node ---------------------------------------------------------------------------

    def campaign(self) -> Leadership | None:
        tree = self._tree
        with self._asking() as session:
            session.sync(tree.root)
            self._must_be_member(session)
            latches = session.children(tree.latches)
            latch = self._latch(latches, session)
            if latch is None:
                path, _stat = session.create(
                    f"{tree.latches}/{session.token}-", self._node.encode(), ephemeral=True, numbered=True
                )
                latch = path.rpartition("/")[2]
                latches = session.children(tree.latches)
            data, stat = session.get(tree.term)
            written = _Term.parse(data)
            if min(latches, key=_sequence_of) != latch:
                self._leadership = None
                self._announce_higher_term(session, written, stat)
            elif written.latch == latch and written.term >= self._known:
                self._leadership = Leadership(main=self._node, term=written.term)
            else:
                self._leadership = self._take_leadership(session, latch=latch, written=written, stat=stat)
            self._known = max(self._known, written.term, self._leadership.term if self._leadership else 0)
        return self.leadership

    def _take_leadership(self, session: Session, *, latch: str, written: _Term, stat: Stat) -> Leadership | None:
        term_bound = self._term_bound
        term = max(written.term, self._known, 0 if term_bound is None else term_bound.read()) + 1
        if term_bound is not None and not term_bound.note(term):
            # Another node was faster. A later campaign can succeed.
            return None
        taken = _Term(term=term, main=self._node, latch=latch)
        try:
            session.commit([Check(self._tree.latch(latch)), Set(self._tree.term, stat.version, taken.data())])
        except Conflict:
            return None
        return Leadership(main=self._node, term=term)

    def _announce_higher_term(self, session: Session, written: _Term, stat: Stat) -> None:
        """
        If this node knows a higher term than the stored one, write it, so that the main node must take the leadership
        again.
        """
        if written.term < self._known:
            with suppress(Conflict):
                session.set(self._tree.term, _Term(term=self._known).data(), version=stat.version)

    def resign(self) -> None:
        self._leadership = None
        with self._asking() as session:
            latch = self._latch(session.children(self._tree.latches), session)
            if latch is not None:
                with suppress(Absent):
                    session.delete(self._tree.latch(latch))

    def read_state(self) -> ClusterState:
        with self._asking() as session:
            for _attempt in range(_READ_ATTEMPTS):
                with suppress(Absent):
                    return self._read_state(session)
            if not self._is_ours(session):
                raise NoCluster(f"there is no cluster {self._cluster!r} in ZooKeeper below {self._address.root}")
        raise Unreachable(f"the cluster {self._cluster} changes faster than it can be read")

    def _read_state(self, session: Session) -> ClusterState:
        tree = self._tree
        session.sync(tree.root)
        data, term = session.get(tree.term)
        written = _Term.parse(data)
        self._known = max(self._known, written.term)
        versions = [
            session.get(path)[1].version for path in (tree.pool_version, tree.worker_version, tree.assignment_version)
        ]
        alive, workers, pools, latches = session.children_of([tree.alive, tree.workers, tree.pools, tree.latches])
        nodes, jobs = sorted(workers), sorted(pools)
        below = session.children_of(
            [
                *(tree.pool(job) for job in jobs),
                *(tree.available(node) for node in nodes),
                *(tree.assigned(node) for node in nodes),
            ]
        )
        items = dict(zip(jobs, below, strict=False))
        available = dict(zip(nodes, below[len(jobs) :], strict=False))
        assigned_jobs = [
            (node, job)
            for node, held in zip(nodes, below[len(jobs) + len(nodes) :], strict=True)
            for job in sorted(held)
        ]
        held = session.children_of([tree.assigned(node, job) for node, job in assigned_jobs])
        assigned: dict[str, dict[str, frozenset[str]]] = {node: {} for node in nodes}
        for (node, job), names in zip(assigned_jobs, held, strict=True):
            assigned[node][job] = names
        return ClusterState(
            members={node: available[node] for node in nodes if node in alive},
            gone=frozenset(nodes) - alive,
            pools=items,
            shares={
                WorkItem(job, item): node
                for node, by_job in assigned.items()
                for job, names in by_job.items()
                for item in names
            },
            main=written.main if written.latch in latches else None,
            term=written.term,
            versions=_Versions(
                pools=versions[0],
                workers=versions[1],
                assignments=versions[2],
                term=term.version,
                available=available,
                assigned=assigned,
            ),
        )

    def assign(self, shares: Shares, *, seen: ClusterState, leadership: Leadership) -> int:
        versions = seen.versions
        assert isinstance(versions, _Versions)
        seen.refuse_nonmembers(shares)
        tree = self._tree
        wanted: dict[str, dict[str, set[str]]] = {node: defaultdict(set) for node in seen.members}
        for item, node in shares.items():
            wanted[node][item.job].add(item.item)
        less: list[Operation] = []
        more: list[Operation] = []
        changed = 0
        for node in sorted(seen.gone):
            less += _removal_of(tree, node, versions.available[node], versions.assigned[node])
        for node in sorted(seen.members):
            has = versions.assigned[node]
            for job, items in sorted(has.items()):
                less += [Delete(tree.assigned(node, job, item)) for item in sorted(items - wanted[node][job])]
            for job, items_wanted in sorted(wanted[node].items()):
                new = sorted(items_wanted - has.get(job, frozenset()))
                more += [Create(tree.assigned(node, job))] if new and job not in has else []
                more += [Create(tree.assigned(node, job, item)) for item in new]
                changed += len(new)
        if less or more:
            with self._asking() as session:
                guards = [Set(tree.assignment_version, versions.assignments)]
                if seen.gone:
                    guards.append(Set(tree.worker_version, versions.workers))
                needs = [Check(tree.member(node)) for node in sorted(seen.members)]
                self._commit_as_main(session, guards, [*less, *more], seen=seen, leadership=leadership, needs=needs)
        return changed

    def forget_idle(self, *, seen: ClusterState, leadership: Leadership) -> frozenset[str]:
        versions, tree = seen.versions, self._tree
        assert isinstance(versions, _Versions)
        idle = seen.idle_jobs
        operations: list[Operation] = []
        for job in sorted(idle):
            operations += [Delete(tree.pool(job, item)) for item in sorted(seen.pools[job])]
            operations.append(Delete(tree.pool(job)))
        with self._asking() as session:
            if operations:
                guards = [Set(tree.pool_version, versions.pools)]
                self._commit_as_main(session, guards, operations, seen=seen, leadership=leadership)
            self._locks.forget(session, seen=seen)
        return idle

    def _commit_as_main(
        self,
        session: Session,
        guards: list[Set],
        operations: list[Operation],
        *,
        seen: ClusterState,
        leadership: Leadership,
        needs: Iterable[Check] = (),
    ) -> None:
        """
        Commit operations that were decided on a read, if the facts of that read are unchanged and this node still
        leads.
        """
        versions, tree = seen.versions, self._tree
        assert isinstance(versions, _Versions)
        latch = self._latch(session.children(tree.latches), session)
        rests_on = {tree.pool_version: versions.pools, tree.worker_version: versions.workers, tree.term: versions.term}
        for guard in guards:
            rests_on.pop(guard.path, None)
        checks = [Check(path, version) for path, version in rests_on.items()]
        if latch is None or leadership != self._leadership:
            raise NotMain(
                f"term {leadership.term} has ended: the main node of term {seen.term} is {seen.main or 'not elected yet'}"
            )
        if (seen.main, seen.term) != (leadership.main, leadership.term):
            raise Outdated("the main node has changed since the cluster was read; read it again")
        try:
            session.commit_in_parts(guards, operations, needs=[*checks, Check(tree.latch(latch)), *needs])
        except Conflict:
            written = _Term.parse(session.get(tree.term)[0])
            if (written.term, written.latch) != (leadership.term, latch) or session.stat(tree.latch(latch)) is None:
                self._leadership = None
                raise NotMain(
                    f"term {leadership.term} has ended: the main node of term {written.term} is {written.main or 'not elected yet'}"
                ) from None
            raise Outdated("members, pools or shares have changed since they were read; read them again") from None

    # --- Locks -----------------------------------------------------------------------------------

    def acquire(self, item: WorkItem, *, lease: dt.timedelta, note: str = "") -> ItemLock | LockSeen:
        with self._token_for(item) as token, self._sharing() as session:
            return self._retry_after_conflicts(
                lambda: self._locks.acquire(session, item, token, lease=lease, note=note)
            )

    def acquire_all(self, items: Sequence[WorkItem], *, lease: dt.timedelta) -> Sequence[ItemLock] | LockSeen:
        for item in items:
            checked("job", item.job)
            checked("item", item.item)
        with self._tokens_for(items) as tokens, self._sharing() as session:
            return self._retry_after_conflicts(lambda: self._locks.acquire_all(session, items, tokens, lease=lease))

    def prolong(self, lock: ItemLock, *, lease: dt.timedelta) -> ItemLock | None:
        return self.prolong_all([lock], lease=lease)[0]

    def prolong_all(self, locks: Sequence[ItemLock], *, lease: dt.timedelta) -> Sequence[ItemLock | None]:
        with self._sharing() as session:
            return self._retry_after_conflicts(lambda: self._locks.prolong_all(session, locks, lease=lease))

    def release(self, lock: ItemLock) -> bool:
        return self.release_all([lock])[0]

    def release_all(self, locks: Sequence[ItemLock]) -> Sequence[bool]:
        with self._sharing() as session:
            return self._retry_after_conflicts(lambda: self._locks.release_all(session, locks))

    def lock_of(self, item: WorkItem) -> LockSeen | None:
        with self._asking() as session:
            session.sync(self._tree.root)
            return self._locks.lock_of(session, item)

    def locks(self) -> tuple[LockSeen, ...]:
        with self._asking() as session:
            session.sync(self._tree.root)
            return self._locks.locks(session)

    # --- Watches ---------------------------------------------------------------------------------

    def watch(self, wake: Callable[[], None]) -> None:
        with self._asking() as session:
            self._wake = wake
            self._set_watches(session)

    def _set_watches(self, session: Session) -> None:
        """
        Watch the versions, the term, the members and the candidates. Every change of a pool, a member or a share
        increments a version, so single items need no watch.
        """
        wake, tree = self._wake, self._tree
        if wake is not None:
            for path in (tree.pool_version, tree.worker_version, tree.assignment_version, tree.term):
                session.watch(path, wake, children=False)()
            for path in (tree.alive, tree.latches):
                session.watch(path, wake, children=True)()
            wake()

    # --- Sessions --------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[Session]:
        """Yield the session for one operation. Translate its errors into errors of the contract."""
        with self._lock, self._sharing() as session:
            yield session

    @contextmanager
    def _sharing(self) -> Iterator[Session]:
        """
        Yield the session as `_asking` does, but to several threads at the same time, so that their requests are in
        flight together.
        """
        with self._lock:
            if self._closing.is_set():
                raise Unreachable(f"node {self._node} has closed its connection")
            if self._session is not None and self._session.is_over:
                self._drop()
            if self._session is None:
                self._session = self._open()
            session = self._session
        try:
            yield session
        except Absent as error:
            # Something removed our tree. A node that joins again creates it again.
            with self._lock:
                self._joined = None
                self._lose_membership()
            raise NotMember(f"the tree of cluster {self._cluster} does not exist or was removed: join again") from error
        except Conflict as error:
            raise Unreachable(f"the cluster {self._cluster} changed while it was written to: {error}") from error

    def _open(self) -> Session:
        session = Session(address=self._address, timeout=self._timeout, clock=self._clock)
        try:
            is_there = self._is_ours(session)
        except BaseException:
            session.end()
            raise
        if self._guarding is None:
            self._guarding = threading.Thread(
                target=self._end_untrusted_sessions, name=f"guard of {self._node}", daemon=True
            )
            self._guarding.start()
        session.reconnected = self._set_watches
        if is_there:
            self._set_watches(session)
        return session

    def _is_ours(self, session: Session) -> bool:
        """
        True if the root holds the tree of a cluster.

        Raises:
            Refused: the root holds something else.
        """
        root = self._tree.root
        try:
            data, _stat = session.get(root)
        except Absent:
            return False
        if data != MARK:
            found = (
                f"{data[:40]!r}" if data else ", ".join(sorted(session.children(root))[:3]) or "no mark of a cluster"
            )
            raise Refused(
                f"{root} in ZooKeeper is in use by another application: it holds {found}; choose another path"
            )
        return all(session.stat(path) is not None for path in self._tree.folders)

    def _make_tree(self, session: Session) -> None:
        """Create the missing nodes that a cluster needs."""
        parts = self._tree.root.split("/")[1:]
        above = ["/" + "/".join(parts[:depth]) for depth in range(1, len(parts))]
        made = [self._make(session, path) for path in above]
        made.append(self._make(session, self._tree.root, MARK))
        made += [self._make(session, path) for path in self._tree.folders]
        self._claim(session)
        if any(made):
            # ZooKeeper sets no watch on the children of a missing node, so set the watches again.
            self._set_watches(session)

    def _claim(self, session: Session) -> None:
        """
        Mark the tree with the identity of our database, if there is one. If two databases shared a tree, their main
        nodes would disturb each other.

        Raises:
            Refused: the tree belongs to another database.
        """
        if self._term_bound is None:
            return
        path = self._tree.database
        if self._identity is None:
            self._identity = self._term_bound.identity().encode()
        self._make(session, path, self._identity)
        found, _stat = session.get(path)
        if found != self._identity:
            raise Refused(
                f"{self._tree.root} in ZooKeeper is in use: it belongs to another database; choose another "
                f"path, or remove {path} if that database no longer exists"
            )

    def _make(self, session: Session, path: str, data: bytes = b"") -> bool:
        if session.stat(path) is not None:
            return False
        with suppress(Conflict):
            session.create(path, data)
        return True

    def _drop(self) -> None:
        """Drop the session. A node that was a member has to join again."""
        if self._session is not None:
            self._session.end()
        self._session = self._joined = None
        self._leadership = None

    def _end_untrusted_sessions(self) -> None:
        """End the session if its member no longer beats, or if it has had no connection for too long."""
        longest = self._timeout.total_seconds()
        while not self._closing.wait(longest / 8):
            session = self._session
            if session is None:
                continue
            is_silent = session is self._joined and self._clock() - self._last_beat_at > longest
            if is_silent or session.away_for > longest:
                logger.warning(
                    "node %s ends its session with ZooKeeper: %s",
                    self._node,
                    "it sends no heartbeat" if is_silent else "no answer",
                )
                # End the session without our lock, because a hanging thread may hold the lock.
                session.end()

    # --- Steps shared by the functions above -----------------------------------------------------

    def _retry_after_conflicts(self, step: Callable[[], _T]) -> _T:
        """
        Return the result of a step. Repeat the step if another process changed its nodes between its read and its
        write.

        Raises:
            Unreachable: another process interfered with every attempt.
        """
        for _try in range(_TRIES):
            with suppress(Conflict, Absent):
                return step()
        raise Unreachable(f"the cluster {self._cluster} changed {_TRIES} times while it was written to")

    def _increment_of(self, session: Session, path: str) -> Set:
        """
        Return the operation that increments the version at this path. The operation is refused if another process
        increments it first.
        """
        return Set(path, session.get(path)[1].version)

    def _removal(self, session: Session, node: str) -> list[Operation]:
        """
        Return the operations that remove a worker and everything below it; an empty list if the worker does not exist.
        """
        tree = self._tree
        if session.stat(tree.worker(node)) is None:
            return []
        available, jobs = session.children_of([tree.available(node), tree.assigned(node)])
        held = session.children_of([tree.assigned(node, job) for job in sorted(jobs)])
        return _removal_of(tree, node, available, dict(zip(sorted(jobs), held, strict=True)))

    def _difference(self, session: Session, job: str, items: frozenset[str]) -> list[Operation]:
        """Return the operations that change the pool of a job to these items."""
        path, operations = self._tree.pool(job), list[Operation]()
        try:
            present = session.children(path)
        except Absent:
            present = frozenset()
            operations.append(Create(path))
        operations += [Delete(self._tree.pool(job, item)) for item in sorted(present - items)]
        operations += [Create(self._tree.pool(job, item)) for item in sorted(items - present)]
        return operations

    def _latch(self, latches: Iterable[str], session: Session) -> str | None:
        """Return the latch of a session, even if the answer to its creation was lost."""
        return next((latch for latch in sorted(latches, key=_sequence_of) if latch.startswith(session.token)), None)

    def _latches_of_own_name(self, session: Session) -> list[str]:
        latches = sorted(session.children(self._tree.latches))
        names = session.get_of([self._tree.latch(latch) for latch in latches])
        return [latch for latch, name in zip(latches, names, strict=True) if name and name[0] == self._node.encode()]

    @contextmanager
    def _dropping_session_on_error(self) -> Iterator[None]:
        """
        If the block fails, drop the session. ZooKeeper then removes the ephemeral nodes that the block has created.
        """
        try:
            yield
        except BaseException:
            self._drop()
            raise

    def _must_be_member(self, session: Session) -> None:
        """Raise NotMember unless this process, in this session, is the member of this name."""
        mine = session.stat(self._tree.member(self._node))
        if session is not self._joined or mine is None or mine.session != session.id:
            raise self._not_a_member()


def _removal_of(
    tree: Tree, node: str, available: Iterable[str], assigned: Mapping[str, Iterable[str]]
) -> list[Operation]:
    items = [tree.assigned(node, job, item) for job, names in sorted(assigned.items()) for item in sorted(names)]
    jobs = [tree.assigned(node, job) for job in sorted(assigned)]
    able = [tree.available(node, job) for job in sorted(available)]
    return [
        Delete(path) for path in (*items, *jobs, *able, tree.assigned(node), tree.available(node), tree.worker(node))
    ]


def _sequence_of(latch: str) -> str:
    """Return the sequence number of a latch: ZooKeeper writes ten digits."""
    return latch[-10:]
