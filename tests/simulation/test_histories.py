"""Proves over random histories that a cluster never violates its invariants, and recovers after all faults."""

import os

import pytest

from tests.simulation.histories import replay, run_histories, takeover

# Number of histories. The environment can set a larger number. Each seed always gives the same history. The tests run
# parts of them in parallel.
_HISTORIES = int(os.environ.get("SIMULATED_HISTORIES", "500"))
_PARTS = 2


@pytest.mark.parametrize("part", range(_PARTS))
def test_a_cluster_stays_correct_and_recovers_in_time_after_each_fault(part: int):
    summary = run_histories(range(part, _HISTORIES, _PARTS))

    assert summary.failed is None, summary.failed


def test_histories_have_up_to_ten_nodes_and_apply_the_rules():
    summary = run_histories(range(100))

    assert summary.most_nodes == 10
    assert min(summary.elections, summary.marks, summary.moves, summary.refused) > 20, summary


def test_a_history_is_reproducible_and_prints_its_command():
    once, again = replay(7), replay(7)

    assert once == again
    assert 'make simulate ARGS="--replay 7"' in once.text
    assert "is main manager of cluster in term 1" in once.text


def test_a_frozen_main_is_replaced_within_its_timeout_and_two_beats():
    """docs/reliability.md promises this time."""
    assert max(takeover(seed) for seed in range(100)) <= 2
