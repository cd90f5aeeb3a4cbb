"""Proves that the figures of freshness goals of several partitions are combined."""

import datetime as dt

from jobs.queries.jobs.freshness import Freshness, GoalLine, SlowHost, add_partitions

NOON = dt.datetime(2030, 1, 31, 12, tzinfo=dt.UTC)
GOAL = {"number": 0, "pattern": "*", "share": 0.9, "within": 3600.0}
UNMEASURED = GoalLine(**GOAL)


def goal(documents, *, achieved, expected=1.0, needs=1.0, gets=0.5, **other):
    return GoalLine(**GOAL | other, documents=documents, achieved=achieved, expected=expected, needs=needs, gets=gets)


def test_shares_are_weighted_by_documents_and_looks_are_added_up():
    there = Freshness([goal(300, achieved=0.5)])

    (line,) = add_partitions(Freshness([goal(100, achieved=0.9)]), {"b": there, "c": Freshness([UNMEASURED])}).goals

    assert (line.documents, line.achieved, line.expected) == (400, 0.6, 1.0)
    assert (line.needs, line.gets, line.is_met) == (2.0, 1.0, False)


def test_a_goal_measured_only_by_another_partition_shows_its_figures():
    (line,) = add_partitions(Freshness([UNMEASURED]), {"b": Freshness([goal(5, achieved=0.9)])}).goals

    assert (line.documents, line.achieved) == (5, 0.9)


def test_figures_of_an_earlier_version_of_a_goal_are_not_added():
    before = Freshness([goal(300, achieved=0.5, share=0.5)])

    (line,) = add_partitions(Freshness([goal(100, achieved=0.9)]), {"b": before}, silent=["c"]).goals

    assert line.documents == 100


def test_the_slowest_hosts_of_all_partitions_come_first_with_their_partition():
    ours = [SlowHost(n, f"a{n}", needs=2.0, allows=1.0) for n in range(9)]
    theirs = [SlowHost(1, "b1", needs=5.0, allows=1.0), SlowHost(2, "b2", needs=1.5, allows=1.0)]

    found = add_partitions(Freshness((), ours, NOON), {"b": Freshness((), theirs)}, silent=["c"])

    assert [(host.name, host.partition) for host in found.slow_hosts] == [
        ("b1", "b"),
        *((f"a{n}", "") for n in range(9)),
    ]
    assert (found.measured_at, found.silent) == (NOON, ["c"])
