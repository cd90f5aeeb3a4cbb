"""Compares schedule windows with an oracle that checks every minute."""

import datetime as dt
from zoneinfo import ZoneInfo

from hypothesis import example, given, settings
from hypothesis import strategies as st

from jobs.lifecycle.job import StartMethod
from jobs.lifecycle.schedule import (
    Opening,
    Window,
    closed_opening_of,
    next_opening_of,
    opening_at,
    opening_in_words,
    why_not_windows,
)
from tests.support.tables import each_row

MINUTE, HOUR, DAY = dt.timedelta(minutes=1), dt.timedelta(hours=1), dt.timedelta(days=1)
# Berlin's clocks go forward on 31 March 2030 at 02:00 and back on 27 October at 03:00.
SPRING, AUTUMN = dt.datetime(2030, 3, 31, tzinfo=dt.UTC), dt.datetime(2030, 10, 27, tzinfo=dt.UTC)
NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
ZONES = [
    "UTC",
    "Europe/Berlin",
    "America/New_York",
    "Asia/Kolkata",
    "Australia/Lord_Howe",
    "America/Havana",
    "Africa/Casablanca",
    "Pacific/Chatham",
]


def utc(*args):
    return dt.datetime(*args, tzinfo=dt.UTC)


# --- The oracle: every minute by its clock ---------------------------------------------------------


def matches(window, moment):
    """True if the moment matches by ManifoldCF's rule, field by field."""
    shown = moment.astimezone(ZoneInfo(window.time_zone))
    fields = [
        (window.minutes, shown.minute, 0),
        (window.hours, shown.hour, 0),
        ((window.days_of_month, window.days_of_week), (shown.day, shown.isoweekday()), 1),
        (window.months, shown.month, 1),
        (window.years, shown.year, None),
    ]
    named_below = False
    for named, value, least in fields:
        if isinstance(value, tuple):
            if any(wanted and number not in wanted for wanted, number in zip(named, value, strict=True)):
                return False
            if not any(named) and not named_below and value[0] != least:
                return False
            named_below = named_below or any(named)
            continue
        if named and value not in named:
            return False
        # Minutes always have a minimum. Other fields have one only below the first field that is given.
        if not named and not named_below and least is not None and value != least:
            return False
        named_below = named_below or bool(named)
    return True


def every_opening(window, after, until):
    moment = after.replace(second=0, microsecond=0) + MINUTE
    while moment <= until:
        if matches(window, moment):
            yield moment
        moment += MINUTE


def some_of(least, most):
    return st.lists(st.integers(least, most), max_size=4, unique=True).map(lambda found: tuple(sorted(found)))


WINDOWS = st.builds(
    Window,
    days_of_week=some_of(1, 7),
    days_of_month=st.one_of(st.just(()), some_of(1, 31), st.just((26, 27, 28, 29, 30, 31))),
    months=st.one_of(st.just(()), some_of(1, 12), st.just((3, 4, 10, 11))),
    years=st.one_of(st.just(()), st.just((2030,)), st.just((2029, 2031))),
    hours=st.one_of(st.just(()), some_of(0, 23), st.just((0, 1, 2, 3, 23))),
    minutes=some_of(0, 59),
    time_zone=st.sampled_from(ZONES),
)
FEW_WINDOWS = st.lists(
    st.builds(
        Window,
        hours=some_of(0, 23),
        minutes=st.just((0, 20)),
        time_zone=st.sampled_from(ZONES),
        duration=st.one_of(st.none(), st.integers(1, 600).map(lambda minutes: minutes * MINUTE)),
    ),
    max_size=3,
)
MOMENTS = st.one_of(
    st.integers(0, 365 * 24 * 60).map(lambda minutes: NOON + minutes * MINUTE),
    st.sampled_from(
        [SPRING, AUTUMN, utc(2030, 3, 10, 4), utc(2030, 11, 3, 3), utc(2030, 4, 6, 12), utc(2030, 10, 5, 12)]
    ),
)


