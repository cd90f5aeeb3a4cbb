"""Proves at which moment a scan of a seed's lanes begins."""

import pytest

from jobs.queue.offering import cursors
from jobs.queue.offering.cursors import LaneCursors
from tests.support.cluster import NOON, seconds

GROUP, SEED, ANOTHER = 1, 10, 11


@pytest.fixture
def clock(monkeypatch):
    """Return the process's clock in a list."""
    now = [1000.0]
    monkeypatch.setattr(cursors.time, "monotonic", lambda: now[0])
    return now


@pytest.fixture
def known(clock):
    """Return the known lanes of two seeds: one seed has a lane that has been ready for a minute, the other has none."""
    known = LaneCursors()
    known.note(GROUP, [SEED, ANOTHER], ahead={str(SEED): str(NOON - seconds(60))}, others={}, now=NOON)
    return known


def begins(known, *groups):
    told = known.parameters(groups)
    return {
        seed: (NOON - ahead, NOON - others)
        for seed, ahead, others in zip(told["cursor_seeds"], told["cursor_ahead"], told["cursor_others"], strict=True)
    }


def test_a_scan_starts_at_the_first_row_or_seconds_ago_if_none_was_ready(known):
    assert begins(known, GROUP) == {SEED: (seconds(60), seconds(5)), ANOTHER: (seconds(5), seconds(5))}


def test_a_recently_ready_row_leaves_room_for_writers_of_older_moments(known):
    known.note(GROUP, [SEED], ahead={str(SEED): str(NOON - seconds(1))}, others={}, now=NOON)

    assert begins(known, GROUP) == {SEED: (seconds(5), seconds(5))}


def test_groups_without_a_reading_are_unknown(known):
    assert begins(known, GROUP + 1) == {}


def test_a_seed_that_was_idle_is_remembered_beside_the_others(known):
    known.note_idle([(GROUP, 12), (GROUP + 1, 13)], now=NOON)

    assert begins(known, GROUP + 1) == {13: (seconds(5), seconds(5))}
    assert set(begins(known, GROUP)) == {SEED, ANOTHER, 12}


def test_everything_is_scanned_from_the_start_after_some_seconds(known, clock):
    clock[0] += 6

    assert begins(known, GROUP) == {}
