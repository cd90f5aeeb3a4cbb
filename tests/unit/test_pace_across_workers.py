"""
Proves that the next worker of a bin waits for bytes already read as long as the previous worker would have waited.
"""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.loops.worker.host_queue import PacedBin, _pace_of
from jobs.throttling.next_start import LONGEST_OWED, LastUse, next_start_at, seconds_owed
from jobs.throttling.pace import Cadence
from tests.support.cluster import NOON, seconds
from tests.support.tables import each_row

rates = st.floats(1.0, 1e9)


def read_pages(sizes, *, rate):
    """Return a cadence under a limit of bytes, which has read pages as early as allowed."""
    cadence, now = Cadence(bytes_per_second=rate), 0.0
    for size in sizes:
        now = max(now, cadence.next_start)
        paid = cadence.price
        cadence.start(now=now)
        cadence.read(size, paid=paid, now=now)
    return cadence


def left_by(cadence):
    """
    Return the state of a bin that is stored when its turn closes with this cadence. Moment 0 of the cadence is noon.
    """
    pace = _pace_of(PacedBin(1, cadence))
    at = [NOON + seconds(moment) for moment in (pace.last_start, pace.paid_until)]
    return LastUse(at[0], at[1], pace.rate)


@given(
    sizes=st.lists(st.integers(0, 1_000_000), min_size=1, max_size=8),
    before=st.floats(1e3, 1e7),
    after=st.floats(1e3, 1e7),
)
def test_workers_wait_equally_long_whether_or_not_they_know_an_edit(sizes, before, after):
    cadence = read_pages(sizes, rate=before)
    state = left_by(cadence)

    cadence.change(gap=0.0, bytes_per_second=after)

    opens = next_start_at(state, gap=0.0, bytes_per_second=after)
    # The next worker does not get the window of the previous worker, and waits for two pages instead.
    waits = cadence.paid_until - cadence.last_start
    # The database rounds to microseconds, and the other rate scales the rounding error.
    lost = 2e-6 * max(1.0, before / after)
    assert (opens - state.last_start_at).total_seconds() == pytest.approx(waits, rel=1e-3, abs=1e-3 + lost)


@given(duration=st.floats(0.0, 1e6), before=rates, rate=rates)
def test_a_byte_debt_keeps_its_amount(duration, before, rate):
    owed = seconds_owed(duration, before=before, rate=rate)

    assert owed <= max(duration, LONGEST_OWED)
    if owed < LONGEST_OWED:
        assert owed * rate == pytest.approx(duration * before)


@given(duration=st.floats(0.0, 1e4), rates=st.lists(st.floats(1e3, 1e6), min_size=2, max_size=5))
def test_earlier_edits_do_not_change_the_effect_of_the_last_edit(duration, rates):
    step_by_step = duration
    for before, rate in pairwise(rates):
        step_by_step = seconds_owed(step_by_step, before=before, rate=rate)

    assert step_by_step == pytest.approx(seconds_owed(duration, before=rates[0], rate=rates[-1]))


@each_row(("rate", "waits"), [(1000.0, 600), (10_000.0, 60), (100.0, 6000)])
def test_looser_and_stricter_limits_of_bytes_apply_immediately(rate, waits):
    state = LastUse(NOON, NOON + seconds(600), 1000.0)

    assert next_start_at(state, gap=0.0, bytes_per_second=rate) == NOON + seconds(waits)


def test_an_edit_does_not_move_the_opening_after_a_lost_worker():
    state = LastUse(NOON, NOON + seconds(10), None)

    assert next_start_at(state, gap=0.0, bytes_per_second=1e9) == NOON + seconds(10)
