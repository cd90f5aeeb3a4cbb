"""Compares the weekly times of a rule with the clock at every minute."""

import datetime as dt
from zoneinfo import ZoneInfo

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.throttling.windows import ALWAYS, Window, covering, parts_of_the_week
from tests.support.tables import each_row

MINUTE, HOUR, DAY = dt.timedelta(minutes=1), dt.timedelta(hours=1), dt.timedelta(days=1)
BERLIN = ZoneInfo("Europe/Berlin")
# Weeks of clock changes in Berlin, New York, Lord Howe (by half an hour), Havana (at midnight) and Samoa, which skipped
# Friday, 30 December 2011.
WEEKS = [
    ("UTC", dt.datetime(2030, 1, 1, tzinfo=dt.UTC)),
    ("Europe/Berlin", dt.datetime(2030, 3, 28, tzinfo=dt.UTC)),
    ("Europe/Berlin", dt.datetime(2030, 10, 25, tzinfo=dt.UTC)),
    ("America/New_York", dt.datetime(2030, 3, 8, tzinfo=dt.UTC)),
    ("Australia/Lord_Howe", dt.datetime(2030, 4, 5, tzinfo=dt.UTC)),
    ("America/Havana", dt.datetime(2024, 3, 8, tzinfo=dt.UTC)),
    ("America/Havana", dt.datetime(2024, 11, 1, tzinfo=dt.UTC)),
    ("Pacific/Apia", dt.datetime(2011, 12, 27, tzinfo=dt.UTC)),
]

times = st.times().map(lambda time: time.replace(second=0, microsecond=0))
days = st.lists(st.integers(1, 7), min_size=1, unique=True).map(tuple)
spans = st.none() | st.tuples(times, times).filter(lambda span: span[0] != span[1])


def make(zone, days, span):
    opens, closes = span or (None, None)
    return Window(days=days, opens=opens, closes=closes, zone=ZoneInfo(zone))


def is_open_by_clock(window, at):
    """True if the clock shows a time in the window. Steps back in minutes of local time until an opening."""
    face = at.astimezone(window.zone).replace(tzinfo=None, fold=0)
    if window.opens is None:
        return face.isoweekday() in window.days
    while True:
        if face.time() == window.closes:
            return False
        if face.time() == window.opens:
            return face.isoweekday() in window.days
        face -= MINUTE


@given(st.sampled_from(WEEKS), days, spans, st.integers(0, 7 * 24 * 60))
@settings(max_examples=300, suppress_health_check=[HealthCheck.too_slow])
def test_a_window_is_open_while_the_clock_of_its_zone_shows_its_times(week, some_days, span, minutes):
    zone, begin = week
    window = make(zone, some_days, span)

    assert window.is_open(begin + minutes * MINUTE) == is_open_by_clock(window, begin + minutes * MINUTE)


@given(st.sampled_from(WEEKS), days, spans, st.integers(0, 7 * 24 * 60))
@settings(max_examples=200, suppress_health_check=[HealthCheck.too_slow])
def test_a_window_keeps_its_state_until_its_next_change(week, some_days, span, minutes):
    zone, begin = week
    window = make(zone, some_days, span)
    at = begin + minutes * MINUTE

    change = window.next_change(at)

    if change is None:
        assert (span, len(some_days)) == (None, 7)
        return
    was_open = window.is_open(at)
    assert window.is_open(change) != was_open
    assert window.is_open(change - dt.timedelta(microseconds=1)) == was_open
    # Times are whole minutes, and clocks are changed at whole minutes.
    minutes_between = range(int((change - at) / MINUTE))
    assert all(window.is_open(at + minute * MINUTE) == was_open for minute in minutes_between)


def test_a_window_past_midnight_belongs_to_the_day_on_which_it_opens():
    friday_night = Window(days=(5,), opens=dt.time(22), closes=dt.time(6))
    friday = dt.datetime(2030, 1, 4, tzinfo=dt.UTC)

    assert not friday_night.is_open(friday + 5 * HOUR)
    assert friday_night.is_open(friday + 23 * HOUR)
    assert friday_night.is_open(friday + 29 * HOUR)
    assert not friday_night.is_open(friday + 30 * HOUR)


