"""Proves that documents of a continuous job are recrawled and expire at the right times."""

import datetime as dt

from hypothesis import given
from hypothesis import strategies as st

from jobs.connectors.repository.base import ScheduleBounds
from jobs.lifecycle.document import Action
from jobs.queue.flushing.recrawl import Intervals
from tests.support.tables import each_row

NOW = dt.datetime(2030, 1, 1, tzinfo=dt.UTC)
HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)

spans = st.timedeltas(min_value=dt.timedelta(seconds=1), max_value=dt.timedelta(days=400))


def next_check(intervals, *, unchanged_for=dt.timedelta(), age=None, **bounds):
    at, action = intervals.next_look(
        now=NOW,
        changed_at=NOW - unchanged_for,
        originated_at=None if age is None else NOW - age,
        bounds=ScheduleBounds(**bounds),
    )
    return (None if at is None else at - NOW), action


def test_a_recently_changed_document_is_read_again_after_the_interval():
    assert next_check(Intervals(recrawl_after=HOUR)) == (HOUR, Action.PROCESS)


def test_documents_unchanged_for_long_are_read_less_often():
    assert next_check(Intervals(recrawl_after=HOUR), unchanged_for=10 * DAY) == (5 * DAY, Action.PROCESS)


def test_a_document_is_read_again_after_the_longest_wait_at_the_latest():
    intervals = Intervals(recrawl_after=HOUR, recrawl_at_most=DAY)

    assert next_check(intervals, unchanged_for=10 * DAY) == (DAY, Action.PROCESS)


def test_documents_of_a_job_without_intervals_are_never_read_again():
    assert next_check(Intervals()) == (None, Action.PROCESS)


def test_a_document_expires_by_its_age_if_its_source_names_a_date():
    assert next_check(Intervals(expire_after=DAY), age=20 * HOUR) == (4 * HOUR, Action.EXPIRE)


def test_a_document_without_a_date_expires_by_its_last_fetch():
    assert next_check(Intervals(expire_after=DAY), unchanged_for=20 * HOUR) == (DAY, Action.EXPIRE)


def test_a_date_in_the_future_counts_as_now():
    assert next_check(Intervals(expire_after=DAY), age=-400 * DAY) == (DAY, Action.EXPIRE)


@each_row("changed_every", [None, 7])
def test_a_page_that_is_read_again_never_expires(changed_every):
    intervals = Intervals(recrawl_after=dt.timedelta(seconds=2), expire_after=dt.timedelta(seconds=8))
    now = changed_at = NOW

    for reading in range(100):
        if changed_every and reading % changed_every == 0:
            changed_at = now
        at, action = intervals.next_look(now=now, changed_at=changed_at)
        assert action == Action.PROCESS
        assert at - now <= intervals.expire_after
        now = at


def test_a_page_expires_if_its_next_recrawl_would_be_later():
    assert next_check(Intervals(recrawl_after=DAY, expire_after=HOUR), unchanged_for=10 * DAY) == (HOUR, Action.EXPIRE)


def test_documents_above_the_highest_age_expire_immediately():
    assert next_check(Intervals(expire_after=HOUR), age=DAY) == (dt.timedelta(), Action.EXPIRE)


@each_row(("expire_after", "expected"), [(2 * HOUR, Action.PROCESS), (HOUR, Action.PROCESS), (HOUR / 2, Action.EXPIRE)])
def test_the_earlier_of_recrawl_and_expiry_counts_and_recrawl_wins_ties(expire_after, expected):
    _, action = next_check(Intervals(recrawl_after=HOUR, expire_after=expire_after))

    assert action == expected


def test_the_source_may_request_an_earlier_or_a_later_time():
    intervals = Intervals(recrawl_after=HOUR, expire_after=DAY)

    assert next_check(intervals, recrawl_most=60.0)[0] == dt.timedelta(minutes=1)
    assert next_check(intervals, recrawl_least=7200.0)[0] == 2 * HOUR
    assert next_check(Intervals(expire_after=DAY), expire_least=200000.0)[0] == dt.timedelta(seconds=200000)


@given(after=spans, at_most=spans, unchanged=spans)
def test_the_wait_stays_within_its_bounds_and_grows_with_the_age(after, at_most, unchanged):
    at_most = max(after, at_most)
    intervals = Intervals(recrawl_after=after, recrawl_at_most=at_most)

    young, _ = next_check(intervals, unchanged_for=unchanged)
    old, _ = next_check(intervals, unchanged_for=2 * unchanged)

    assert after <= young <= old <= at_most
