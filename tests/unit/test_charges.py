"""Each second that a document waits is charged to exactly one cause."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.queries.charges import SPAN, Charges
from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.charges import LONGEST_STEP, Reading, charge, charge_now
from jobs.verdicts.jobs import HostOfJob

hosts = st.lists(
    st.builds(
        HostOfJob,
        st.builds(Verdict, st.sampled_from(list(Cause))),
        waiting=st.integers(0, 1_000),
        in_progress=st.integers(0, 10),
    ),
    max_size=5,
)
holds = st.none() | st.builds(Verdict, st.sampled_from(list(Cause)))


@given(hold=holds, hosts=hosts, waiting=st.integers(0, 10_000))
def test_charges_of_a_moment_sum_to_the_waiting_documents(hold, hosts, waiting):
    assert sum(charge_now(hold=hold, hosts=hosts, waiting=waiting).values()) == waiting


@given(
    counts=st.lists(st.dictionaries(st.sampled_from(list(Cause)), st.integers(0, 1_000)), min_size=2, max_size=20),
    step=st.floats(0.5, LONGEST_STEP),
)
def test_charges_of_a_span_sum_to_the_waiting_time(counts, step):
    readings = [Reading(place * step, waiting) for place, waiting in enumerate(counts)]
    totals = [sum(waiting.values()) for waiting in counts]
    waited = sum((one + other) / 2 * step for one, other in pairwise(totals))

    assert sum(charge(readings).values()) == pytest.approx(waited, rel=0.01)


def test_a_queue_that_drains_is_charged_within_one_percent_of_its_waiting_time():
    """A thousand documents leave at ten a second, and the readings are a second apart."""
    now = [0.0]
    charges = Charges(clock=lambda: now[0])
    left = 1_000
    waited = 0.0
    for tenth in range(1_001):
        now[0] = tenth / 10
        if tenth % 10 == 0:
            charges.observe(1, {Cause.GAP: left})
        if tenth < 1_000:
            waited += left / 10
            left -= 1

    assert sum(charges.of(1).values()) == pytest.approx(waited, rel=0.01)


def test_a_held_job_is_charged_to_its_hold_and_others_to_their_hosts():
    at = [HostOfJob(Verdict(Cause.GAP), 60, 1), HostOfJob(Verdict(Cause.BACK_OFF), 30, 0)]

    assert charge_now(hold=Verdict(Cause.PAUSED), hosts=at, waiting=100) == {Cause.PAUSED: 100}
    assert charge_now(hold=None, hosts=at, waiting=100) == {Cause.GAP: 70, Cause.BACK_OFF: 30}


def test_a_long_time_without_a_reading_is_not_charged():
    readings = [Reading(0.0, {Cause.GAP: 10}), Reading(LONGEST_STEP + 1, {Cause.GAP: 10})]

    assert charge(readings) == {}


def test_readings_older_than_the_bar_are_forgotten():
    now = [0.0]
    charges = Charges(clock=lambda: now[0])
    for now[0] in (0.0, 10.0, SPAN + 10.0, SPAN + 20.0):
        charges.observe(1, {Cause.GAP: 1} if now[0] < SPAN else {Cause.BYTES: 1})

    assert charges.of(1) == {Cause.BYTES: 10.0}
