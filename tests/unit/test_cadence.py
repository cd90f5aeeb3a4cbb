"""Proves that a cadence keeps the pace of a bin with one stored moment, for both the gap and the bytes per second."""

import random
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.throttling.back_off import CURVE
from jobs.throttling.pace import BYTES_WINDOW, EXPECTED_BYTES, Cadence
from tests.support.tables import each_row

RATE = 10_000.0
A_WINDOW = int(RATE * BYTES_WINDOW)


def windows(reads):
    """For each page, yield the sizes of the pages in the window that begins with it."""
    for begin, _ in reads:
        yield [size for moment, size in reads if begin <= moment < begin + BYTES_WINDOW]


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


@given(sizes=st.lists(st.integers(1, 80_000) | st.integers(1, 100), min_size=1, max_size=60))
def test_a_window_exceeds_the_limit_only_by_its_last_page(sizes):
    for within in windows(crawl(Cadence(bytes_per_second=RATE), sizes)):
        assert sum(within[:-1]) <= A_WINDOW or len(within) == 1


@given(rhythm=st.lists(st.integers(100, 2_000), min_size=1, max_size=8))
def test_no_window_exceeds_the_limit_if_pages_are_much_smaller(rhythm):
    sizes = ([2_000, *rhythm] * 100)[:300]

    assert all(sum(within) <= A_WINDOW for within in windows(crawl(Cadence(bytes_per_second=RATE), sizes)))


