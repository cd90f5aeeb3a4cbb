"""
The manager: owns groups and stuffs them. The main manager also does the cluster's unique work.

It is one loop in one thread. Each pass reads the state of the cluster, decides about the term of the main manager,
and performs the duties that are due. A wake-up starts a pass at once; otherwise passes start regularly.
"""

import datetime as dt
import logging
import threading
import time
from collections.abc import Callable
from typing import Any, Final, LiteralString

import psycopg
from django.db import connection as django_connection

from jobs.duties.allocate import GROUPS_TO_GIVE, allocate_groups, retire_groups
from jobs.duties.check import check_invariants
from jobs.duties.connectors import WATCHED_JOBS, watch_connectors
from jobs.duties.context import Pass
from jobs.duties.disks import DISKS_LACK_ROOM, say_which_disks_lack_room
from jobs.duties.failover import (
    interrupt_dead_one_shots,
    open_gates,
    release_lost_documents,
    withdraw_from_stopped_jobs,
)
from jobs.duties.finish import JOBS_AT_REST, end_runs
from jobs.duties.hand_over import GROUPS_TO_HAND_OVER, hand_over_groups
from jobs.duties.history import HISTORIES_TO_CLEAR, clear_histories, keep_history
from jobs.duties.housekeep import (
    OLD_ANSWERS,
    OLD_NODES,
    fold_counters,
    forget_old_answers,
    forget_old_batches,
    forget_old_nodes,
    place_bins,
    raise_the_floor,
)
from jobs.duties.mirror import read_owners
from jobs.duties.pass_on import PASSING_JOBS, pass_on
from jobs.duties.requests import OPEN_REQUESTS, answer_requests
from jobs.duties.reseed import JOBS_TO_RESEED, begin_reseeding
from jobs.duties.sources import AskAside
from jobs.duties.start import JOBS_TO_PREPARE, SEEDING_JOBS, prepare_runs, seed_seeds
from jobs.duties.stuff import stuff_groups, sweep
from jobs.duties.tags import TAGS_ARE_NEEDED, say_which_tags_lack
from jobs.duties.tombstones import keep_tombstones
from jobs.duties.windows import SCHEDULED_JOBS, mind_windows
from jobs.loops.database import DatabaseClock
from jobs.loops.loop import ALWAYS, Rhythm, calls, duties
from jobs.loops.node import Node
from jobs.metrics import crawl
from jobs.queue.counting.counters import COUNTS_TO_FOLD
from jobs.queue.flushing.gates import GATES_OF_LOST_NODES
from jobs.queue.offering.front import Front
from jobs.queue.offering.hold import LANES_A_PASS, GroupHeld
from jobs.queue.pace.addresses import WANTED_PLACINGS
from jobs.queue.release import HELD_BY_LOST_WORKERS, KEPT_IN_VAIN, OFFERED_OF_STOPPED_JOBS
from jobs.queue.wake import Sweep, notify
from jobs.state import channels
from nodes.coordination.port import Coordination
from nodes.database.connections import Dsn
from nodes.decisions.elect import Elect, Resign, elect
from nodes.decisions.judge import judge
from nodes.decisions.snapshot import ClusterSeen
from nodes.life.identity import NodeIdentity
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership import leadership, snapshot
from nodes.membership.fences import FenceRefused, TermHeld
from nodes.metrics import of_nodes
from nodes.settings.effective import Effective

logger = logging.getLogger(__name__)

# Interval of passes without a wake-up (seconds), in case one was lost.
_PASS: Final = 0.2
# Shortest times between passes (seconds): events in between are processed together. A pass that found work will find
# more, so the next one waits longer, except if a worker has run out of documents.
_SHORT_BREATH: Final = 0.01
_BREATH: Final = 0.12
# Reads of the cluster's state in one heartbeat interval; another one follows each wake-up of control.
_LOOKS_A_BEAT: Final = 2
# Intervals of reading the conditions of duties (seconds), without and with a flow of documents. They are also read
# when the main manager moved something or a job changed its state.
_ASK: Final = 0.3
_ASK_IN_FLOW: Final = 1.0
# Offered documents of a pass that supply the workers for a longer wait: more than the lanes that it examined.
_PLENTY: Final = LANES_A_PASS + 1
_LONG_BREATH: Final = 0.2
# Longest life of Django's connection (seconds): a duty that uses it each second must not open a session each time.
_DJANGOS_CONNECTION_KEPT: Final = 5.0

_OF_SCOPE: Final[LiteralString] = "SELECT FROM jobs_job WHERE node_scope = %(scope)s"

