"""Each rule that the cluster rests on is switched off once: a witness that does not notice that is not one."""

import pytest

from tests.simulation.histories import run_histories
from tests.simulation.rules import NAMES, Rules

# Of these some history has to go wrong. The rarest, that an election waits for a write, is missed in one of 250.
_HISTORIES = 3_000


@pytest.mark.parametrize("rule", NAMES)
def test_some_history_goes_wrong_without(rule: str):
    summary = run_histories(range(_HISTORIES), rules=Rules().without(rule))

    assert summary.failed is not None
    assert f"--without {rule}" in summary.failed
    assert "VIOLATION" in summary.failed
