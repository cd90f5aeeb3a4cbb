"""Proves that each second that a document waits is charged to exactly one cause."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.charges import LONGEST_STEP, Sample, add_up, charge, charge_now
from jobs.verdicts.jobs import HostOfJob
from jobs.words.charges import cells

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
by_cause = st.dictionaries(st.sampled_from(list(Cause)), st.integers(0, 1_000))


@given(hold=holds, hosts=hosts, waiting=st.integers(0, 10_000))
def test_charges_of_a_moment_sum_to_the_waiting_documents(hold, hosts, waiting):
    assert sum(charge_now(hold=hold, hosts=hosts, waiting=waiting).values()) == waiting


@given(st.lists(by_cause, max_size=5))
def test_the_charges_of_all_jobs_are_the_sum_of_the_charges_of_each_job(of_jobs):
    assert sum(add_up(of_jobs).values()) == sum(sum(one.values()) for one in of_jobs)


@given(counts=st.lists(by_cause, min_size=2, max_size=20), step=st.floats(0.5, LONGEST_STEP * 0.99))
def test_charges_of_a_span_sum_to_the_waiting_time(counts, step):
    samples = [Sample(place * step, {"job": waiting}) for place, waiting in enumerate(counts)]
    totals = [sum(waiting.values()) for waiting in counts]
    waited = sum((one + other) / 2 * step for one, other in pairwise(totals))

    charged = [charge(earlier, later) for earlier, later in pairwise(samples)]

    assert sum(sum(one.values()) for one in charged) == pytest.approx(waited, rel=0.01)


def test_a_queue_that_drains_is_charged_within_one_percent_of_its_waiting_time():
    """A thousand documents leave at a rate of ten a second. The queue is read every five seconds."""
    samples = []
    left, waited = 1_000, 0.0
    for tenth in range(1_001):
        if tenth % 50 == 0:
            samples.append(Sample(tenth / 10, {"job": {Cause.GAP: left}}))
        if left:
            waited += left / 10
            left -= 1

    charged = sum(charge(earlier, later).get(("job", Cause.GAP), 0) for earlier, later in pairwise(samples))

    assert charged == pytest.approx(waited, rel=0.01)


def test_waits_of_a_held_job_are_charged_to_the_hold_and_others_to_hosts():
    at = [HostOfJob(Verdict(Cause.GAP), 60, 1), HostOfJob(Verdict(Cause.BACK_OFF), 30, 0)]

    assert charge_now(hold=Verdict(Cause.PAUSED), hosts=at, waiting=100) == {Cause.PAUSED: 100}
    assert charge_now(hold=None, hosts=at, waiting=100) == {Cause.GAP: 70, Cause.BACK_OFF: 30}


@pytest.mark.parametrize(
    "later",
    [
        pytest.param({"at": LONGEST_STEP + 1}, id="after a long time"),
        pytest.param({"at": -1.0}, id="after the clock was set back"),
        pytest.param({"at": 5.0, "term": 2}, id="under another term"),
    ],
)
def test_unobserved_time_is_not_charged(later):
    waiting = {"job": {Cause.GAP: 10}}

    assert charge(Sample(0.0, waiting, term=1), Sample(waiting=waiting, **{"term": 1, **later})) == {}
    assert charge(None, Sample(0.0, waiting)) == {}


@pytest.mark.parametrize("causes", [0, 1, 6, 9])
def test_the_parts_of_the_bar_of_causes_fill_its_width(causes):
    charges = {cause: 10.0 + number for number, cause in enumerate(list(Cause)[:causes])}

    found = cells(charges)

    parts = [(float(found[f"charge_{n}_at"]), float(found[f"charge_{n}_width"])) for n in range(1, 7)]
    shown = [part for part in parts if part[1]]
    assert len(shown) == min(causes, 6)
    assert all(at + width < following for (at, width), (following, _) in pairwise(shown))
    assert sum(width for _at, width in shown) == pytest.approx(1000 - 3 * len(shown) if shown else 0, abs=0.5)
