"""Proves over random histories that partitions lose no document while slots move, also after restores and losses."""

import os

import pytest

from tests.simulation.partitions import PARTITION_RULES, PartitionRules, replay_partitions, run_partitions

_HISTORIES = int(os.environ.get("SIMULATED_HISTORIES", "300"))
# Number of the history with which the search begins, for rules whose absence seldom makes a history fail.
_FROM = {"settled_before_copies": 450, "existing_stay": 330, "new_series": 950}
_SEARCHED = 200


def test_each_move_and_each_run_ends_and_each_document_is_in_its_partition():
    summary = run_partitions(range(_HISTORIES))

    assert summary.failed is None, summary.failed
    assert min(summary.ends, summary.restored, summary.lost) > _HISTORIES // 10, summary


@pytest.mark.parametrize("rule", PARTITION_RULES)
def test_some_history_of_partitions_fails_without_the_rule(rule: str):
    first = _FROM.get(rule, 0)

    summary = run_partitions(range(first, first + _SEARCHED), rules=PartitionRules().without(rule))

    assert summary.failed is not None
    assert f"--without {rule}" in summary.failed
    assert "VIOLATION" in summary.failed


def test_a_history_of_partitions_is_reproducible():
    assert replay_partitions(7) == replay_partitions(7)
    assert "works by map 1" in replay_partitions(7)