MAIN_DUTIES: Final = duties(
    (watch_connectors, 5.0, f"EXISTS ({WATCHED_JOBS})"),
    (mind_windows, 2.0, f"EXISTS ({SCHEDULED_JOBS})"),
    (answer_requests, 0.3, f"EXISTS ({OPEN_REQUESTS})"),
    (allocate_groups, 1.0, GROUPS_TO_GIVE),
    (say_which_tags_lack, 2.0, TAGS_ARE_NEEDED),
    (say_which_disks_lack_room, 1.0, DISKS_LACK_ROOM),
    (retire_groups, 10.0, "EXISTS (SELECT FROM jobs_throttlegroup WHERE node_scope = %(scope)s)"),
    (prepare_runs, 1.0, f"EXISTS ({JOBS_TO_PREPARE})"),
    (withdraw_from_stopped_jobs, 1.0, f"EXISTS ({OFFERED_OF_STOPPED_JOBS})"),
    (release_lost_documents, 1.0, f"EXISTS ({HELD_BY_LOST_WORKERS}) OR EXISTS ({KEPT_IN_VAIN})"),
    (open_gates, 1.0, f"EXISTS ({GATES_OF_LOST_NODES})"),
    (end_runs, 0.3, f"EXISTS ({JOBS_AT_REST})"),
    (pass_on, 1.0, f"EXISTS ({PASSING_JOBS})"),
    (begin_reseeding, 2.0, f"EXISTS ({JOBS_TO_RESEED})"),
    (interrupt_dead_one_shots, 2.0, ALWAYS),
    (place_bins, 1.0, f"EXISTS ({WANTED_PLACINGS})"),
    (fold_counters, 1.0, COUNTS_TO_FOLD),
    (raise_the_floor, 2.0, ALWAYS),
    (forget_old_batches, 60.0, ALWAYS),
    (keep_history, 600.0, ALWAYS),
    (keep_tombstones, 600.0, ALWAYS),
    (clear_histories, 2.0, f"EXISTS ({HISTORIES_TO_CLEAR})"),
    (check_invariants, 15.0, f"%(scope)s = '{CLUSTER_SCOPE}'"),
    (forget_old_answers, 60.0, f"EXISTS ({OLD_ANSWERS})"),
    (forget_old_nodes, 600.0, f"EXISTS ({OLD_NODES})"),
)
OWNER_DUTIES: Final = duties(
    (hand_over_groups, 0.3, GROUPS_TO_HAND_OVER),
    (seed_seeds, 0.3, f"EXISTS ({SEEDING_JOBS})"),
    (stuff_groups, 0.1, f"EXISTS ({_OF_SCOPE} AND phase IN ('active', 'shutting_down', 'deleting'))"),
    (sweep, 1.0, f"EXISTS ({_OF_SCOPE} AND phase = 'active')"),
)

_MY_GROUPS: Final[LiteralString] = """
(SELECT coalesce(json_agg(json_build_array(id, epoch) ORDER BY id), '[]') FROM jobs_throttlegroup
  WHERE owner_id = %(me)s AND state = 'owned')
"""
# True if this manager owns a group, and another manager is running.
_HAS_HEIRS: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_throttlegroup WHERE owner_id = %(me)s)
   AND EXISTS (SELECT FROM nodes_node
                WHERE scope = %(scope)s AND kind = 'manager' AND status = 'running'
                  AND extract(epoch FROM clock_timestamp() - heartbeat_at) <= timeout_seconds)
