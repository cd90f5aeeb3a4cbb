"""A bin's pace as one moment: the gap after each start, and the bytes that were read."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.throttling.back_off import CURVE
from jobs.throttling.pace import BYTES_WINDOW, Cadence

RATE = 10_000.0


def most_in_a_window(reads, window):
    """The most bytes that began in any window of that length, of (moment, bytes)."""
    return max(sum(size for moment, size in reads if begin <= moment < begin + window) for begin, _ in reads)


def crawl(cadence, sizes, *, waits=None):
    """One request after the other, each as soon as it may start; returns (moment, bytes)."""
    now, reads = 0.0, []
    for size, wait in zip(sizes, waits or [0.0] * len(sizes), strict=True):
        now = max(now, cadence.next_start) + wait
        expected = cadence.expected_bytes
        cadence.start(now=now)
        cadence.read(size, expected=expected)
        reads.append((now, size))
    return reads


@given(
    gap=st.floats(0.001, 5.0),
    waits=st.lists(st.floats(0.0, 3.0), min_size=2, max_size=40),
)
def test_no_two_starts_are_closer_than_the_gap(gap, waits):
    moments = [moment for moment, _ in crawl(Cadence(gap=gap), [1] * len(waits), waits=waits)]

    assert all(later - earlier >= gap * 0.999_999 for earlier, later in pairwise(moments))


@given(sizes=st.lists(st.integers(0, 20_000), min_size=1, max_size=60))
def test_no_window_holds_more_bytes_than_the_limit_allows(sizes):
    reads = crawl(Cadence(bytes_per_second=RATE), sizes)

    assert most_in_a_window(reads, BYTES_WINDOW) <= RATE * BYTES_WINDOW


def test_pages_of_one_size_come_at_the_rate_that_is_allowed():
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


def test_without_limits_requests_start_when_they_like():
    cadence = Cadence()
    cadence.start(now=5.0)

    assert cadence.next_start == 5.0


@pytest.mark.parametrize("level", range(1, len(CURVE)))
def test_the_time_that_a_bin_is_left_alone_doubles_with_each_level(level):
    assert CURVE[level] == 2 * CURVE[level - 1]
