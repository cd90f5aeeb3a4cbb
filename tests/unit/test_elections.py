"""Who is to be main: the decision alone, on snapshots that tests make."""

import dataclasses
import datetime as dt
from uuid import UUID

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, precondition, rule

from nodes.decisions.elect import Elect, Resign, elect, take_over
from nodes.decisions.judge import FailureCause, judge
from nodes.decisions.snapshot import ClusterSeen, NodeSeen, TermSeen
from nodes.lifecycle import NodeKind, NodeStatus
from tests.cluster import BEAT, NOON, TIMEOUT, seconds, seen_cluster, seen_node, steady_for

OLDEST = seen_node(started_at=NOON - seconds(3000))
SECOND = seen_node(started_at=NOON - seconds(2000))
YOUNGEST = seen_node(started_at=NOON - seconds(1000))
STEADY = TIMEOUT
NO_TIME = seconds(0)


def silent(node: NodeSeen, *, over_timeout: dt.timedelta = BEAT / 2) -> NodeSeen:
    return dataclasses.replace(node, heartbeat_age=node.timeout + over_timeout)


def test_without_a_main_on_record_the_oldest_live_manager_takes_the_office_at_once():
    cluster = seen_cluster(OLDEST, SECOND, me=OLDEST, since=NOON)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="cluster", seen_term=7)


def test_after_a_resignation_the_next_main_need_not_wait_for_anything():
    leaving = seen_node(status=NodeStatus.DRAINING, started_at=NOON - seconds(9000))
    cluster = seen_cluster(leaving, OLDEST, SECOND, me=OLDEST, main=leaving, since=NOON, resigned=True)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="cluster", seen_term=7)


def test_the_manager_of_a_one_shot_is_main_at_once():
    alone = seen_node(scope="crawl:1", started_at=NOON)
    cluster = ClusterSeen(
        looked_at=NOON, me=alone.id, scope="crawl:1", term=TermSeen(term=0, main_id=None, since=NOON), nodes=(alone,)
    )

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="crawl:1", seen_term=0)


def test_a_live_main_is_left_alone():
    cluster = seen_cluster(OLDEST, SECOND, me=OLDEST, main=SECOND)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY)) is None


def test_a_silent_main_is_replaced_and_named_as_failed():
    main = silent(SECOND)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    action = elect(cluster, beat=BEAT, is_steady=steady_for(STEADY))

    assert isinstance(action, Elect)
    assert action.replaces is not None
    assert (action.replaces.node_id, action.replaces.cause) == (main.id, FailureCause.SILENT)


def test_nobody_replaces_a_silent_main_who_has_not_beaten_without_a_gap_himself():
    main = silent(SECOND)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(TIMEOUT * 0.99)) is None


def test_a_main_whose_process_is_gone_is_replaced_without_waiting_for_its_silence():
    main = dataclasses.replace(SECOND, same_machine_process_gone=True)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    action = elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME))

    assert isinstance(action, Elect)
    assert action.replaces is not None
    assert action.replaces.cause == FailureCause.PROCESS_GONE


def test_the_next_in_line_gets_a_beat_for_himself_when_the_process_of_the_main_is_gone():
    """However long ago it beat when it died: that was no time of his."""

    def takes_office(*, me: NodeSeen, after: dt.timedelta) -> bool:
        main = seen_node(started_at=NOON - seconds(9000), heartbeat_age=after, same_machine_process_gone=True)
        cluster = seen_cluster(main, OLDEST, SECOND, me=me, main=main)
        return elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) is not None

    assert [takes_office(me=OLDEST, after=BEAT / 10), takes_office(me=SECOND, after=BEAT / 10)] == [True, False]
    assert not takes_office(me=SECOND, after=1.9 * BEAT)
    assert takes_office(me=SECOND, after=2 * BEAT)


def test_a_main_that_has_ended_leaves_a_vacancy_and_nobody_to_fail():
    ended = seen_node(status=NodeStatus.FAILED)
    cluster = seen_cluster(ended, OLDEST, me=OLDEST, main=ended)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="cluster", seen_term=7)