@settings(max_examples=200)
@given(window=WINDOWS, after=MOMENTS)
@example(window=Window(hours=(2,), minutes=(30,), time_zone="Europe/Berlin"), after=SPRING)
@example(window=Window(hours=(2,), minutes=(30,), time_zone="Europe/Berlin"), after=AUTUMN)
@example(window=Window(hours=(0, 23), minutes=(0, 30), time_zone="America/Havana"), after=utc(2030, 11, 3, 3))
def test_openings_equal_those_found_by_a_check_of_every_minute(window, after):
    until = after + 2 * DAY

    found = list(window.openings(after=after, until=until))

    expected = list(every_opening(window, after, until))
    assert found == expected
    assert window.last_opening(after=after, until=until) == (expected[-1] if expected else None)


@each_row(
    ("window", "opens"),
    [
        (Window(months=(5,)), utc(2030, 5, 1)),
        (Window(minutes=(15,)), utc(2030, 1, 1, 12, 15)),
        (Window(hours=(22,)), utc(2030, 1, 1, 22)),
        (Window(days_of_week=(1,)), utc(2030, 1, 7)),
        (Window(days_of_month=(29,), months=(2,)), utc(2032, 2, 29)),
        (Window(days_of_month=(29,), months=(2,), days_of_week=(1,)), utc(2044, 2, 29)),
        (Window(years=(2035,)), utc(2035, 1, 1)),
        (Window(days_of_month=(31,), months=(2,)), None),
        (Window(years=(2029,)), None),
        (Window(days_of_month=(31,), months=(3,), years=(2030,), hours=(2,), time_zone="Europe/Berlin"), None),
    ],
    ids=repr,
)
def test_the_next_opening_may_be_years_away(window, opens):
    assert window.next_opening(after=NOON) == opens


# --- Starts of a job -------------------------------------------------------------------------------

NIGHTLY = Window(hours=(22,), duration=8 * HOUR)
TEN = utc(2030, 1, 1, 22)


@each_row(
    ("method", "checked_at", "now", "runs"),
    [
        (StartMethod.WINDOW_BEGIN, NOON, TEN - MINUTE, False),
        (StartMethod.WINDOW_BEGIN, NOON, TEN, True),
        (StartMethod.WINDOW_BEGIN, NOON, TEN + 8 * HOUR - MINUTE, True),
        (StartMethod.WINDOW_BEGIN, NOON, TEN + 8 * HOUR, False),
        # The job was running already, and a missed start is not caught up.
        (StartMethod.WINDOW_BEGIN, TEN + MINUTE, TEN + HOUR, False),
        (StartMethod.WINDOW_INSIDE, TEN + MINUTE, TEN + HOUR, True),
        (StartMethod.WINDOW_INSIDE, TEN + MINUTE, TEN + 8 * HOUR, False),
        (StartMethod.WINDOW_INSIDE, NOON, NOON, False),
        (StartMethod.MANUAL, NOON, TEN, False),
    ],
)
def test_a_window_lets_a_job_run_as_its_start_method_says(method, checked_at, now, runs):
    opening = opening_at([NIGHTLY], method=method, checked_at=checked_at, now=now)

    assert opening == (Opening(TEN, TEN + 8 * HOUR, minimal=False) if runs else None)


def test_a_window_without_an_end_starts_a_job_once():
    start = Window(hours=(22,), days_of_week=(2,))

    for method in (StartMethod.WINDOW_BEGIN, StartMethod.WINDOW_INSIDE):
        late = opening_at([start], method=method, checked_at=NOON, now=TEN + 5 * DAY)
        assert late == Opening(TEN, None, minimal=False)
        assert opening_at([start], method=method, checked_at=TEN, now=TEN + 5 * DAY) is None


