"""Compares patterns of bin names with a matcher that tries every possibility."""

import time
from functools import cache

from hypothesis import example, given
from hypothesis import strategies as st

from jobs.throttling.patterns import Patterns, matches
from tests.support.tables import each_row

names = st.text("ab.:A", max_size=10)
patterns = st.text("ab.:*A", max_size=8)


def matches_in_some_way(pattern, name):
    """True if the pattern matches the name. Each way to divide the name among the stars is tried."""

    @cache
    def rest(at, of):
        if at == len(pattern):
            return of == len(name)
        if pattern[at] == "*":
            return any(rest(at + 1, begin) for begin in range(of, len(name) + 1))
        return of < len(name) and pattern[at].lower() == name[of].lower() and rest(at + 1, of + 1)

    return pattern == "" or rest(0, 0)


@given(patterns, names)
@example("a*a", "a")
@example("*a*b*", "ab")
@example("", "a")
def test_a_pattern_matches_if_its_stars_can_match_in_any_way(pattern, name):
    assert matches(pattern, name) == matches_in_some_way(pattern, name)


@given(st.lists(patterns, max_size=6), names)
@example(["*.a", "a.a", "*", "*.a.a"], "a.a.a")
def test_a_set_of_patterns_finds_each_pattern_that_matches(several, name):
    expected = [place for place, pattern in enumerate(several) if matches_in_some_way(pattern, name)]

    assert Patterns(several).places_of(name) == expected


@given(patterns, patterns, names)
@example("*.a", "*.a.a", "a.a.a")
def test_a_pattern_that_matches_a_pattern_matches_all_names_of_that_pattern(wider, narrower, name):
    if matches(wider, narrower) and matches(narrower, name):
        assert matches(wider, name)


@each_row(
    ("pattern", "name", "is_meant"),
    [
        ("*.example.com", "www.example.com", True),
        ("*.example.com", "a.b.example.com", True),
        ("*.example.com", "example.com", False),
        ("*.example.com", "example.com.evil.test", False),
        ("*example.com", "example.com", True),
        ("example.com", "example.com:8080", False),
        ("example.com:*", "example.com:8080", True),
        ("*.EXAMPLE.com", "www.Example.COM", True),
        ("[::1]:*", "[::1]:8000", True),
        ("a?b", "axb", False),
    ],
)
def test_a_pattern_matches_the_expected_host_names(pattern, name, is_meant):
    assert matches(pattern, name) is is_meant
    assert Patterns([pattern]).places_of(name) == ([0] if is_meant else [])


def test_no_pattern_takes_long_to_match():
    begun = time.process_time()

    assert not matches("*a" * 100 + "b", "a" * 10_000)

    assert time.process_time() - begun < 0.5
