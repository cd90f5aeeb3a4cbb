"""Proves that a scan of the lanes of a seed starts at a moment that skips no ready lane."""

import pytest

from jobs.queue.offering import cursors
from jobs.queue.offering.cursors import LaneCursors
from tests.support.cluster import NOON, seconds

GROUP, SEED, ANOTHER = 1, 10, 11


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that tests advance: a list with the present time."""
    now = [1000.0]
    monkeypatch.setattr(cursors.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def known(clock):
    """Return the known lanes of two seeds. SEED has a lane that has been ready for a minute, and ANOTHER has none."""
    known = LaneCursors()
    known.note(GROUP, [SEED, ANOTHER], ahead={str(SEED): str(NOON - seconds(60))}, others={}, now=NOON)
    return known


def scan_starts(known, *groups):
    parameters = known.parameters(groups)
    return {
        seed: (NOON - ahead, NOON - others)
        for seed, ahead, others in zip(
            parameters["cursor_seeds"], parameters["cursor_ahead"], parameters["cursor_others"], strict=True
        )
    }


def test_a_scan_starts_at_the_first_ready_row_or_some_seconds_ago(known):
    assert scan_starts(known, GROUP) == {SEED: (seconds(60), seconds(5)), ANOTHER: (seconds(5), seconds(5))}


def test_a_scan_starts_before_recent_rows_because_of_slow_writers(known):
    known.note(GROUP, [SEED], ahead={str(SEED): str(NOON - seconds(1))}, others={}, now=NOON)

    assert scan_starts(known, GROUP) == {SEED: (seconds(5), seconds(5))}


def test_nothing_is_known_of_groups_that_were_not_read(known):
    assert scan_starts(known, GROUP + 1) == {}


def test_an_idle_seed_is_added_to_the_known_seeds_of_its_group(known):
    known.note_idle([(GROUP, 12), (GROUP + 1, 13)], now=NOON)

    assert scan_starts(known, GROUP + 1) == {13: (seconds(5), seconds(5))}
    assert set(scan_starts(known, GROUP)) == {SEED, ANOTHER, 12}


def test_everything_is_scanned_from_the_start_after_some_seconds(known, clock):
    clock[0] += 6

    assert scan_starts(known, GROUP) == {}
