"""Proves that the outside checker of pace finds each breach in an invented log, and nothing in a good one."""

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.chaos.checkers import TOLERANCE, Fetch, Freeze
from tests.support.pace.rules import (
    BYTES_WINDOW,
    EDIT_GRACE,
    FEW_PAGES,
    LeastGap,
    Limits,
    MostBytes,
    MostOpen,
    MostStarts,
    Silence,
    broken,
    over_time,
    share_of_rate,
)
from tests.support.tables import each_row

HERE, THERE = "127.0.0.1:8100", "127.0.0.2:8100"
_numbers = count()


def fetch(start, end=None, *, host=HERE, agent="one", size=0):
    end = start + 0.001 if end is None else end
    return Fetch(f"http://{host}/{next(_numbers)}", host, agent, start, end, 200, size)


def starts(*moments, **facts):
    return [fetch(moment, **facts) for moment in moments]


def starts_of(found):
    """Return the first and the last start of each breach."""
    return [(one.by[0].start, one.by[-1].start) for one in found]


# --- Gaps ----------------------------------------------------------------------------------------


def test_starts_that_are_more_than_20_ms_too_close_are_found():
    made = starts(1.0, 2.0, 2.985, 3.96)

    assert starts_of(broken(made, [LeastGap(seconds=1.0)])) == [(2.985, 3.96)]


def test_each_host_has_its_own_gap_unless_hosts_are_limited_together():
    made = starts(1.0, 3.0) + starts(1.5, host=THERE)

    assert broken(made, [LeastGap(seconds=1.0)]) == []
    together = LeastGap(seconds=1.0, hosts=frozenset({HERE, THERE}))
    assert starts_of(broken(made, [together])) == [(1.0, 1.5)]


def test_a_rule_of_one_host_ignores_requests_to_other_hosts():
    made = starts(1.0, 1.1) + starts(1.0, 1.1, host=THERE)

    assert [one.by[0].host for one in broken(made, [LeastGap(seconds=1.0, hosts=frozenset({THERE}))])] == [THERE]


def test_a_rule_judges_only_requests_wholly_within_its_time():
    made = starts(0.9, 1.0, 1.1, 1.9, 2.0)

    assert starts_of(broken(made, [LeastGap(seconds=0.5, since=1.0, until=2.0)])) == [(1.0, 1.1)]


# --- Windows of starts ---------------------------------------------------------------------------


def test_a_sliding_window_finds_what_fixed_minutes_hide():
    made = starts(*(place / 2 for place in range(20)))

    assert broken(made, [MostStarts(most=10, within=5.0)]) == []
    assert len(broken(starts(*(place * 0.48 for place in range(20))), [MostStarts(most=10, within=5.0)])) == 10


def test_starts_may_be_close_if_only_a_window_limits_them():
    made = starts(0.0, 0.0, 0.0, 60.0, 60.0, 60.0)

    assert broken(made, [MostStarts(most=3, within=60.0)]) == []
    assert len(broken(made, [MostStarts(most=2, within=60.0)])) == 2


@given(st.lists(st.integers(0, 400), max_size=40), st.integers(1, 5), st.integers(1, 100))
def test_the_fast_check_of_starts_equals_a_count_of_every_window(ticks, most, within):
    moments = sorted(tick / 10 for tick in ticks)
    found = broken(starts(*moments), [MostStarts(most=most, within=within / 10)])

    # Check only windows that begin with a start, because no other window holds more starts.
    length = within / 10 - TOLERANCE
    counts = [
        sum(begin <= moment < begin + length for moment in moments[place:]) for place, begin in enumerate(moments)
    ]

    assert bool(found) == any(counted > most for counted in counts)


# --- Open requests -------------------------------------------------------------------------------


def test_more_open_requests_than_the_limit_are_found():
    made = [fetch(1.0, 3.0), fetch(2.0, 4.0), fetch(2.5, 5.0), fetch(3.0, 6.0)]

    assert starts_of(broken(made, [MostOpen(most=2)])) == [(1.0, 2.5), (2.0, 3.0)]
    assert broken(made, [MostOpen(most=3)]) == []


def test_requests_sent_by_a_frozen_process_are_not_counted():
    made = [fetch(1.0, 9.0), fetch(2.0, 3.0, agent="two")]

    assert broken(made, [MostOpen(most=1)], freezes=[Freeze("one", 1.5, 8.0)]) == []
    assert len(broken(made, [MostOpen(most=1)], freezes=[Freeze("one", 2.5, 8.0)])) == 1


def test_a_request_without_an_end_stays_open():
    assert len(broken([fetch(1.0, float("inf")), fetch(500.0)], [MostOpen(most=1)])) == 1


# --- Bytes ---------------------------------------------------------------------------------------


