"""Proves that durations and windows survive printing and reading, and that invalid text is refused."""

import datetime as dt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.lifecycle.schedule import Window
from jobs.lifecycle.schedule_text import parse_span, parse_window, span_in_words, window_in_words
from tests.support.tables import each_row


def some_of(least, most):
    return st.sets(st.integers(least, most)).map(lambda found: tuple(sorted(found)))


SPANS = st.integers(1, 10**8).map(lambda seconds: dt.timedelta(seconds=seconds))


@given(SPANS)
def test_a_printed_duration_is_read_unchanged(span):
    assert parse_span(span_in_words(span)) == span


@given(
    st.builds(
        Window,
        days_of_week=some_of(1, 7),
        days_of_month=some_of(1, 31),
        months=some_of(1, 12),
        hours=some_of(0, 23),
        minutes=some_of(0, 59),
        duration=st.none() | SPANS,
        time_zone=st.sampled_from(["UTC", "Europe/Berlin"]),
        minimal=st.booleans(),
    )
)
def test_a_printed_window_is_read_unchanged(window):
    assert parse_window(window_in_words(window)) == window


def test_a_window_is_read_from_its_text():
    window = parse_window("days of week 1-5, 7; hours 22 ;open 1 d 90 s; zone Europe/Berlin; minimal")

    assert window == Window(
        days_of_week=(1, 2, 3, 4, 5, 7),
        hours=(22,),
        duration=dt.timedelta(days=1, seconds=90),
        time_zone="Europe/Berlin",
        minimal=True,
    )
    assert window_in_words(window) == "days of week 1-5,7; hours 22; open 1 d 1 min 30 s; zone Europe/Berlin; minimal"


@each_row(
    ("text", "sentence"),
    [
        ("weekdays 1", "is not a part of a window"),
        ("hours ten", "write numbers like"),
        ("hours 10-", "write numbers like"),
        ("hours 5-1", "the smaller number first"),
        ("minutes 0-9999", "the smaller number first"),
        ("years 20300000000", "write numbers like"),
        ("hours 1; hours 2", "given twice"),
        ("hours 1; open long", "not a duration"),
        ("hours 1; open " + "9" * 400 + " d", "too long"),
    ],
)
def test_an_invalid_window_is_refused_with_a_sentence(text, sentence):
    with pytest.raises(ValueError, match=sentence):
        parse_window(text)
