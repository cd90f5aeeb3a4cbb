"""
Proves that a bin gets the strictest limits of its policies, with their rules by pattern and time.
"""

import datetime as dt
import itertools
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.lifecycle.period import Period
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits, gap_of, strictest
from jobs.throttling.policies import Numbers, PolicyValues, RuleValues
from jobs.throttling.windows import Window
from tests.support.tables import each_row

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
BY_NIGHT = Window(opens=dt.time(22), closes=dt.time(6))
NIGHT = NOON.replace(hour=23)

limits = st.builds(
    Limits,
    requests=st.integers(1, 9),
    gap=st.sampled_from([0.0, 0.25, 1.0, 60.0]),
    bytes_per_second=st.none() | st.integers(1, 9),
    denied=st.booleans(),
)


def policy(*rules, requests=2, min_gap=1.0, **facts):
    rate_gap = facts.pop("rate_gap", None)
    return PolicyValues(id=1, version=1, numbers=Numbers(requests, min_gap, rate_gap), rules=rules, **facts)


# --- Gaps ------------------------------------------------------------------------------------------


@given(starts=st.integers(1, 10_000), period=st.sampled_from(Period))
def test_a_period_never_has_more_starts_than_the_rate_allows(starts, period):
    from_the_first_to_one_too_many = starts * gap_of(starts, period)

    assert from_the_first_to_one_too_many >= period.seconds * (1 - 1e-12)


def test_thirty_starts_a_minute_are_two_seconds_apart():
    assert gap_of(30, Period.MINUTE) == 2.0
    assert gap_of(None, None) == 0.0


@each_row(("min_gap", "rate_gap"), [(2.0, 1.0), (1.0, 2.0)])
def test_the_longer_of_a_gap_and_the_gap_of_a_rate_applies(min_gap, rate_gap):
    assert policy(min_gap=min_gap, rate_gap=rate_gap).for_bin("a.example", NOON).gap == 2.0


# --- The strictest limits --------------------------------------------------------------------------


def test_the_strictest_limits_have_the_least_of_each_limit():
    slow, narrow = Limits(8, 2.0, None), Limits(1, 0.5, 1000.0, denied=True)

    assert strictest([slow, narrow]) == Limits(1, 2.0, 1000.0, denied=True)


def test_without_limits_there_is_no_strictest_limit():
    assert strictest([]) is None


@given(st.lists(limits, min_size=1, max_size=4), st.randoms())
def test_the_strictest_limits_do_not_depend_on_the_order(several, dice):
    shuffled = list(several)
    dice.shuffle(shuffled)

    assert strictest(shuffled) == strictest(several)


@given(limits, limits, limits)
def test_the_strictest_limits_may_be_combined_step_by_step(one, two, three):
    assert strictest([strictest([one, two]), three]) == strictest([one, strictest([two, three])])


@given(st.lists(limits, min_size=1, max_size=4), limits)
def test_an_additional_policy_never_allows_more(several, another):
    before, after = strictest(several), strictest([*several, another])

    assert after.requests <= before.requests
    assert after.gap >= before.gap
    assert after.denied >= before.denied
    assert before.bytes_per_second is None or after.bytes_per_second <= before.bytes_per_second


# --- Rules -----------------------------------------------------------------------------------------


def test_the_first_rule_that_matches_a_host_applies():
    shop, others = RuleValues("shop.example", numbers=Numbers(requests=1)), RuleValues("*", numbers=Numbers(requests=5))

    assert policy(shop, others).for_bin("shop.example", NOON).requests == 1
    assert policy(others, shop).for_bin("shop.example", NOON).requests == 5
    assert policy(shop, others).for_bin("www.example", NOON).requests == 5


def test_a_limit_that_a_rule_leaves_open_comes_from_the_policy():
    rule = RuleValues("a.example", numbers=Numbers(bytes_per_second=500))

    assert policy(rule, requests=3, min_gap=4.0).for_bin("a.example", NOON) == Limits(3, 4.0, 500)


def test_a_rule_holds_only_while_its_window_is_open():
    rule = RuleValues(window=BY_NIGHT, numbers=Numbers(min_gap=0.1))

    assert policy(rule).for_bin("a.example", NOON).gap == 1.0
    assert policy(rule).for_bin("a.example", NIGHT).gap == 0.1


def test_while_the_window_of_a_rule_is_closed_the_next_matching_rule_applies():
    by_night = RuleValues("a.example", window=BY_NIGHT, numbers=Numbers(requests=9))
    always = RuleValues("*", numbers=Numbers(requests=5))

    assert policy(by_night, always).for_bin("a.example", NOON).requests == 5


def test_hosts_with_a_timed_denial_are_closed_until_its_end():
    working = policy(RuleValues("*.example", Window((1, 2, 3, 4, 5), dt.time(9), dt.time(17)), denies=True))
    friday = dt.datetime(2030, 1, 4, 12, tzinfo=dt.UTC)

    closed = working.for_bin("www.example", friday)

    assert (closed.denied, closed.closed_until) == (False, friday.replace(hour=17))
    assert working.for_bin("www.example", friday.replace(hour=17)) == Limits(2, 1.0)
    assert working.for_bin("www.example", friday.replace(day=7)).closed_until == friday.replace(day=7, hour=17)
    assert working.for_bin("www.test", friday) == Limits(2, 1.0)


