"""Proves that each schedule gives the right time for the next run of a distributed job."""

import datetime as dt
import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.distributed.engine.schedule import Past, Schedule, back_off, next_start, past_of_group, ran_elsewhere
from tests.support.tables import each_row

BEGUN = 1000.0
SECOND = dt.timedelta(seconds=1)
MINUTE = dt.timedelta(minutes=1)

FRESH = Past(taken_up_at=BEGUN)
LENGTHS = st.floats(0, 50)


def starts_of_runs(schedule, lengths, *, past=FRESH):
    """Return the starts of runs with these durations. Each run begins once it is due and the previous run has ended."""
    starts = []
    for length in lengths:
        due = next_start(schedule, past, initial_delay=dt.timedelta())
        start = max(due, past.ended_at or BEGUN)
        starts.append(start)
        past = past.with_run(planned_at=due, started_at=start, ended_at=start + length, failed=False)
    return starts


def test_the_first_run_waits_one_period_of_its_schedule():
    assert next_start(Schedule.by_delay(MINUTE), FRESH) == BEGUN + 60
    assert next_start(Schedule.by_rate(MINUTE), FRESH) == BEGUN + 60


def test_the_first_run_waits_for_its_initial_delay_if_it_has_one():
    assert next_start(Schedule.by_delay(MINUTE), FRESH, initial_delay=dt.timedelta()) == BEGUN
    assert next_start(Schedule.by_rate(MINUTE), FRESH, initial_delay=3 * MINUTE) == BEGUN + 180


@each_row("schedule", [Schedule.by_delay(dt.timedelta.max), Schedule.by_rate(dt.timedelta.max)])
@each_row("past", [FRESH, FRESH.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN + 1, failed=False)])
def test_the_start_of_a_run_that_is_never_due_is_still_a_valid_date(schedule, past):
    never = next_start(schedule, past, initial_delay=dt.timedelta.max) - BEGUN

    assert dt.datetime.now(dt.UTC) + dt.timedelta(seconds=never) > dt.datetime(2100, 1, 1, tzinfo=dt.UTC)


def test_a_delay_counts_from_the_end_of_a_run():
    past = FRESH.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN + 25, failed=False)

    assert next_start(Schedule.by_delay(MINUTE), past) == BEGUN + 85


def test_a_rate_counts_from_the_planned_start_of_a_run():
    past = FRESH.with_run(planned_at=BEGUN, started_at=BEGUN + 2, ended_at=BEGUN + 25, failed=False)

    assert next_start(Schedule.by_rate(MINUTE), past) == BEGUN + 60


@each_row("schedule", [Schedule.by_delay(MINUTE), Schedule.by_rate(MINUTE)])
def test_a_changed_schedule_applies_to_the_next_run(schedule):
    past = FRESH.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN + 1, failed=False)

    assert next_start(schedule, past) >= BEGUN + 60
    assert next_start(Schedule(schedule.kind, SECOND), past) <= BEGUN + 2


def test_a_run_longer_than_its_period_is_followed_immediately_by_one_run():
    starts = starts_of_runs(Schedule.by_rate(SECOND), [10.5, 0, 0, 0])

    assert starts == [BEGUN, BEGUN + 10.5, BEGUN + 12, BEGUN + 13]


@given(st.lists(LENGTHS, min_size=2, max_size=20), st.floats(0.1, 20))
def test_runs_by_rate_never_come_in_a_burst(lengths, period):
    starts = starts_of_runs(Schedule.by_rate(dt.timedelta(seconds=period)), lengths)

    for earlier, later in itertools.pairwise(starts):
        assert later - earlier >= 0.85 * period - 1e-6


@given(st.integers(2, 50), st.floats(0.1, 20))
def test_short_runs_by_rate_start_exactly_one_period_apart(count, period):
    starts = starts_of_runs(Schedule.by_rate(dt.timedelta(seconds=period)), [period / 100] * count)

    assert starts[-1] - starts[0] == pytest.approx((count - 1) * period, rel=1e-4)


@given(st.lists(LENGTHS, min_size=2, max_size=20), st.floats(0, 20))
def test_runs_by_delay_start_one_delay_after_the_end_of_the_last_run(lengths, delay):
    starts = starts_of_runs(Schedule.by_delay(dt.timedelta(seconds=delay)), lengths)

    for (start, later), length in zip(itertools.pairwise(starts), lengths, strict=False):
        assert later == pytest.approx(start + length + delay, abs=1e-4)


def test_a_failing_job_waits_longer_after_each_failure_in_a_row():
    assert [back_off(failures).total_seconds() for failures in range(5)] == [0, 1, 2, 4, 8]
    assert back_off(10_000) == dt.timedelta(minutes=5)


def test_a_failure_delays_the_next_run_and_never_makes_it_earlier():
    failed = FRESH.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN, failed=True)
    again = failed.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN, failed=True)

    assert next_start(Schedule.by_delay(dt.timedelta()), again) == BEGUN + 2
    assert next_start(Schedule.by_delay(MINUTE), again) == BEGUN + 60


def test_a_success_ends_the_back_off():
    failed = FRESH.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN, failed=True)

    assert failed.with_run(planned_at=BEGUN, started_at=BEGUN, ended_at=BEGUN, failed=False).failures == 0


@each_row(
    ("make", "every", "words"),
    [
        (Schedule.by_delay, -SECOND, "a schedule by delay of -1 s is invalid: it must be 0 or more"),
        (Schedule.by_rate, 0 * SECOND, "a schedule by rate of 0 s is invalid: it must be more than 0"),
    ],
)
def test_an_invalid_schedule_is_refused(make, every, words):
    with pytest.raises(ValueError, match=words):
        make(every)


def run_at(moment, *, lasts=1, failed=False):
    return FRESH.with_run(planned_at=moment, started_at=moment, ended_at=moment + lasts, failed=failed)


def test_the_delay_of_a_group_counts_from_its_item_that_ran_last():
    group = past_of_group([run_at(BEGUN), run_at(BEGUN + 40), FRESH], others=[])

    assert next_start(Schedule.by_rate(MINUTE), group) == BEGUN + 100


def test_a_group_backs_off_as_long_as_its_item_that_failed_most():
    group = past_of_group([run_at(BEGUN, failed=True), run_at(BEGUN + 2)], others=[])

    assert group.failures == 1
    assert group.ended_at == BEGUN + 3


def test_new_items_are_due_together_with_the_earliest_other_item():
    early, late = run_at(BEGUN), run_at(BEGUN + 9)

    assert past_of_group([FRESH], others=[late, early]) == early
    assert past_of_group([FRESH, Past(taken_up_at=BEGUN + 5)], others=[]) == FRESH


def test_a_run_of_another_node_is_distinguished_from_a_local_run():
    schedule = Schedule.by_rate(MINUTE)

    assert not ran_elsewhere(schedule, run_at(BEGUN), BEGUN + 3)
    assert ran_elsewhere(schedule, run_at(BEGUN), BEGUN + 51)
    assert ran_elsewhere(schedule, FRESH, BEGUN - 30)


@each_row("schedule", [Schedule.by_rate(MINUTE), Schedule.by_delay(MINUTE)])
def test_a_run_of_another_node_delays_the_next_local_run(schedule):
    assert next_start(schedule, run_at(BEGUN).with_run_elsewhere(BEGUN + 50)) == BEGUN + 110
