"""Proves that a ledger of runs reports each item that two runs held at the same time."""

from tests.support.fleet import Run, conflicts_in


def run(node, *items, began_at, ended_at=None, **facts):
    return Run(node, "reports", frozenset(items), began_at=began_at, ended_at=ended_at, **facts)


def conflicting_items(runs):
    """Return each conflict as (item, first run, second run)."""
    return {(item, one.node, other.node) for _job, item, one, other in conflicts_in(runs)}


def test_consecutive_runs_do_not_overlap():
    assert conflicting_items([run("a", "x", began_at=1, ended_at=2), run("b", "x", began_at=2, ended_at=3)]) == set()


def test_concurrent_runs_conflict_over_the_items_that_both_held():
    runs = [run("a", "x", "y", began_at=1, ended_at=3), run("b", "y", "z", began_at=2, ended_at=4)]

    assert conflicting_items(runs) == {("y", "a", "b")}


def test_each_run_within_a_longer_run_conflicts_with_it():
    runs = [
        run("b", "x", began_at=2, ended_at=3),
        run("a", "x", began_at=1, ended_at=9),
        run("c", "x", began_at=5, ended_at=6),
    ]

    assert conflicting_items(runs) == {("x", "a", "b"), ("x", "a", "c")}


def test_a_run_without_an_end_lasts_until_the_last_sign_of_life():
    later = run("b", "x", began_at=5, ended_at=6)

    assert conflicting_items([run("a", "x", began_at=1, heard_at=4), later]) == set()
    assert conflicting_items([run("a", "x", began_at=1, heard_at=7), later]) == {("x", "a", "b")}


def test_a_run_that_never_confirmed_its_items_held_no_items():
    never = run("b", "x", began_at=2, ended_at=float("-inf"))

    assert conflicting_items([run("a", "x", began_at=1, ended_at=3), never]) == set()


def test_runs_of_different_jobs_do_not_conflict():
    other = Run("b", "mails", frozenset({"x"}), began_at=1, ended_at=2)

    assert conflicting_items([run("a", "x", began_at=1, ended_at=2), other]) == set()