def test_adjacent_denials_are_merged_and_earlier_rules_interrupt_them():
    morning = RuleValues("", Window(opens=dt.time(6), closes=dt.time(13)), denies=True)
    afternoon = RuleValues("", Window(opens=dt.time(12), closes=dt.time(18)), denies=True)
    lunch = RuleValues("", Window(opens=dt.time(11), closes=dt.time(11, 30)), Numbers(min_gap=9.0))
    at = NOON.replace(hour=7)

    assert policy(morning, afternoon).for_bin("a.example", at).closed_until == NOON.replace(hour=18)
    assert policy(lunch, morning, afternoon).for_bin("a.example", at).closed_until == NOON.replace(hour=11)


@each_row(
    "rules",
    [
        [RuleValues(denies=True)],
        [RuleValues(window=BY_NIGHT, denies=True), RuleValues(denies=True)],
        [
            RuleValues(window=BY_NIGHT, denies=True),
            RuleValues(window=Window(opens=dt.time(6), closes=dt.time(22)), denies=True),
        ],
    ],
)
def test_a_denial_at_all_times_is_permanent(rules):
    limits = policy(*rules).for_bin("a.example", NIGHT)

    assert (limits.denied, limits.closed_until) == (True, None)


def test_the_first_permanent_denial_wins_or_else_the_longest_timed_one():
    earlier, later = Limits(2, 1.0, closed_until=NOON), Limits(2, 1.0, closed_until=NIGHT)

    assert strictest([earlier, Limits(2, 1.0), later]) == later
    assert strictest([later, Limits(2, 1.0, denied=True)]).denied


def test_a_rule_denies_only_its_own_hosts():
    denying = policy(RuleValues("*.example", denies=True))

    assert denying.for_bin("www.example", NOON).denied
    assert not denying.for_bin("www.test", NOON).denied


@each_row("name", ["localhost:8000", "127.0.0.1", "[::1]:81"])
def test_loopback_addresses_can_be_exempt_from_the_gap_only(name):
    spared = policy(RuleValues("127.*", denies=True), skips_loopback=True)

    assert spared.for_bin(name, NOON).gap == 0.0
    assert spared.for_bin(name, NOON).requests == 2
    assert spared.for_bin(name, NOON).denied == name.startswith("127.")
    assert policy().for_bin(name, NOON).gap == 1.0


# --- Totals ----------------------------------------------------------------------------------------


def test_a_policy_without_totals_has_none():
    assert policy().in_total(NOON) is None


def test_a_total_of_starts_leaves_requests_without_limit():
    assert policy(total=Numbers(rate_gap=0.1)).in_total(NOON) == Limits(UNLIMITED_REQUESTS, 0.1)


def test_a_rule_for_all_hosts_changes_the_totals_while_it_is_open():
    rule = RuleValues(window=BY_NIGHT, total=Numbers(requests=100))
    capped = policy(rule, total=Numbers(requests=10, bytes_per_second=7))

    assert capped.in_total(NOON) == Limits(10, 0.0, 7)
    assert capped.in_total(NIGHT) == Limits(100, 0.0, 7)


# --- Times of changes ------------------------------------------------------------------------------

windows = st.builds(
    Window,
    days=st.lists(st.integers(1, 7), min_size=1, unique=True).map(tuple),
    opens=st.sampled_from([dt.time(1, 30), dt.time(8), dt.time(22)]),
    closes=st.sampled_from([dt.time(2, 30), dt.time(18), dt.time(0)]),
    zone=st.sampled_from([ZoneInfo("UTC"), ZoneInfo("Europe/Berlin")]),
)
rules = st.builds(
    RuleValues,
    pattern=st.sampled_from(["", "*.example", "b.example"]),
    window=windows,
    numbers=st.builds(Numbers, requests=st.none() | st.integers(1, 9)),
    denies=st.booleans(),
)


@given(st.lists(rules, min_size=1, max_size=4), st.integers(0, 14 * 24 * 60))
# The first zone is read from its file, which is slow on a busy machine.
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_limits_of_a_policy_stay_until_its_next_change(some, minutes):
    terms = policy(*some)
    at = dt.datetime(2030, 3, 24, tzinfo=dt.UTC) + dt.timedelta(minutes=minutes)

    change = terms.next_change(at)

    assert change > at
    span = (change - at) / 7
    for step, name in itertools.product(range(7), ["a.example", "b.example", "c.test"]):
        assert terms.for_bin(name, at + step * span) == terms.for_bin(name, at)
        assert terms.for_bin(name, change - dt.timedelta(microseconds=1)) == terms.for_bin(name, at)


def test_a_policy_without_windows_never_changes_by_itself():
    assert policy(RuleValues("*.example", numbers=Numbers(requests=1))).next_change(NOON) is None
