"""Proves on snapshots of clusters that the right manager becomes main at the right time."""

import dataclasses
import datetime as dt
from uuid import UUID

from hypothesis import given
from hypothesis import strategies as st

from nodes.decisions.elect import Elect, Resign, elect, take_over
from nodes.decisions.judge import FailureCause, judge
from nodes.decisions.snapshot import ClusterSeen, NodeSeen, TermSeen
from nodes.lifecycle import NodeKind, NodeStatus
from tests.support.cluster import BEAT, NOON, TIMEOUT, seconds, seen_cluster, seen_node, steady_for

OLDEST = seen_node(started_at=NOON - seconds(3000))
SECOND = seen_node(started_at=NOON - seconds(2000))
YOUNGEST = seen_node(started_at=NOON - seconds(1000))
STEADY = TIMEOUT
NO_TIME = seconds(0)


def silent(node: NodeSeen, *, over_timeout: dt.timedelta = BEAT / 2) -> NodeSeen:
    return dataclasses.replace(node, heartbeat_age=node.timeout + over_timeout)


def test_without_a_main_on_record_the_oldest_live_manager_becomes_main():
    cluster = seen_cluster(OLDEST, SECOND, me=OLDEST, since=NOON)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="cluster", seen_term=7)


def test_after_a_resignation_the_next_main_becomes_main_immediately():
    leaving = seen_node(status=NodeStatus.DRAINING, started_at=NOON - seconds(9000))
    cluster = seen_cluster(leaving, OLDEST, SECOND, me=OLDEST, main=leaving, since=NOON, resigned=True)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="cluster", seen_term=7)


def test_the_manager_of_a_one_shot_command_is_main_immediately():
    alone = seen_node(scope="crawl:1", started_at=NOON)
    cluster = ClusterSeen(
        read_at=NOON, me=alone.id, scope="crawl:1", term=TermSeen(term=0, main_id=None, since=NOON), nodes=(alone,)
    )

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="crawl:1", seen_term=0)


def test_a_live_main_is_not_replaced():
    cluster = seen_cluster(OLDEST, SECOND, me=OLDEST, main=SECOND)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY)) is None


def test_a_silent_main_is_replaced_and_named_as_failed():
    main = silent(SECOND)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    action = elect(cluster, beat=BEAT, is_steady=steady_for(STEADY))

    assert isinstance(action, Elect)
    assert action.replaces is not None
    assert (action.replaces.node_id, action.replaces.cause) == (main.id, FailureCause.SILENT)


def test_an_election_marks_only_the_main_that_it_replaces_as_failed():
    main, other = silent(SECOND), silent(YOUNGEST)
    replacing = elect(seen_cluster(OLDEST, main, other, me=OLDEST, main=main), beat=BEAT, is_steady=steady_for(STEADY))
    without_a_main = elect(seen_cluster(OLDEST, other, me=OLDEST, since=NOON), beat=BEAT, is_steady=steady_for(STEADY))

    assert isinstance(replacing, Elect)
    assert replacing.replaces is not None
    assert replacing.replaces.node_id == main.id
    assert without_a_main == Elect(scope="cluster", seen_term=7)


def test_every_other_manager_replaces_a_silent_main_when_its_turn_comes():
    """The main has been silent for longer than all waiting times of the queue together."""
    main = silent(seen_node(started_at=NOON - seconds(9000)), over_timeout=3 * BEAT)

    for me in (OLDEST, SECOND, YOUNGEST):
        action = elect(
            seen_cluster(main, OLDEST, SECOND, YOUNGEST, me=me, main=main), beat=BEAT, is_steady=steady_for(STEADY)
        )

        assert isinstance(action, Elect)
        assert action.replaces is not None
        assert action.replaces.node_id == main.id


def test_only_a_steady_manager_replaces_a_silent_main_manager():
    main = silent(SECOND)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(TIMEOUT * 0.99)) is None


def test_a_main_whose_process_ended_is_replaced_without_waiting():
    main = dataclasses.replace(SECOND, same_machine_process_gone=True)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    action = elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME))

    assert isinstance(action, Elect)
    assert action.replaces is not None
    assert action.replaces.cause == FailureCause.PROCESS_GONE


