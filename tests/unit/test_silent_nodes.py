"""Proves on snapshots of clusters that the main manager marks exactly the silent nodes as failed."""

import dataclasses
import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from nodes.decisions.judge import FailureCause, judge
from nodes.lifecycle import FINAL_STATUSES, LIVE_STATUSES, NodeKind
from tests.support.cluster import TIMEOUT, seconds, seen_cluster, seen_node, steady_for
from tests.support.tables import each_row

MAIN = seen_node()
OTHER_MANAGER = seen_node()
STEADY = TIMEOUT


def seen_worker(**facts):
    return seen_node(kind=NodeKind.WORKER, **facts)


def failed_by_main(*nodes, beaten=STEADY, orphans=()):
    cluster = seen_cluster(MAIN, *nodes, me=MAIN, main=MAIN)
    return [verdict.node_id for verdict in judge(cluster, is_steady=steady_for(beaten), orphans=orphans)]


def test_a_node_that_is_silent_for_longer_than_its_own_timeout_is_failed():
    patient, hasty = (
        seen_worker(heartbeat_age=seconds(11), timeout=seconds(60)),
        seen_worker(heartbeat_age=seconds(11), timeout=seconds(10)),
    )

    assert failed_by_main(patient, hasty) == [hasty.id]


def test_the_reason_says_how_long_it_was_silent():
    (verdict,) = judge(
        seen_cluster(MAIN, seen_worker(heartbeat_age=seconds(11.04)), me=MAIN, main=MAIN), is_steady=steady_for(STEADY)
    )

    assert verdict.reason == "silent for 11.0 s, its timeout is 10 s"


@each_row("kind", NodeKind)
@each_row(
    "fault",
    [
        {"heartbeat_age": seconds(100)},
        {"heartbeat_age": seconds(9), "is_absent": True},
        {"same_machine_process_gone": True},
    ],
    ids=["silent", "absent from ZooKeeper", "process gone"],
)
def test_only_the_main_judges_a_manager_or_a_worker(kind, fault):
    dead = seen_node(kind=kind, **fault)
    seen_by = [
        judge(seen_cluster(MAIN, OTHER_MANAGER, dead, me=me, main=MAIN), is_steady=steady_for(STEADY))
        for me in (MAIN, OTHER_MANAGER)
    ]

    # A worker may have open requests until its timeout, so absence from the store alone does not make it failed.
    is_failed = kind == NodeKind.MANAGER or "is_absent" not in fault
    assert [[verdict.node_id for verdict in verdicts] for verdicts in seen_by] == [[dead.id] if is_failed else [], []]


@each_row("kind", NodeKind)
def test_without_a_main_no_manager_judges(kind):
    silent = seen_node(kind=kind, heartbeat_age=seconds(100))

    assert judge(seen_cluster(OTHER_MANAGER, silent, me=OTHER_MANAGER), is_steady=steady_for(STEADY)) == ()


def test_a_main_that_resigned_judges_no_node():
    silent = seen_worker(heartbeat_age=seconds(100))

    assert judge(seen_cluster(MAIN, silent, me=MAIN, main=MAIN, resigned=True), is_steady=steady_for(STEADY)) == ()


def test_a_restart_of_the_database_marks_no_node_as_failed():
    """All nodes were silent during the restart. The first node that returns must not judge the other nodes yet."""
    others = [seen_worker(heartbeat_age=seconds(300)), seen_worker(heartbeat_age=seconds(290))]

    assert failed_by_main(*others, beaten=seconds(0.5)) == []


def test_a_node_with_a_long_timeout_has_its_whole_timeout_after_an_outage():
    patient = seen_worker(heartbeat_age=seconds(100), timeout=seconds(60))

    assert failed_by_main(patient, beaten=seconds(59)) == []
    assert failed_by_main(patient, beaten=seconds(60)) == [patient.id]


