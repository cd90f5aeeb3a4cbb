"""Environment variables become typed settings, or a sentence."""

import datetime as dt

import pytest

from crawlctl import env

NAME = "CRAWLCTL_EXAMPLE"


@pytest.fixture
def variable(monkeypatch):
    return lambda value: monkeypatch.setenv(NAME, value)


@pytest.mark.parametrize("value", [None, ""])
def test_an_unset_or_empty_variable_means_the_default(monkeypatch, value):
    monkeypatch.delenv(NAME, raising=False) if value is None else monkeypatch.setenv(NAME, value)

    assert env.text(NAME, default="a") == "a"
    assert env.integer(NAME, default=1) == 1
    assert env.number(NAME, default=1.5) == 1.5
    assert env.flag(NAME, default=True) is True
    assert env.seconds(NAME, default=2.5) == dt.timedelta(seconds=2.5)


@pytest.mark.parametrize(
    ("value", "expected"), [("0", 0), ("17", 17), (" 17 ", 17), ("+3", 3), ("90071992547409931", 90071992547409931)]
)
def test_whole_numbers_are_read(variable, value, expected):
    variable(value)

    assert env.integer(NAME, default=5) == expected


@pytest.mark.parametrize("value", ["a", "1.5", "1e3", "1_000", "-1", "0x10", "\u0663", "nan", " "])
def test_what_is_no_whole_number_is_refused(variable, value):
    variable(value)

    with pytest.raises(env.SettingError, match="must be a whole number from 0 up"):
        env.integer(NAME, default=5)


@pytest.mark.parametrize("value", ["0", "11", "9" * 5000])
def test_a_number_outside_of_its_range_is_refused(variable, value):
    variable(value)

    with pytest.raises(env.SettingError, match="from 1 to 10"):
        env.integer(NAME, default=5, least=1, most=10)


@pytest.mark.parametrize(("value", "expected"), [("0.25", 0.25), (".5", 0.5), ("3", 3.0), ("1e3", 1000.0)])
def test_numbers_are_read(variable, value, expected):
    variable(value)

    assert env.number(NAME, default=5) == expected


@pytest.mark.parametrize("value", ["nan", "inf", "1e999", "-0.1", "1,5", "two"])
def test_what_is_no_finite_number_in_range_is_refused(variable, value):
    variable(value)

    with pytest.raises(env.SettingError, match="must be a number from 0 up"):
        env.number(NAME, default=5)


@pytest.mark.parametrize(
    ("value", "expected"), [("1", True), ("Yes", True), ("on", True), ("0", False), ("FALSE", False), ("off", False)]
)
def test_flags_are_read(variable, value, expected):
    variable(value)

    assert env.flag(NAME, default=not expected) is expected


def test_an_unknown_spelling_of_a_flag_is_refused(variable):
    variable("maybe")

    with pytest.raises(env.SettingError, match="yes or on"):
        env.flag(NAME, default=False)


def test_seconds_become_a_duration(variable):
    variable("0.2")

    assert env.seconds(NAME, default=5) == dt.timedelta(milliseconds=200)


@pytest.mark.parametrize("value", ["-1", "inf", "nan", "1e12", "5s"])
def test_what_is_no_sensible_duration_is_refused(variable, value):
    variable(value)

    with pytest.raises(env.SettingError, match="number of seconds"):
        env.seconds(NAME, default=5)


def test_the_sentence_names_the_variable_its_value_and_what_is_right(variable):
    variable("many")

    with pytest.raises(env.SettingError) as refused:
        env.integer(NAME, default=5, least=1)

    assert str(refused.value) == "CRAWLCTL_EXAMPLE is 'many': it must be a whole number from 1 up"
