"""Proves that one moment keeps the pace of a bin: the gap after each start, and the bytes read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.throttling.back_off import CURVE
from jobs.throttling.pace import BYTES_WINDOW, Cadence
from tests.support.tables import each_row

RATE = 10_000.0


def windows(reads):
    """Yield for each window that begins with a request: the sizes in the window before it, and its own sizes."""
    for begin, _ in reads:
        before = [size for moment, size in reads if begin - BYTES_WINDOW <= moment < begin]
        yield before, [size for moment, size in reads if begin <= moment < begin + BYTES_WINDOW]


def crawl(cadence, sizes, *, waits=None):
    """Make one request after another as early as allowed. Return a list of (moment, bytes)."""
    now, reads = 0.0, []
    for size, wait in zip(sizes, waits or [0.0] * len(sizes), strict=True):
        now = max(now, cadence.next_start) + wait
        paid = cadence.price
        cadence.start(now=now)
        cadence.read(size, paid=paid, now=now)
        reads.append((now, size))
    return reads


@given(
    gap=st.floats(0.001, 5.0),
    waits=st.lists(st.floats(0.0, 3.0), min_size=2, max_size=40),
)
def test_no_two_starts_are_closer_than_the_gap(gap, waits):
    moments = [moment for moment, _ in crawl(Cadence(gap=gap), [1] * len(waits), waits=waits)]

    assert all(later - earlier >= gap * 0.999_999 for earlier, later in pairwise(moments))


@given(sizes=st.lists(st.integers(0, 80_000) | st.integers(0, 100), min_size=1, max_size=60))
def test_a_window_exceeds_its_bytes_only_by_the_growth_of_a_page(sizes):
    for before, within in windows(crawl(Cadence(bytes_per_second=RATE), sizes)):
        surprise = max(within) - min(max(before, default=0), RATE * BYTES_WINDOW / 2)

        assert sum(within) <= RATE * BYTES_WINDOW + max(0, surprise)


@given(sizes=st.lists(st.integers(0, 49_999), max_size=12), times=st.integers(2, 12))
def test_a_site_with_repeated_large_pages_exceeds_its_limit_only_once(sizes, times):
    for before, within in windows(crawl(Cadence(bytes_per_second=RATE), [50_000, *sizes] * times)):
        if 50_000 in before:
            assert sum(within) <= RATE * BYTES_WINDOW


def test_pages_of_one_size_arrive_at_the_allowed_rate():
    reads = crawl(Cadence(bytes_per_second=RATE), [1_000] * 1_000)

    taken = reads[-1][0] - reads[100][0]
    assert 0.97 <= sum(size for _, size in reads[100:-1]) / taken / RATE <= 1.0


def test_a_limit_that_becomes_stricter_counts_from_the_last_start():
    cadence = Cadence(gap=1.0)
    cadence.start(now=10.0)

    cadence.tighten(gap=4.0)
    assert cadence.next_start == 14.0
    cadence.tighten(gap=2.0)
    assert cadence.next_start == 14.0


def test_a_limit_that_becomes_looser_counts_from_the_last_start_too():
    cadence = Cadence(gap=3600.0)
    cadence.start(now=10.0)

    cadence.change(gap=2.0, bytes_per_second=None)

    assert cadence.next_start == 12.0


@each_row(("rate", "opens_at"), [(RATE, 30.0), (10 * RATE, 12.0), (RATE / 10, 210.0), (None, 10.0)])
def test_unpaid_bytes_are_paid_at_the_present_rate(rate, opens_at):
    cadence = Cadence(bytes_per_second=RATE)
    cadence.start(now=10.0)
    cadence.read(RATE * 10, paid=cadence.price, now=10.0)
    assert cadence.next_start == 30.0

    cadence.change(gap=0.0, bytes_per_second=rate)

    assert cadence.next_start == pytest.approx(opens_at)


@each_row("rate", [RATE / 4, RATE, 4 * RATE])
def test_a_page_that_was_on_its_way_when_the_rate_changed_is_paid_for_once(rate):
    edited, always = Cadence(bytes_per_second=RATE), Cadence(bytes_per_second=rate)
    for cadence in (edited, always):
        cadence.read(1000, paid=0.0, now=0.0)
    paid = [cadence.price for cadence in (edited, always)]
    edited.start(now=10.0)
    always.start(now=10.0)

    edited.change(gap=0.0, bytes_per_second=rate)
    edited.read(1000, paid=paid[0], now=10.0)
    always.read(1000, paid=paid[1], now=10.0)

    assert edited.next_start == pytest.approx(always.next_start, rel=0.02)


def test_requests_without_limits_start_at_any_time():
    cadence = Cadence()
    cadence.start(now=5.0)

    assert cadence.next_start == 5.0


@each_row("level", range(1, len(CURVE)))
def test_the_time_that_a_bin_is_left_alone_doubles_with_each_level(level):
    assert CURVE[level] == 2 * CURVE[level - 1]
