"""
Proves the requests that a host can use for freshness goals, after the needs of its other documents and other hosts.
"""

import pytest

from jobs.freshness.shares import SharedLimit, Wait, allowed, left, rate_of


def test_the_rate_of_documents_without_a_goal_is_the_sum_of_their_rates():
    waits = [Wait(60, 10), None, Wait(30, 20), None]

    assert rate_of(waits, is_whole=True) == pytest.approx(1 / 60 + 1 / 30)


def test_the_rate_of_a_long_lane_is_estimated_from_its_first_documents():
    # 10,000 documents are read once an hour, and 100 documents each minute. The first documents are due within 10
    # seconds.
    hourly = [Wait(3600, number * 0.36) for number in range(10_000)]
    by_minute = [Wait(60, number * 0.6) for number in range(100)]
    first = [wait for wait in sorted(hourly + by_minute, key=lambda wait: wait.due_in) if wait.due_in <= 10]

    assert rate_of(first, is_whole=False) == pytest.approx(10_000 / 3600 + 100 / 60, rel=0.1)


def test_other_documents_leave_unneeded_requests_or_a_proportional_part():
    assert left(1.0, others=0.25, own=0.1) == pytest.approx(0.75)
    assert left(1.0, others=3.0, own=1.0) == pytest.approx(0.25)
    assert left(1.0, others=3.0, own=0.0) > 0


def test_a_host_allows_the_least_of_its_limit_and_its_parts_of_shared_limits():
    assert allowed(None, [], own=1.0) is None
    assert allowed(2.0, [SharedLimit(10.0, others=1.0, hosts=1)], own=1.0) == 2.0
    assert allowed(2.0, [SharedLimit(1.0, others=3.0, hosts=3)], own=1.0) == pytest.approx(0.25)
    # Before its first price is known, the need of a host counts as an equal part of the limit.
    assert allowed(None, [SharedLimit(1.0, others=3.0, hosts=3)], own=0.0) == pytest.approx(0.25 / 3.25)


def test_parts_of_a_shared_limit_add_up_to_it():
    needs = [1.0, 2.0, 3.0, 4.0]

    parts = [allowed(None, [SharedLimit(5.0, others=sum(needs) - own, hosts=3)], own=own) for own in needs]

    assert sum(parts) == pytest.approx(5.0)