def test_the_manager_of_rank_r_waits_r_beats():
    """So that an oldest manager that beats but never acts holds nobody up for longer than that."""

    def takes_office(*, me: NodeSeen, after: dt.timedelta) -> bool:
        main = silent(seen_node(started_at=NOON - seconds(9000)), over_timeout=after)
        cluster = seen_cluster(main, OLDEST, SECOND, YOUNGEST, me=me, main=main)
        return elect(cluster, beat=BEAT, is_steady=steady_for(STEADY)) is not None

    assert [takes_office(me=OLDEST, after=BEAT / 10), takes_office(me=SECOND, after=BEAT / 10)] == [True, False]
    assert [takes_office(me=SECOND, after=BEAT), takes_office(me=YOUNGEST, after=BEAT)] == [True, False]
    assert takes_office(me=YOUNGEST, after=2 * BEAT)


def test_after_a_night_without_a_cluster_the_youngest_does_not_overtake_the_oldest():
    first, second = seen_node(started_at=NOON - seconds(1)), seen_node(started_at=NOON - seconds(0.5))
    cluster = seen_cluster(first, second, me=second, since=NOON - seconds(30_000))

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) is None


def test_who_is_silent_draining_starting_or_no_manager_is_not_in_line():
    ahead = [
        silent(seen_node(started_at=NOON - seconds(9000))),
        seen_node(started_at=NOON - seconds(9001), status=NodeStatus.DRAINING),
        seen_node(started_at=NOON - seconds(9002), status=NodeStatus.STARTING),
        seen_node(started_at=NOON - seconds(9003), kind=NodeKind.WORKER),
    ]

    for other in ahead:
        assert (
            elect(seen_cluster(*ahead, OLDEST, me=other, since=NOON), beat=BEAT, is_steady=steady_for(STEADY)) is None
        )
    assert (
        elect(seen_cluster(*ahead, OLDEST, me=OLDEST, since=NOON), beat=BEAT, is_steady=steady_for(NO_TIME)) is not None
    )


def test_a_draining_main_resigns():
    main = seen_node(status=NodeStatus.DRAINING)

    assert elect(seen_cluster(main, me=main, main=main), beat=BEAT, is_steady=steady_for(NO_TIME)) == Resign(
        scope="cluster", term=7
    )


def test_a_dead_one_shot_may_be_taken_over_from_outside_and_a_live_one_may_not():
    outsider = seen_node()
    gone = seen_node(same_machine_process_gone=True)
    alive = seen_node()

    assert take_over(seen_cluster(gone, me=outsider, main=gone), is_steady=steady_for(NO_TIME)) is not None
    assert take_over(seen_cluster(alive, me=outsider, main=alive), is_steady=steady_for(STEADY)) is None


# --- Properties ----------------------------------------------------------------------------------

ages = st.timedeltas(min_value=NO_TIME, max_value=3 * TIMEOUT)
clusters = st.lists(ages, min_size=2, max_size=6).map(
    lambda heartbeat_ages: tuple(
        seen_node(id=UUID(int=number + 1), started_at=NOON - seconds(1000 - number), heartbeat_age=age)
        for number, age in enumerate(heartbeat_ages)
    )
)


@given(nodes=clusters, late=st.timedeltas(min_value=NO_TIME, max_value=TIMEOUT), me=st.integers(min_value=0))
def test_one_slow_beat_of_the_main_changes_nothing(nodes: tuple[NodeSeen, ...], late: dt.timedelta, me: int):
    main = dataclasses.replace(nodes[0], heartbeat_age=late)
    nodes = (main, *nodes[1:])
    cluster = seen_cluster(*nodes, me=nodes[me % len(nodes)], main=main)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(100 * TIMEOUT)) is None


@given(
    nodes=clusters,
    me=st.integers(min_value=0),
    ahead=st.timedeltas(min_value=dt.timedelta(days=-400), max_value=dt.timedelta(days=400)),
)
def test_clocks_that_disagree_change_nothing(nodes: tuple[NodeSeen, ...], me: int, ahead: dt.timedelta):
    """Only differences of the one clock count that is the database's, whatever it shows."""
    seen = seen_cluster(*nodes, me=nodes[me % len(nodes)], main=nodes[0])
    shifted = dataclasses.replace(
        seen,
        looked_at=seen.looked_at + ahead,
        term=dataclasses.replace(seen.term, since=seen.term.since + ahead),
        nodes=tuple(dataclasses.replace(node, started_at=node.started_at + ahead) for node in nodes),
    )

    assert elect(seen, beat=BEAT, is_steady=steady_for(STEADY)) == elect(
        shifted, beat=BEAT, is_steady=steady_for(STEADY)
    )
    assert judge(seen, is_steady=steady_for(STEADY)) == judge(shifted, is_steady=steady_for(STEADY))