def test_bytes_are_counted_over_any_ten_seconds():
    steady = [fetch(place, place + 0.5, size=100) for place in range(40)]
    hasty = [fetch(place * 0.9, place * 0.9 + 0.5, size=100) for place in range(40)]

    assert broken(steady, [MostBytes(per_second=100.0)]) == []
    assert broken(hasty, [MostBytes(per_second=100.0)]) != []


def test_bytes_count_when_they_were_sent_and_not_when_they_were_requested():
    asked_evenly = [fetch(place * 6.0, 20.0, size=600) for place in range(3)]

    assert len(broken(asked_evenly, [MostBytes(per_second=100.0)])) == 1


def test_a_window_of_few_pages_may_exceed_its_limit_by_part_of_a_page():
    rule = MostBytes(per_second=100.0)

    assert broken([fetch(1.0, size=900), fetch(2.0, size=150)], [rule]) == []
    assert len(broken([fetch(1.0, size=1000), fetch(2.0, size=150)], [rule])) == 1


def test_a_window_of_many_pages_may_not_exceed_its_limit():
    full = [fetch(place / 10, size=20) for place in range(50)]

    assert broken(full, [MostBytes(per_second=100.0)]) == []
    assert len(broken([*full, fetch(6.0, size=1)], [MostBytes(per_second=100.0)])) == 1


def test_one_page_alone_may_be_larger_than_a_window():
    rule = MostBytes(per_second=100.0)

    assert broken([fetch(1.0, size=5000)], [rule]) == []
    assert broken([fetch(1.0, size=5000), fetch(1.0 + BYTES_WINDOW, size=5000)], [rule]) == []
    assert len(broken([fetch(1.0, size=5000), fetch(5.0, size=1)], [rule])) == 1


@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 50)), max_size=30), st.integers(1, 20))
def test_the_fast_check_of_bytes_equals_the_sum_of_every_window(answers, per_second):
    made = [fetch(tick / 10, tick / 10, size=size) for tick, size in sorted(answers)]

    def is_too_much(begin, last):
        window = [one.size for one in made[begin : last + 1]]
        most = per_second * BYTES_WINDOW
        more = window[-1] - 1 if most < FEW_PAGES * max(window) else 0
        return made[last].end - made[begin].end < BYTES_WINDOW - TOLERANCE and sum(window) > most + more

    windows = [(begin, last) for last in range(len(made)) for begin in range(last)]
    assert bool(broken(made, [MostBytes(per_second=per_second)])) == any(is_too_much(*window) for window in windows)


# --- Silence -------------------------------------------------------------------------------------


def test_a_request_to_a_host_that_backs_off_is_found():
    rule = Silence(since=1.0, until=3.0)

    assert broken(starts(0.99, 3.0), [rule]) == []
    assert starts_of(broken(starts(0.5, 2.0), [rule])) == [(2.0, 2.0)]


# --- Policies ------------------------------------------------------------------------------------


def test_every_limit_of_a_policy_is_a_rule():
    limits = Limits(gap=0.5, open_requests=1, starts=(2, 1.0), bytes_per_second=10.0)
    made = [fetch(1.0, 1.3, size=90), fetch(1.2, 1.4, size=90), fetch(1.4, 1.5, size=90)]

    assert {type(one.rule) for one in broken(made, limits.rules())} == {LeastGap, MostOpen, MostStarts, MostBytes}
    assert Limits().rules() == []


@each_row(("before", "after"), [(0.5, 1.0), (1.0, 0.5)], ids=["tightened", "loosened"])
def test_old_or_new_limits_hold_during_an_edit(before, after):
    rules = over_time([(0.0, Limits(gap=before)), (100.0, Limits(gap=after))])

    def are_broken(first, gap):
        return bool(broken(starts(first, first + gap), rules))

    assert are_broken(90.0, before - 0.1)
    assert not are_broken(90.0, before)
    under_way = 100.0 + EDIT_GRACE / 2
    assert are_broken(under_way, 0.4)
    assert not are_broken(under_way, 0.5)
    assert are_broken(100.0 + EDIT_GRACE, after - 0.1)
    assert not are_broken(100.0 + EDIT_GRACE, after)


def test_the_used_share_of_a_rate_is_computed():
    assert share_of_rate(starts(*range(100)), gap=1.0, since=20.0, until=80.0) == pytest.approx(1.0)
    assert share_of_rate(starts(*range(0, 100, 2)), gap=1.0, since=20.0, until=80.0) == pytest.approx(0.5)
    assert share_of_rate(starts(*range(50)), gap=1.0, since=20.0, until=80.0) < 0.5
    assert share_of_rate([], gap=1.0, since=20.0, until=80.0) == 0.0


def test_a_share_is_the_same_wherever_its_minute_begins():
    made = starts(*(2.01 * number for number in range(60)))
    shares = [share_of_rate(made, gap=2.0, since=20 + place / 10, until=80 + place / 10) for place in range(20)]

    assert shares == pytest.approx([2 / 2.01] * 20)