@given(size=st.integers(1_000, A_WINDOW // 25))
def test_pages_of_one_size_fill_each_window_without_exceeding_it(size):
    made = list(windows(crawl(Cadence(bytes_per_second=RATE), [size] * 400)))

    assert max(map(sum, made)) <= A_WINDOW
    # The sums of moments have errors, so a page may come at the end of its window.
    assert all(sum(within) > A_WINDOW - 2.001 * size for within in made[100:150])


@given(size=st.integers(A_WINDOW // 24, A_WINDOW // 2))
def test_few_pages_of_one_size_exceed_a_window_by_at_most_half_a_page(size):
    made = list(windows(crawl(Cadence(bytes_per_second=RATE), [size] * 100)))

    assert max(map(sum, made)) <= A_WINDOW + size / 2


@pytest.mark.parametrize(
    ("rate", "smallest", "largest", "share"),
    [
        (20_000, 14_000, 14_600, 0.97),
        (20_000, 14_000, 40_000, 0.97),
        (40_000, 14_000, 14_600, 0.95),
        (40_000, 14_000, 40_000, 0.97),
        (100_000, 14_000, 40_000, 0.95),
    ],
)
def test_a_crawl_uses_nearly_all_of_a_limit_of_bytes(rate, smallest, largest, share):
    drawn = random.Random(1)
    reads = crawl(Cadence(bytes_per_second=rate), [drawn.randint(smallest, largest) for _ in range(2_000)])

    taken = reads[-1][0] - reads[100][0]
    assert share <= sum(size for _, size in reads[100:-1]) / taken / rate <= 1.0


def test_open_requests_reserve_bytes_of_the_window_for_their_pages():
    cadence = Cadence(bytes_per_second=RATE)
    for _ in range(4):
        cadence.read(20_000, paid=0.0, now=0.0)

    cadence.start(now=8.0)

    # Another page would exceed the window if the open request reads the expected number of bytes.
    assert cadence.next_start >= BYTES_WINDOW


def test_a_request_that_read_nothing_costs_nothing():
    cadence = Cadence(bytes_per_second=RATE)
    paid = cadence.price
    cadence.start(now=1.0)
    assert cadence.next_start > 1.0

    cadence.read(0, paid=paid, now=1.5)

    assert cadence.next_start == pytest.approx(1.0)


def test_a_worker_that_takes_over_a_bin_waits_the_time_of_two_usual_pages():
    cadence = Cadence(bytes_per_second=10 * RATE)
    cadence.take_over(opens_at=100.0, used_at=99.0)

    assert cadence.next_start == pytest.approx(100.0 + 2 * EXPECTED_BYTES / (10 * RATE))


@each_row("late", [0.0, 1.0, 4.0, 8.0])
def test_no_window_exceeds_the_limit_if_late_pages_precede_a_takeover(late):
    size, crawled = 2_000, 20.0
    first, second = Cadence(bytes_per_second=RATE), Cadence(bytes_per_second=RATE)
    first.take_over(opens_at=0.0, used_at=None, page_bytes=size)
    first.read(size, paid=size, now=-BYTES_WINDOW)
    starts, reads = [], []
    while first.next_start < crawled:
        now = max(0.0, first.next_start)
        paid = first.price
        first.start(now=now)
        if now < crawled - late:
            first.read(size, paid=paid, now=now)
            reads.append((now, size))
        else:
            starts.append(paid)
    # All pages that were requested meanwhile arrive at the same moment.
    for paid in starts:
        first.read(size, paid=paid, now=crawled)
        reads.append((crawled, size))

    second.take_over(opens_at=max(crawled, first.paid_until), used_at=first.last_start, page_bytes=size)
    now = 0.0
    for _ in range(100):
        now = max(now, second.next_start)
        paid = second.price
        second.start(now=now)
        second.read(size, paid=paid, now=now)
        reads.append((now, size))

    assert max(map(sum, windows(reads))) <= A_WINDOW


def test_a_worker_that_takes_a_bin_over_expects_pages_of_the_usual_size():
    cadence = Cadence(bytes_per_second=RATE)
    cadence.take_over(opens_at=100.0, used_at=99.0, page_bytes=5_000)

    assert cadence.next_start == pytest.approx(100.0 + 2 * 5_000 / RATE)


def test_a_worker_that_takes_a_bin_over_waits_no_longer_than_a_window():
    cadence = Cadence(bytes_per_second=RATE)
    cadence.take_over(opens_at=100.0, used_at=99.0)

    assert cadence.next_start == pytest.approx(99.0 + BYTES_WINDOW)


@pytest.mark.parametrize("used_at", [None, 50.0, 80.0], ids=["never used", "long ago", "used here"])
def test_a_worker_that_knows_the_window_of_a_bin_does_not_wait(used_at):
    cadence = Cadence(bytes_per_second=RATE)
    if used_at == 80.0:
        cadence.start(now=80.0)
        cadence.read(100, paid=cadence.price, now=80.0)

    cadence.take_over(opens_at=85.0, used_at=used_at)

    assert cadence.next_start == 85.0


def test_a_stricter_limit_of_a_bin_counts_from_its_last_start():
    cadence = Cadence(gap=1.0)
    cadence.start(now=10.0)

    cadence.lengthen_gap(gap=4.0)
    assert cadence.next_start == 14.0
    cadence.lengthen_gap(gap=2.0)
    assert cadence.next_start == 14.0


def test_a_looser_limit_of_a_bin_also_counts_from_its_last_start():
    cadence = Cadence(gap=3600.0)
    cadence.start(now=10.0)

    cadence.change(gap=2.0, bytes_per_second=None)

    assert cadence.next_start == 12.0


@pytest.mark.parametrize(("rate", "opens_at"), [(RATE, 20.0), (10 * RATE, 11.0), (RATE / 10, 110.0), (None, 10.0)])
def test_bytes_read_before_an_edit_are_waited_for_at_the_new_rate(rate, opens_at):
    cadence = Cadence(bytes_per_second=RATE)
    cadence.start(now=10.0)
    cadence.read(RATE * 10, paid=cadence.price, now=10.0)
    assert cadence.next_start == pytest.approx(20.0)

    cadence.change(gap=0.0, bytes_per_second=rate)

    assert cadence.next_start == pytest.approx(opens_at)


@each_row("rate", [RATE / 4, RATE, 4 * RATE])
def test_a_page_requested_before_a_rate_change_is_counted_once(rate):
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
def test_the_back_off_time_of_a_bin_doubles_with_each_level(level):
    assert CURVE[level] == 2 * CURVE[level - 1]
