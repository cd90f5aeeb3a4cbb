"""
The manager: owns groups and stuffs them. The main manager also does the cluster's unique work.

It is one loop in one thread. Each pass reads the state of the cluster, decides about the term of the main manager, and
performs the duties that are due. A wake-up starts a pass immediately; otherwise passes start regularly.
"""

import datetime as dt
import logging
import time
from collections.abc import Callable
from typing import Any, Final, LiteralString

import psycopg
from django.db import connection as django_connection

from jobs.duties.context import Pass
from jobs.duties.read_definitions import ReadDefinitions
from jobs.duties.recruit import assign_due_tasks
from jobs.duties.sources import AskInThreads
from jobs.loops.database import DatabaseClock
from jobs.loops.loop import DutyRunner, calls
from jobs.loops.manager.document_flow import DocumentFlow
from jobs.loops.manager.duty_tables import MAIN_DUTIES, OWNER_DUTIES
from jobs.loops.manager.events import ASKS, Events, happened
from jobs.loops.manager.main_role import MainRole
from jobs.loops.node import Node
from jobs.metrics import crawl
from jobs.queries.charging import Charging
from jobs.queue.offering.cursors import LaneCursors
from jobs.queue.offering.hold import LANES_A_PASS, GroupHeld
from jobs.queue.offering.workers import Workers
from jobs.queue.rounds import Rounds
from jobs.queue.wake import notify
from jobs.state import channels
from nodes.coordination.port import Coordination
from nodes.database.connections import Dsn
from nodes.life.identity import NodeIdentity
from nodes.membership.fences import FenceRefused
from nodes.metrics import node_metrics
from nodes.settings.effective import Effective
from nodes.tasks.channels import RECRUIT

logger = logging.getLogger(__name__)

# Interval of passes without a wake-up (seconds), in case a wake-up was lost.
_PASS: Final = 0.2
# Shortest times between passes (seconds): events in between are processed together. A pass that found work will find
# more, so the next one waits longer, except if a worker has run out of documents.
_SHORT_PAUSE: Final = 0.01
_PAUSE: Final = 0.12
# Intervals of reading the conditions of duties (seconds), without and with a flow of documents. The conditions are also
# read after the main manager changed something, or a job changed its state.
_ASK: Final = 0.3
_ASK_IN_FLOW: Final = 1.0
# Least number of offered documents of a full pass: more than the lanes that a pass examines. After a full pass the
# workers have enough documents, so the manager makes a longer pause. The second number is the least duration of this
# pause (seconds), which is twice as long if no worker runs out of documents.
_FULL_PASS: Final = LANES_A_PASS + 1
_LONG_PAUSE: Final = 0.2
# Longest life of Django's connection (seconds). Longer than a second, so that a duty that uses the connection once a
# second need not open a new one each time.
_DJANGOS_CONNECTION_KEPT: Final = 5.0

_MY_GROUPS: Final[LiteralString] = """
(SELECT coalesce(json_agg(json_build_array(id, epoch) ORDER BY id), '[]') FROM jobs_throttlegroup
  WHERE owner_id = %(me)s AND state = 'owned')
"""
# True if this manager owns a group, and another manager is running.
_HAS_SUCCESSORS: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_throttlegroup WHERE owner_id = %(me)s)
   AND EXISTS (SELECT FROM nodes_node
                WHERE scope = %(scope)s AND kind = 'manager' AND status = 'running'
                  AND extract(epoch FROM clock_timestamp() - heartbeat_at) <= timeout_seconds)