def test_the_next_manager_in_line_waits_a_heartbeat_after_the_main_ended():
    """
    The time since the main's last heartbeat does not count: the next manager in line was not yet a candidate then.
    """

    def becomes_main(*, me: NodeSeen, after: dt.timedelta) -> bool:
        main = seen_node(started_at=NOON - seconds(9000), heartbeat_age=after, same_machine_process_gone=True)
        cluster = seen_cluster(main, OLDEST, SECOND, me=me, main=main)
        return elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) is not None

    assert [becomes_main(me=OLDEST, after=BEAT / 10), becomes_main(me=SECOND, after=BEAT / 10)] == [True, False]
    assert not becomes_main(me=SECOND, after=1.9 * BEAT)
    assert becomes_main(me=SECOND, after=2 * BEAT)


def test_a_main_that_has_ended_leaves_a_vacancy_and_no_failed_node():
    ended = seen_node(status=NodeStatus.FAILED)
    cluster = seen_cluster(ended, OLDEST, me=OLDEST, main=ended)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) == Elect(scope="cluster", seen_term=7)


def test_the_manager_of_rank_r_waits_r_heartbeats():
    """So an oldest manager that sends heartbeats but never acts delays the election by a bounded time."""

    def becomes_main(*, me: NodeSeen, after: dt.timedelta) -> bool:
        main = silent(seen_node(started_at=NOON - seconds(9000)), over_timeout=after)
        cluster = seen_cluster(main, OLDEST, SECOND, YOUNGEST, me=me, main=main)
        return elect(cluster, beat=BEAT, is_steady=steady_for(STEADY)) is not None

    assert [becomes_main(me=OLDEST, after=BEAT / 10), becomes_main(me=SECOND, after=BEAT / 10)] == [True, False]
    assert [becomes_main(me=SECOND, after=BEAT), becomes_main(me=YOUNGEST, after=BEAT)] == [True, False]
    assert becomes_main(me=YOUNGEST, after=2 * BEAT)


def test_after_a_night_without_a_cluster_the_oldest_manager_still_wins():
    first, second = seen_node(started_at=NOON - seconds(1)), seen_node(started_at=NOON - seconds(0.5))
    cluster = seen_cluster(first, second, me=second, since=NOON - seconds(30_000))

    assert elect(cluster, beat=BEAT, is_steady=steady_for(NO_TIME)) is None


def test_silent_draining_and_starting_managers_are_not_in_line():
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


def test_only_a_dead_one_shot_can_be_taken_over_by_another_command():
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
def test_one_slow_heartbeat_of_the_main_manager_changes_nothing(
    nodes: tuple[NodeSeen, ...], late: dt.timedelta, me: int
):
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
    """Only differences between times of the database's clock count, whatever time that clock shows."""
    seen = seen_cluster(*nodes, me=nodes[me % len(nodes)], main=nodes[0])
    shifted = dataclasses.replace(
        seen,
        read_at=seen.read_at + ahead,
        term=dataclasses.replace(seen.term, since=seen.term.since + ahead),
        nodes=tuple(dataclasses.replace(node, started_at=node.started_at + ahead) for node in nodes),
    )

    assert elect(seen, beat=BEAT, is_steady=steady_for(STEADY)) == elect(
        shifted, beat=BEAT, is_steady=steady_for(STEADY)
    )
    assert judge(seen, is_steady=steady_for(STEADY)) == judge(shifted, is_steady=steady_for(STEADY))


# --- With a coordination store -------------------------------------------------------------------


def test_only_the_manager_that_zookeeper_chose_becomes_main():
    cluster = seen_cluster(OLDEST, SECOND, YOUNGEST, me=YOUNGEST, since=NOON)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY), is_chosen=False) is None
    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY), is_chosen=True) == Elect(
        scope="cluster", seen_term=7
    )


def test_the_chosen_manager_waits_for_the_main_on_record():
    cluster = seen_cluster(OLDEST, SECOND, me=OLDEST, main=SECOND)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY), is_chosen=True) is None


def test_the_chosen_manager_replaces_a_missed_main_before_its_timeout():
    main = dataclasses.replace(SECOND, is_absent=True, heartbeat_age=0.8 * SECOND.timeout)
    cluster = seen_cluster(OLDEST, main, me=OLDEST, main=main)

    action = elect(cluster, beat=BEAT, is_steady=steady_for(STEADY), is_chosen=True)

    assert isinstance(action, Elect)
    assert action.replaces is not None
    assert (action.replaces.node_id, action.replaces.cause) == (main.id, FailureCause.ABSENT)


def test_a_main_that_is_no_longer_chosen_resigns():
    cluster = seen_cluster(OLDEST, SECOND, me=OLDEST, main=OLDEST)

    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY), is_chosen=False) == Resign(scope="cluster", term=7)
    assert elect(cluster, beat=BEAT, is_steady=steady_for(STEADY), is_chosen=True) is None