def test_a_window_may_close_at_midnight():
    evening = Window(opens=dt.time(22), closes=dt.time(0))
    midnight = dt.datetime(2030, 1, 2, tzinfo=dt.UTC)

    assert evening.is_open(midnight - MINUTE)
    assert not evening.is_open(midnight)
    assert evening.next_change(midnight - HOUR) == midnight


def test_an_hour_that_clocks_skip_is_in_no_window_and_a_repeated_one_twice():
    at_night = Window(opens=dt.time(2), closes=dt.time(3), zone=BERLIN)
    spring, autumn = dt.datetime(2030, 3, 31, tzinfo=dt.UTC), dt.datetime(2030, 10, 27, tzinfo=dt.UTC)

    assert not any(at_night.is_open(spring + minute * MINUTE) for minute in range(4 * 60))
    assert sum(at_night.is_open(autumn + minute * MINUTE) for minute in range(4 * 60)) == 120


def test_a_window_waits_a_week_more_if_a_country_skipped_its_day():
    fridays = Window(days=(5,), zone=ZoneInfo("Pacific/Apia"))
    thursday = dt.datetime(2011, 12, 29, 12, tzinfo=ZoneInfo("Pacific/Apia"))

    assert fridays.next_change(thursday).astimezone(fridays.zone).date() == dt.date(2012, 1, 6)


@each_row("at", [dt.datetime(2030, 3, 31, 1, tzinfo=dt.UTC)])
def test_an_always_open_window_never_changes(at):
    assert ALWAYS.is_open(at)
    assert ALWAYS.next_change(at) is None


@given(st.sampled_from(WEEKS), days, spans, st.integers(0, 7 * 24 * 60))
def test_the_last_change_is_the_latest_one_before_the_moment(week, days, span, minute):
    zone, begin = week
    window = make(zone, days, span)
    at = begin + minute * MINUTE
    last = window.last_change(at)

    if last is None:
        assert window.next_change(at) is None or window.next_change(at - 15 * DAY) > at
    else:
        assert last <= at
        assert window.is_open(last) != window.is_open(last - dt.timedelta(seconds=1))
        following = window.next_change(last)
        assert following is None or following > at


# --- Overlapping windows ---------------------------------------------------------------------------

quarters = st.builds(dt.time, st.integers(0, 23), st.sampled_from([0, 15, 30, 45]))
rounded = st.none() | st.tuples(quarters, quarters).filter(lambda span: span[0] != span[1])
some_windows = st.builds(lambda days, span: make("UTC", days, span), days, rounded)


def covered_by(window, others):
    own, *theirs = parts_of_the_week([window, *others])
    return covering(own, theirs)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(some_windows, st.lists(some_windows, max_size=4))
def test_a_window_is_covered_if_others_are_open_whenever_it_is(window, others):
    monday = dt.datetime(2030, 1, 7, tzinfo=dt.UTC)
    moments = [at for at in (monday + quarter * 15 * MINUTE for quarter in range(7 * 96)) if window.is_open(at)]

    found = covered_by(window, others)

    assert (found is not None) == all(any(other.is_open(at) for other in others) for at in moments)
    if found is not None:
        assert all(any(others[place].is_open(at) for place in found) for at in moments)


def test_the_fewest_windows_that_cover_another_are_named():
    morning, evening = Window(opens=dt.time(0), closes=dt.time(12)), Window(opens=dt.time(12), closes=dt.time(0))

    assert covered_by(ALWAYS, [morning, evening]) == [0, 1]
    assert covered_by(ALWAYS, [morning, evening, ALWAYS]) == [2]
    assert covered_by(ALWAYS, [morning]) is None


def test_a_window_past_midnight_is_covered_only_with_its_second_day():
    sunday_night = Window(days=(7,), opens=dt.time(22), closes=dt.time(6))

    assert covered_by(sunday_night, [Window(days=(7, 1))]) == [0]
    assert covered_by(sunday_night, [Window(days=(7,))]) is None