"""
_ASK_ALL: Final[LiteralString] = "SELECT " + ", ".join([_MY_GROUPS, calls(OWNER_DUTIES), calls(MAIN_DUTIES)])


class ManagerFailed(Exception):
    """The manager was marked failed, lost its database, or found no coordination store: its process has to exit."""


class Manager:
    """One manager node. `run` returns after the node has left the cluster."""

    def __init__(
        self, *, dsn: Dsn, identity: NodeIdentity, settings: Effective, store: Coordination | None = None
    ) -> None:
        """`store` is the connection to the coordination store; None if the database coordinates the nodes."""
        self._me = self.identity = identity
        self.events = Events(scope=identity.scope)
        self._node = Node(
            dsn=dsn,
            identity=identity,
            settings=settings,
            store=store,
            channels=(channels.STUFF, channels.GROUPS, channels.LEADERSHIP, channels.CONTROL, RECRUIT),
            on_notification=self.events.on_notification,
            asks=ASKS,
            answered=self.events.answered,
            is_stopping=lambda: self._should_stop(),  # noqa: PLW0108 (`run` replaces the function)
            is_candidate=True,
            membership_changed=self.events.note_membership_change,
        )
        self._heartbeats = self._node.heartbeats
        self._main_role = MainRole(me=identity, node=self._node)
        self._work = self._node.work_connection()
        self._clock = DatabaseClock()
        self._main = DutyRunner(MAIN_DUTIES)
        self._owner = DutyRunner(OWNER_DUTIES)
        self._sources, self._rounds = AskInThreads(), Rounds()
        self._cursors, self._workers = LaneCursors(), Workers()
        self._charging, self._definitions = Charging(), ReadDefinitions()
        self._asked_at, self._closed_djangos_at = float("-inf"), time.monotonic()
        self._called: frozenset[str] = frozenset()
        self._groups: tuple[GroupHeld, ...] = ()
        self._stuffed, self._flow = 0, DocumentFlow()
        self._should_stop: Callable[[], bool] = lambda: False

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
            while not should_stop() and not self._heartbeats.drains.is_set():
                self._perform_cycle(after_pass)
            self._work.run(self._begin_leaving)
            leaves_at = time.monotonic() + self._me.timeout.total_seconds()
            while self._work.run(self._has_successors) and time.monotonic() < leaves_at:
                self._perform_cycle(after_pass)
            self._work.run(self._node.leave)
        except FenceRefused as refused:
            self._work.run(self._node.count_refused)
            raise ManagerFailed(str(refused)) from refused
        except psycopg.OperationalError as error:
            raise ManagerFailed(f"the database stayed down: {error}") from error
        finally:
            self._node.stop()
            self._work.close()
            django_connection.close()

    def _perform_cycle(self, after_pass: Callable[[], None]) -> None:
        moved = self._work.run(self._pass)
        after_pass()
        self._rest(moved)

    def _begin_leaving(self, connection: psycopg.Connection[Any]) -> None:
        """Give up the term, and let the main manager move the groups: this manager stuffs them until then."""
        self._node.membership.stand_down()
        self._node.begin_draining(connection)
        self._main_role.read_nodes_soon()
        notify(connection, channels.GROUPS, self._me.scope)

    def _has_successors(self, connection: psycopg.Connection[Any]) -> bool:
        """True if this manager owns a group that another manager could take over."""
        row = connection.execute(_HAS_SUCCESSORS, {"me": self._me.id, "scope": self._me.scope}).fetchone()
        assert row is not None
        return bool(row[0])

    def _rest(self, moved: int) -> None:
        if self._cursors.is_cut_off:
            # More lanes are ready than one pass examines, and the backlog has room for their documents. So the next
            # pass follows soon.
            time.sleep(_SHORT_PAUSE)
        else:
            is_full = moved >= _FULL_PASS
            time.sleep(_LONG_PAUSE if is_full else _SHORT_PAUSE)
            # A wake-up comes from a process that is idle, so the manager stuffs documents for it immediately.
            self.events.woken.wait(_LONG_PAUSE if is_full else _PAUSE if moved else _PASS)
        if happened(self.events.woken):
            self._owner.speed_up()
        if time.monotonic() - self._closed_djangos_at > _DJANGOS_CONNECTION_KEPT:
            # A node holds only two connections permanently.
            self._closed_djangos_at = time.monotonic()
            django_connection.close()

    def _pass(self, connection: psycopg.Connection[Any]) -> int:
        """Make one pass; return the sum of the results of its duties."""
        # Report in each pass, and not once a cycle: a cycle repeats a pass that gave up waiting for a lock.
        is_main, workers = self._main_role.term is not None, self._main_role.workers
        self._heartbeats.progress(groups=len(self._groups), stuffed=self._stuffed, is_main=is_main, workers=workers)
        crawl.GROUPS.set(len(self._groups))
        node_metrics.IS_MAIN.set(is_main)
        if self._heartbeats.failed.is_set():
            raise ManagerFailed(self._heartbeats.why)
        if self._node.has_new_settings:
            self._node.take_up_settings(connection)
        self._notice_events()
        if self._main_role.keep_if_due(connection):
            self._main.speed_up()
            self._asked_at = float("-inf")
        if not self._node.may_begin() or self._is_idle:
            return 0
        now = self._clock.now(connection)
        if time.monotonic() - self._asked_at > (_ASK_IN_FLOW if self._flow.goes_on(at=time.monotonic()) else _ASK):
            self._asked_at = time.monotonic()
            self._flow.note_reading()
            self._read_conditions(connection, now=now)
        at = Pass(
            connection=connection,
            me=self._me.id,
            scope=self._me.scope,
            now=now,
            term=self._main_role.term,
            groups=self._groups,
            sources=self._sources,
            rounds=self._rounds,
            cursors=self._cursors,
            workers=self._workers,
            charging=self._charging,
            definitions=self._definitions,
        )
        self._cursors.is_cut_off = False
        moved = self._owner.perform(at, called=self._called, may_begin=self._node.may_begin)
        self._stuffed += moved
        self._flow.note(moved, at=time.monotonic())
        if self._main_role.term is None or self._owner.was_broken_off:
            return moved
        moved_as_main = 0
        try:
            moved_as_main = self._main.perform(
                at, called=self._called, may_begin=self._main_role.may_act, in_flow=self._flow.is_steady
            )
        except FenceRefused as refused:
            if refused.fence != "term":
                raise
            # This node is no longer the main manager, and continues as a manager.
            logger.warning("this manager is no longer the main manager: %s", refused)
            self._node.count_refused(connection)
            self._main_role.lost()
        if self._main.changed or self._main_role.term is None:
            # Groups were given, a run waits for its seeds, or another node is the main manager: read conditions again.
            self._asked_at = float("-inf")
        return moved + moved_as_main

    @property
    def _is_idle(self) -> bool:
        """True if this manager has no duty: it is not the main manager, and knows no group that it owns."""
        has_duties = self._main_role.term or self._groups or self.events.may_own_groups
        return not has_duties and self._asked_at > float("-inf")

    def _notice_events(self) -> None:
        """Make the duties due that the events since the last pass require."""
        is_main = self._main_role.term is not None
        if happened(self.events.control_changed):
            self._definitions.read_again()
            self._main.speed_up()
            self._owner.speed_up()
            self._asked_at = float("-inf")
            if is_main:
                self._main_role.read_nodes_soon()
        if happened(self.events.groups_changed):
            # Groups were handed over, or have to be handed over. The new owner must start immediately.
            self._main.speed_up()
            self._owner.speed_up()
            self._asked_at = float("-inf")
        if happened(self.events.tasks_changed) and is_main:
            # Only the duty that assigns tasks is due now. The other duties keep their intervals.
            self._main.speed_up_one(assign_due_tasks)
            self._asked_at = float("-inf")
        if happened(self.events.limits_changed):
            # Lanes may still sleep as long as the previous limits required. Only a round over all lanes finds them.
            self._rounds.start_fast_round()
        if happened(self.events.membership_changed):
            self._main_role.read_nodes_soon()

    def _read_conditions(self, connection: psycopg.Connection[Any], *, now: dt.datetime) -> None:
        """Read the conditions of the duties, and the groups of this manager."""
        row = connection.execute(_ASK_ALL, {"scope": self._me.scope, "me": self._me.id, "now": now}).fetchone()
        assert row is not None
        groups, for_owner, for_main = row
        self._groups = tuple(GroupHeld(*group) for group in groups)
        self._called = self._owner.called(for_owner) | self._main.called(for_main)