"""
_ASK_ALL: Final[LiteralString] = "SELECT " + ", ".join([_MY_GROUPS, calls(OWNER_DUTIES), calls(MAIN_DUTIES)])


class ManagerFailed(Exception):
    """The manager was marked failed, lost its database, or found no coordination store: its process has to exit."""


class Manager:
    """One manager node. `run` lasts until it is stopped and has left."""

    def __init__(
        self, *, dsn: Dsn, identity: NodeIdentity, settings: Effective, store: Coordination | None = None
    ) -> None:
        """`store` is the connection to the coordination store, if there is one beside the database."""
        self._me = self.identity = identity
        self._node = Node(
            dsn=dsn,
            identity=identity,
            settings=settings,
            store=store,
            channels=(channels.STUFF, channels.GROUPS, channels.CONTROL),
            heard=self._heard,
            is_stopping=self._is_stopping,
            stands=True,
            seat_changed=self._see_the_seat_change,
        )
        self._heart, self._seat = self._node.heart, self._node.seat
        self._work = self._node.work_connection()
        self._clock = DatabaseClock()
        self._woken = threading.Event()
        self._control_changed = threading.Event()
        self._groups_changed = threading.Event()
        self._limits_changed = threading.Event()
        self._seat_changed = threading.Event()
        self._main = Rhythm(MAIN_DUTIES)
        self._owner = Rhythm(OWNER_DUTIES)
        self._sources = AskAside()
        self._sweep = Sweep()
        self._front = Front()
        self._term: TermHeld | None = None
        self._looked_at = self._asked_at = float("-inf")
        self._closed_djangos_at = time.monotonic()
        self._called: frozenset[str] = frozenset()
        self._stuffed = 0
        self._flows = False
        self._misses_somebody = False
        self._should_stop: Callable[[], bool] = lambda: False
        # Number of changes of jobs' states that this process was notified of.
        self.control_changes = 0

    def run(self, *, should_stop: Callable[[], bool], after_pass: Callable[[], None] = lambda: None) -> None:
        """
        Work until `should_stop`; `after_pass` is called between passes, in this thread.

        Raises:
            ManagerFailed: the node was marked failed, or the database was unavailable.
        """
        self._should_stop = should_stop
        try:
            self._work.run(self._node.join)
            self._node.start()
            while not should_stop() and not self._heart.drains.is_set():
                self._go_round(after_pass)
            self._work.run(self._begin_leaving)
            leaves_at = time.monotonic() + self._me.timeout.total_seconds()
            while self._work.run(self._has_heirs) and time.monotonic() < leaves_at:
                self._go_round(after_pass)
            self._work.run(self._node.leave)
        except FenceRefused as refused:
            self._work.run(self._node.count_refused)
            raise ManagerFailed(str(refused)) from refused
        except psycopg.OperationalError as error:
            raise ManagerFailed(f"the database stayed away: {error}") from error
        finally:
            self._node.stop()
            self._work.close()
            django_connection.close()

    def _go_round(self, after_pass: Callable[[], None]) -> None:
        moved = self._work.run(self._pass)
        after_pass()
        self._rest(moved)

    _groups: tuple[GroupHeld, ...] = ()

    def _see_the_seat_change(self) -> None:
        """Check the term in the next pass. Runs in the thread of the membership session."""
        self._seat_changed.set()
        self._woken.set()

    def _is_stopping(self) -> bool:
        return self._should_stop()

    def _may_act_as_main(self) -> bool:
        return self._node.may_begin() and self._seat.is_chosen is not False

    def _begin_leaving(self, connection: psycopg.Connection[Any]) -> None:
        """Give up the term, and let the main manager move the groups: this manager stuffs them until then."""
        self._seat.stand_down()
        self._node.begin_draining(connection)
        self._looked_at = float("-inf")
        notify(connection, channels.GROUPS, self._me.scope)

    def _has_heirs(self, connection: psycopg.Connection[Any]) -> bool:
        """True if this manager owns a group that another one could take over."""
        row = connection.execute(_HAS_HEIRS, {"me": self._me.id, "scope": self._me.scope}).fetchone()
        assert row is not None
        return bool(row[0])

    def _heard(self, channel: str, payload: str) -> None:
        """Record a notification. Runs in the listener's thread."""
        if channel in {channels.STUFF, channels.GROUPS} and payload != self._me.scope:
            return
        if channel == channels.GROUPS:
            self._groups_changed.set()
        elif channel != channels.STUFF:
            self.control_changes += 1
            self._control_changed.set()
            if payload == channels.LIMITS:
                self._limits_changed.set()
        self._woken.set()

    def _rest(self, moved: int) -> None:
        if self._front.is_cut_off:
            # More lanes are ready than one pass examines, and the backlog has room for their documents.
            time.sleep(_SHORT_BREATH)
        elif moved >= _PLENTY:
            time.sleep(_LONG_BREATH)
        else:
            time.sleep(_SHORT_BREATH)
            # A process that wakes this one is idle: its documents are stuffed at once.
            self._woken.wait(_BREATH if moved else _PASS)
        if self._woken.is_set():
            self._woken.clear()
            self._owner.hasten()
        if time.monotonic() - self._closed_djangos_at > _DJANGOS_CONNECTION_KEPT:
            # A node holds only three connections permanently.
            self._closed_djangos_at = time.monotonic()
            django_connection.close()

    def _pass(self, connection: psycopg.Connection[Any]) -> int:
        """Make one pass; return how much was moved."""
        # Here, and not once a round: a pass that gave up waiting for a lock begins again.
        self._heart.progress(groups=len(self._groups), stuffed=self._stuffed, is_main=self._term is not None)
        crawl.GROUPS.set(len(self._groups))
        of_nodes.IS_MAIN.set(self._term is not None)
        if self._heart.failed.is_set():
            raise ManagerFailed(self._heart.why)
        if self._node.has_new_settings:
            self._node.take_up_settings(connection)
        if self._control_changed.is_set():
            self._control_changed.clear()
            self._main.hasten()
            self._owner.hasten()
            self._looked_at = self._asked_at = float("-inf")
        if self._groups_changed.is_set():
            # Groups were handed over, or have to be: the new owner begins at once.
            self._groups_changed.clear()
            self._main.hasten()
            self._owner.hasten()
            self._asked_at = float("-inf")
        if self._limits_changed.is_set():
            # Lanes that wait for the previous limits are searched among all lanes.
            self._limits_changed.clear()
            self._sweep.hasten()
        if self._seat_changed.is_set():
            self._seat_changed.clear()
            self._looked_at = float("-inf")
        # A node that is absent from the coordination store is judged as soon as the database's rules allow it.
        pause = 0.0 if self._misses_somebody else self._node.heartbeat.total_seconds() / _LOOKS_A_BEAT
        if time.monotonic() - self._looked_at > pause:
            self._looked_at = time.monotonic()
            self._keep_office(connection)
        if not self._node.may_begin():
            return 0
        now = self._clock.now(connection)
        if time.monotonic() - self._asked_at > (_ASK_IN_FLOW if self._flows else _ASK):
            self._asked_at = time.monotonic()
            self._ask(connection, now=now)
        at = Pass(
            connection=connection,
            me=self._me.id,
            scope=self._me.scope,
            now=now,
            term=self._term,
            groups=self._groups,
            sources=self._sources,
            sweep=self._sweep,
            front=self._front,
        )
        self._front.is_cut_off = False
        moved = self._owner.perform(at, called=self._called, may_begin=self._node.may_begin)
        self._flows = moved >= _PLENTY
        self._stuffed += moved
        if self._term is None or self._owner.was_broken_off:
            return moved
        moved_as_main = 0
        try:
            moved_as_main = self._main.perform(at, called=self._called, may_begin=self._may_act_as_main)
        except FenceRefused as refused:
            if refused.fence != "term":
                raise
            # Another node is the main manager now, or none: this node continues as a manager.
            logger.warning("no longer main: %s", refused)
            self._node.count_refused(connection)
            self._term = None
        if moved_as_main or self._term is None:
            # Groups were given, perhaps to this manager, or a run waits for its seeds; or another main manager gives
            # them.
            self._asked_at = float("-inf")
        return moved + moved_as_main

    def _ask(self, connection: psycopg.Connection[Any], *, now: dt.datetime) -> None:
        """Read the conditions of the duties, and the groups of this manager."""
        row = connection.execute(_ASK_ALL, {"scope": self._me.scope, "me": self._me.id, "now": now}).fetchone()
        assert row is not None
        groups, for_owner, for_main = row
        self._groups = tuple(GroupHeld(*group) for group in groups)
        self._called = self._owner.called(for_owner) | self._main.called(for_main)

    def _keep_office(self, connection: psycopg.Connection[Any]) -> None:
        """Check the term of the main manager; take or give up the term, and judge the nodes as its holder."""
        cluster = snapshot.look(connection, scope=self._me.scope, me=self._me, present=self._seat.present)
        self._misses_somebody = any(
            node.is_absent and node.is_live and node.heartbeat_age > node.timeout / 2 for node in cluster.nodes
        )
        is_chosen = self._seat.is_chosen
        decision = elect(cluster, beat=self._node.heartbeat, is_steady=self._heart.is_steady, is_chosen=is_chosen)
        match decision:
            case Elect():
                self._term = leadership.elect(
                    connection,
                    node_id=self._me.id,
                    scope=decision.scope,
                    seen_term=decision.seen_term,
                    replaces=decision.replaces,
                )
                if self._term is not None:
                    of_nodes.ELECTIONS.add(1, "failed main" if decision.replaces else "nobody")
                    of_nodes.MARKED_FAILED.add(decision.replaces is not None)
                self._main.hasten()
            case Resign():
                leadership.resign(
                    connection, term=TermHeld(scope=decision.scope, term=decision.term, main_id=self._me.id)
                )
                self._term = None
            case None:
                self._term = self._term_in(cluster)
        if self._term is not None:
            self._judge(connection, cluster)
            if is_chosen:
                self._seat.acts()
                self._seat.mirror(read_owners(connection, scope=self._me.scope))

    def _term_in(self, cluster: ClusterSeen) -> TermHeld | None:
        if not cluster.i_am_main:
            return None
        return TermHeld(scope=cluster.scope, term=cluster.term.term, main_id=self._me.id)

    def _judge(self, connection: psycopg.Connection[Any], cluster: ClusterSeen) -> None:
        assert self._term is not None
        orphans = snapshot.look_at_orphaned_scopes(connection, me=self._me) if self._me.scope == CLUSTER_SCOPE else ()
        for verdict in judge(cluster, is_steady=self._heart.is_steady, orphans=orphans):
            if leadership.mark_failed(connection, verdict=verdict, term=self._term):
                logger.warning("marked %s failed: %s", verdict.node_id, verdict.reason)
                of_nodes.MARKED_FAILED.add()
                self._main.hasten()
                self._asked_at = float("-inf")