def test_a_local_node_whose_process_ended_fails_immediately():
    gone = seen_worker(heartbeat_age=seconds(0), same_machine_process_gone=True)

    (verdict,) = judge(seen_cluster(MAIN, gone, me=MAIN, main=MAIN), is_steady=steady_for(seconds(0)))

    assert (verdict.node_id, verdict.cause, verdict.reason) == (
        gone.id,
        FailureCause.PROCESS_GONE,
        "its process no longer exists",
    )


ABSENT_FROM_THE_STORE = {"is_absent": True, "timeout": seconds(10)}


def test_a_manager_missing_in_the_store_fails_after_75_percent_of_its_timeout():
    missed, missed_soon = (seen_node(heartbeat_age=seconds(age), **ABSENT_FROM_THE_STORE) for age in (7.6, 7.4))
    heard = seen_node(heartbeat_age=seconds(7.6), timeout=seconds(10))

    (verdict,) = judge(seen_cluster(MAIN, missed, missed_soon, heard, me=MAIN, main=MAIN), is_steady=steady_for(STEADY))

    assert (verdict.node_id, verdict.cause) == (missed.id, FailureCause.ABSENT)
    assert verdict.reason == "gone from the store of coordination, and silent for 7.6 s, its timeout is 10 s"


def test_a_worker_missing_in_the_store_has_its_whole_timeout():
    assert failed_by_main(seen_worker(heartbeat_age=seconds(9.9), **ABSENT_FROM_THE_STORE)) == []


def test_a_node_missing_in_the_store_with_good_heartbeats_is_not_failed():
    assert failed_by_main(seen_node(heartbeat_age=seconds(1), **ABSENT_FROM_THE_STORE)) == []


def test_a_main_with_uneven_heartbeats_marks_no_missing_node_as_failed():
    missed = seen_node(heartbeat_age=seconds(9), **ABSENT_FROM_THE_STORE)

    assert failed_by_main(missed, beaten=seconds(9)) == []


@each_row("status", sorted(LIVE_STATUSES))
def test_every_live_state_is_judged(status):
    silent = seen_worker(heartbeat_age=seconds(100), status=status)

    assert failed_by_main(silent) == [silent.id]


@each_row("status", sorted(FINAL_STATUSES))
def test_an_ended_node_is_not_judged_again(status):
    assert failed_by_main(seen_worker(heartbeat_age=seconds(100), status=status)) == []


def test_the_main_does_not_judge_itself():
    cluster = seen_cluster(dataclasses.replace(MAIN, heartbeat_age=seconds(100)), me=MAIN, main=MAIN)

    assert judge(cluster, is_steady=steady_for(STEADY)) == ()


def test_the_nodes_of_orphaned_scopes_are_also_judged():
    orphan = seen_node(scope="crawl:1", heartbeat_age=seconds(100))

    assert failed_by_main(orphans=[orphan]) == [orphan.id]


@given(
    heartbeat_ages=st.lists(st.timedeltas(min_value=seconds(0), max_value=TIMEOUT), max_size=8),
    beaten=st.timedeltas(min_value=seconds(0), max_value=seconds(1e6)),
)
def test_slow_heartbeats_mark_no_node_as_failed(heartbeat_ages: list[dt.timedelta], beaten: dt.timedelta):
    assert failed_by_main(*(seen_worker(heartbeat_age=age) for age in heartbeat_ages), beaten=beaten) == []


@given(
    ages=st.lists(st.timedeltas(min_value=seconds(0), max_value=seconds(1e6)), max_size=8),
    outage=st.timedeltas(min_value=seconds(0), max_value=seconds(1e6)),
)
def test_an_outage_of_any_length_leaves_every_node_its_timeout_to_return(
    ages: list[dt.timedelta], outage: dt.timedelta
):
    nodes = [seen_worker(heartbeat_age=age + outage) for age in ages]

    assert failed_by_main(*nodes, beaten=TIMEOUT * 0.99) == []
