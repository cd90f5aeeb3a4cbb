"""Proves the rates that a meter measures, and that it reports no rate before it has enough samples."""

import pytest

from jobs.queries.meter import STEP, STEPS, Meter, add_histories, present, smoothed

JOB = 7


class Clock:
    def __init__(self):
        self.now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def meter(clock):
    return Meter(clock=clock)


def watch(meter, clock, *, seconds, rate, start=0, run_no=1):
    """Take a sample once a second for `seconds`, and return the number of processed documents at the end."""
    for second in range(seconds + 1):
        meter.observe(JOB, start + rate * second, series=run_no)
        clock.now += 1
    clock.now -= 1
    return start + rate * seconds


def test_a_rate_is_not_known_before_there_are_two_samples(meter):
    assert meter.rate(JOB) is None

    meter.observe(JOB, 500, series=1)

    assert meter.rate(JOB) is None


def test_a_rate_covers_only_the_last_seconds(meter, clock):
    done = watch(meter, clock, seconds=20, rate=100)
    clock.now += 1
    watch(meter, clock, seconds=20, rate=10, start=done)

    assert meter.rate(JOB) == 10


def test_a_rate_without_a_recent_sample_is_unknown(meter, clock):
    watch(meter, clock, seconds=20, rate=100)

    clock.now += 60

    assert meter.rate(JOB) is None


def test_the_history_has_documents_of_a_new_run_before_its_first_sample(meter, clock):
    watch(meter, clock, seconds=20, rate=0, start=60)
    clock.now += 1

    meter.observe(JOB, 5, series=2)

    assert sum(rate for rate in meter.history(JOB) if rate) > 0


def test_a_slow_count_is_measured_over_many_of_its_steps(meter, clock):
    for second in range(120):
        meter.observe(JOB, second // 7)
        clock.now += 1
        if second > 90:
            assert meter.rate(JOB, over=70) == pytest.approx(1 / 7, rel=0.15)


def test_the_next_run_keeps_the_history_of_the_last_run(meter, clock):
    watch(meter, clock, seconds=int(4 * STEP), rate=100)
    clock.now += 1

    watch(meter, clock, seconds=int(2 * STEP), rate=10, run_no=2)

    history = meter.history(JOB)
    assert history[-2:] == pytest.approx([10, 10])
    assert history[-6:-3] == pytest.approx([100] * 3, rel=0.25)


def test_the_present_rate_never_exceeds_the_highest_rate_of_the_chart(meter, clock):
    for second, done in enumerate([0, 50, 60, 70, 170, 180, 190, 420, 430, 440, 450, 900]):
        clock.now = 1000.0 + second
        meter.observe(JOB, done)

        history = smoothed(meter.history(JOB))

        assert (present(history) or 0.0) <= max((rate for rate in history if rate is not None), default=0.0)


def test_a_history_shows_the_rate_only_between_samples(meter, clock):
    watch(meter, clock, seconds=int(4 * STEP), rate=50)

    history = meter.history(JOB)

    assert len(history) == STEPS
    assert history[-4:] == pytest.approx([50] * 4)
    assert history[: STEPS - 5] == [None] * (STEPS - 5)


def test_an_incomplete_step_of_the_history_shows_its_full_rate(meter, clock):
    watch(meter, clock, seconds=int(2 * STEP), rate=50)
    clock.now += 2.0

    assert [rate for rate in meter.history(JOB) if rate is not None] == pytest.approx([50] * 3)


def test_histories_add_up_step_by_step():
    known, unknown = [1.0] * STEPS, [None] * STEPS

    assert add_histories([known, known, unknown]) == [2.0] * STEPS
    assert add_histories([unknown]) == unknown


def test_a_rate_uses_the_moments_of_counts_and_not_of_reading_them(meter, clock):
    for seconds in range(0, 21, 5):
        # A turn of five requests closes every five seconds, and the page reads the count between two such moments.
        clock.now = 1000.0 + seconds + 3
        meter.observe(JOB, seconds, age=3.0)
        clock.now += 1
        meter.observe(JOB, seconds, age=4.0)

    assert meter.rate(JOB) == pytest.approx(1.0)


def test_only_recently_read_entries_of_very_many_are_kept(meter, clock):
    for key in range(500):
        meter.observe(key, 1)
    clock.now += 2 * STEPS * STEP

    meter.observe(1000, 1)
    meter.observe(1, 7)
    clock.now += 10
    meter.observe(1, 17)

    assert meter.rate(1) == pytest.approx(1.0)
    assert len(meter._readings) == 2
