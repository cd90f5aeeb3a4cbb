"""Proves the flow (documents per second) of a manager, measured from the documents that each of its passes offers."""

import pytest

from jobs.loops.manager.flow import Flow


def offered(documents, *, every, passes, flow=None, since=0.0):
    flow = flow or Flow()
    for number in range(passes):
        flow.note(documents, at=since + number * every)
    return flow


@pytest.mark.parametrize("every", [0.13, 0.36])
def test_the_flow_is_the_mean_of_the_last_second_for_any_interval_of_passes(every):
    flow = offered(270 * every, every=every, passes=40)

    assert flow.documents_a_second == pytest.approx(270, rel=0.01)
    assert flow.is_steady


def test_the_first_pass_does_not_make_a_flow():
    assert not offered(5_000, every=1, passes=1).is_steady


def test_a_flow_of_few_documents_is_not_steady():
    assert not offered(5, every=0.13, passes=40).is_steady


def test_a_flow_that_ends_is_not_steady_two_seconds_later():
    flow = offered(40, every=0.13, passes=40)
    offered(0, every=0.2, passes=10, flow=flow, since=5.4)

    assert not flow.is_steady


def test_a_steady_flow_continues_after_one_document_and_others_after_ten():
    steady, slow = offered(40, every=0.13, passes=40), offered(3, every=0.13, passes=40)
    for flow in (steady, slow):
        flow.note_reading()
        assert not flow.goes_on
        offered(1, every=0.13, passes=1, flow=flow, since=5.3)

    assert steady.goes_on
    assert not slow.goes_on
    assert offered(3, every=0.13, passes=3, flow=slow, since=5.4).goes_on