def test_the_open_window_that_closes_last_sets_the_kind_of_run():
    long = Window(hours=(21,), duration=12 * HOUR, minimal=True)
    endless = Window(hours=(20,))

    def opening_of(*windows):
        return opening_at(windows, method=StartMethod.WINDOW_BEGIN, checked_at=NOON, now=TEN)

    assert opening_of(NIGHTLY, long) == Opening(TEN - HOUR, TEN + 11 * HOUR, minimal=True)
    assert opening_of(NIGHTLY, endless, long) == Opening(TEN - 2 * HOUR, None, minimal=False)


@settings(max_examples=100)
@given(
    windows=FEW_WINDOWS,
    method=st.sampled_from(StartMethod),
    since=st.integers(0, 1500),
    now=MOMENTS,
)
def test_openings_match_a_check_at_every_minute(windows, method, since, now):
    now = now.replace(second=0, microsecond=0)
    checked_at = now - since * MINUTE

    opening = opening_at(windows, method=method, checked_at=checked_at, now=now)

    ends = []
    for window in windows if method != StartMethod.MANUAL else ():
        inside = method == StartMethod.WINDOW_INSIDE and window.duration is not None
        after = checked_at - window.duration if inside else checked_at
        openings = every_opening(window, after, now)
        ends.extend(began + window.duration if window.duration else None for began in openings)
    ends = [end for end in ends if end is None or now < end]
    assert (opening is not None) == bool(ends)
    if opening is not None:
        assert opening.ends_at == (None if None in ends else max(ends))


@settings(max_examples=100)
@given(
    windows=FEW_WINDOWS,
    since=st.integers(0, 1500),
    now=MOMENTS,
)
def test_the_last_closed_window_matches_a_check_at_every_minute(windows, since, now):
    now = now.replace(second=0, microsecond=0)
    after = now - since * MINUTE

    found = closed_opening_of(windows, after=after, now=now)

    closed = [
        began
        for window in windows
        if window.duration is not None
        for began in every_opening(window, after, now)
        if began + window.duration <= now
    ]
    assert (found[0] if found else None) == max(closed, default=None)


def test_the_next_opening_is_shown_by_its_own_clock():
    berlin = Window(hours=(22,), time_zone="Europe/Berlin")

    opening, window = next_opening_of([Window(hours=(23,)), berlin], after=NOON)

    assert (opening, window) == (TEN - HOUR, berlin)
    assert opening_in_words(opening, window) == "Tue 1 Jan 2030 22:00 Europe/Berlin"
    assert next_opening_of([], after=NOON) is None


# --- Invalid schedules -----------------------------------------------------------------------------


@each_row(
    ("windows", "problems"),
    [
        ([NIGHTLY], {}),
        ([Window()], {0: "has no time"}),
        ([NIGHTLY, Window(days_of_month=(30,), months=(2,))], {1: "never opens"}),
        ([NIGHTLY, Window(hours=(6,), duration=16 * HOUR, minimal=True)], {}),
        ([NIGHTLY, Window(hours=(5,), duration=HOUR)], {1: "overlaps with window 1, on Wed 2 Jan 2030 05:00"}),
        ([Window(hours=(5,), duration=HOUR), NIGHTLY], {1: "overlaps with window 1"}),
        (
            [Window(hours=(5,), days_of_month=(13,)), Window(hours=(5,), days_of_week=(5,))],
            {1: "Fri 13 Sep 2030 05:00"},
        ),
        ([Window(hours=(5,), days_of_week=(1,)), Window(hours=(5,), days_of_week=(2,), minimal=True)], {}),
        ([NIGHTLY, Window(hours=(12,), time_zone="Asia/Tokyo", duration=HOUR)], {1: "overlaps"}),
        ([Window(hours=(1, 2), duration=HOUR)], {}),
        ([Window(hours=(1, 2), duration=HOUR * 2)], {0: "opens again while it is open, on Wed 2 Jan 2030 02:00"}),
    ],
    ids=repr,
)
def test_windows_that_never_open_or_overlap_are_named(windows, problems):
    found = why_not_windows(windows, now=NOON)

    assert found.keys() == problems.keys()
    assert all(part in found[place] for place, part in problems.items())
