"""Proves that the checker notices the absence of each rule: without the rule, a history fails."""

import pytest

from tests.simulation.histories import run_histories
from tests.simulation.rules import NAMES, Rules

# Number of histories. At least one of them must fail. The rarest failure is in one of 250: an election that does not
# wait for a write.
_HISTORIES = 3_000


@pytest.mark.parametrize("rule", NAMES)
def test_some_history_fails_without_the_rule(rule: str):
    summary = run_histories(range(_HISTORIES), rules=Rules().without(rule))

    assert summary.failed is not None
    assert f"--without {rule}" in summary.failed
    assert "VIOLATION" in summary.failed
