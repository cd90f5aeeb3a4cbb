"""Proves that texts and JSON become typed values of settings, or are refused."""

import datetime as dt

import pytest

from nodes.settings.kinds import Choice, Flag, NotOfThisKind, Seconds, Text, WholeNumber, Words
from tests.support.tables import each_row

NUMBER = WholeNumber(least=1, most=10**18)
SMALL = WholeNumber(least=1, most=10)
DURATION = Seconds(least=0.1, most=60)


@each_row(
    ("text", "expected"), [("1", 1), ("17", 17), (" 17 ", 17), ("+3", 3), ("90071992547409931", 90071992547409931)]
)
def test_whole_numbers_are_read(text, expected):
    assert NUMBER.from_text(text) == expected


@each_row("text", ["a", "1.5", "1e3", "1_000", "-1", "0x10", "\u0663", "nan", " ", "0", "9" * 5000])
def test_a_number_that_is_not_whole_or_out_of_range_is_refused(text):
    with pytest.raises(NotOfThisKind):
        NUMBER.from_text(text)


@each_row("value", [0, 11, 1.0, True, "3", None, [3]])
def test_a_setting_in_json_must_be_a_number_in_range(value):
    assert SMALL.from_json(10) == 10
    with pytest.raises(NotOfThisKind):
        SMALL.from_json(value)


@each_row(("text", "expected"), [("0.25", 0.25), (".5", 0.5), ("3", 3.0), ("1e1", 10.0)])
def test_seconds_become_a_duration(text, expected):
    assert DURATION.from_text(text) == dt.timedelta(seconds=expected)


@each_row("text", ["nan", "inf", "1e999", "-1", "0", "61", "1,5", "two", "5s"])
def test_an_unreasonable_duration_is_refused(text):
    with pytest.raises(NotOfThisKind):
        DURATION.from_text(text)


@each_row("value", [False, "1", None, float("nan"), float("inf"), 0.05, 10**400])
def test_a_duration_in_json_must_be_a_number_in_range(value):
    assert DURATION.from_json(1.5) == dt.timedelta(seconds=1.5)
    with pytest.raises(NotOfThisKind):
        DURATION.from_json(value)


@each_row("seconds", [1, 0.2, 59])
def test_a_duration_survives_a_round_trip_through_json(seconds):
    assert DURATION.as_json(DURATION.from_json(seconds)) == seconds


@each_row(
    ("text", "expected"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("FALSE", False), ("off", False)]
)
def test_flags_are_read(text, expected):
    assert Flag().from_text(text) is expected


@each_row("value", [1, 0, "true", None])
def test_a_flag_in_json_must_be_true_or_false(value):
    assert Flag().from_json(value=True) is True
    with pytest.raises(NotOfThisKind):
        Flag().from_json(value)


def test_an_unknown_spelling_of_a_flag_is_refused():
    with pytest.raises(NotOfThisKind):
        Flag().from_text("maybe")


def test_words_are_separated_by_commas_or_blanks():
    assert Words().from_text("a, b,,c ") == ("a", "b", "c")
    assert Words(apart_by=" ").from_text(" a  b ") == ("a", "b")


@each_row("text", ["ä", "a\nb", "   ", "x" * 11])
def test_a_text_for_an_http_header_must_be_printable_and_short(text):
    with pytest.raises(NotOfThisKind):
        Text(most=10, ascii_only=True).from_text(text)


def test_a_choice_must_be_one_of_its_words_in_upper_or_lower_case():
    assert Choice(words=("INFO", "DEBUG")).from_text("debug ") == "DEBUG"
    with pytest.raises(NotOfThisKind):
        Choice(words=("INFO", "DEBUG")).from_text("loud")