@dataclasses.dataclass
class _Manager:
    started_at: dt.datetime
    beaten_at: dt.datetime
    steady_since: dt.datetime
    status: NodeStatus = NodeStatus.RUNNING
    is_frozen: bool = False
    was_frozen: bool = False

    def beat(self, now: dt.datetime) -> None:
        if now - self.beaten_at > TIMEOUT / 2:
            self.steady_since = now
        self.beaten_at = now

    def steady_for(self, now: dt.datetime) -> dt.timedelta:
        return NO_TIME if now - self.beaten_at > TIMEOUT / 2 else self.beaten_at - self.steady_since


class Elections(RuleBasedStateMachine):
    """
    Managers that start, freeze, wake, look at any moment and act on what they saw at any later one,
    over a database that is away now and then.

    The store keeps the rules of `nodes.membership.elect`: the term must be the one that was seen,
    the elector must not have failed, and a main that has spoken since is not replaced.
    """

    snapshots = Bundle("snapshots")

    def __init__(self) -> None:
        super().__init__()
        self.now = NOON
        self.managers: dict[UUID, _Manager] = {}
        self.term, self.main, self.since = 0, None, NOON
        self.mains: list[UUID] = []

    @initialize()
    def three_managers_start(self):
        for _ in range(3):
            self.one_starts()

    @precondition(lambda self: len(self.managers) < 6)
    @rule()
    def one_starts(self):
        self.managers[UUID(int=len(self.managers) + 1)] = _Manager(self.now, self.now, self.now)

    @rule()
    def the_main_freezes(self):
        if self.main is not None:
            main = self.managers[self.main]
            main.is_frozen = main.was_frozen = True

    @rule(pick=st.integers(min_value=0))
    def one_wakes(self, pick: int):
        self._pick(pick)[1].is_frozen = False

    @rule(beats=st.integers(min_value=1, max_value=8))
    def time_passes(self, beats: int):
        for _ in range(beats):
            self.now += BEAT
            for manager in self.managers.values():
                self._let_beat(manager)

    @rule(beats=st.integers(min_value=1, max_value=20), pick=st.integers(min_value=0))
    def the_database_was_away_and_one_is_back_first(self, beats: int, pick: int):
        self.now += beats * BEAT
        me, manager = self._pick(pick)
        self._let_beat(manager)
        self.act(self._snapshot(me=me))

    @rule(target=snapshots, pick=st.integers(min_value=0))
    def one_looks(self, pick: int):
        return self._snapshot(me=self._pick(pick)[0])

    @rule()
    def everybody_looks_and_acts(self):
        for me in list(self.managers):
            self.act(self._snapshot(me=me))

    @rule(seen=consumes(snapshots))
    def act(self, seen: ClusterSeen):
        me = self.managers[seen.me]
        action = elect(seen, beat=BEAT, is_steady=steady_for(me.steady_for(self.now)))
        if not isinstance(action, Elect) or action.seen_term != self.term or me.status == NodeStatus.FAILED:
            return
        if self.main is not None:
            old = self.managers[self.main]
            if action.replaces is None or self.now - old.beaten_at <= TIMEOUT:
                return
            old.status = NodeStatus.FAILED
        self.term, self.main, self.since = self.term + 1, seen.me, self.now
        self.mains.append(seen.me)

    @invariant()
    def every_term_has_one_main_and_only_the_last_has_not_failed(self):
        assert len(self.mains) == self.term
        assert [self.managers[main].status == NodeStatus.FAILED for main in self.mains[:-1]] == [True] * (
            len(self.mains) - 1
        )

    @invariant()
    def nobody_is_failed_for_an_outage(self):
        assert all(manager.was_frozen for manager in self.managers.values() if manager.status == NodeStatus.FAILED)

    def _pick(self, pick: int) -> tuple[UUID, _Manager]:
        return list(self.managers.items())[pick % len(self.managers)]

    def _let_beat(self, manager: _Manager) -> None:
        if not manager.is_frozen and manager.status != NodeStatus.FAILED:
            manager.beat(self.now)

    def _snapshot(self, *, me: UUID) -> ClusterSeen:
        nodes = tuple(
            seen_node(
                id=node_id,
                status=manager.status,
                started_at=manager.started_at,
                heartbeat_age=self.now - manager.beaten_at,
            )
            for node_id, manager in self.managers.items()
        )
        term = TermSeen(term=self.term, main_id=self.main, since=self.since)
        return ClusterSeen(looked_at=self.now, me=me, scope="cluster", term=term, nodes=nodes)


TestElections = Elections.TestCase
TestElections.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
