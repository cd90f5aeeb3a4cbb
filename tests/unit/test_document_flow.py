"""Proves the flow (documents per second) of a manager, measured from the documents that each of its passes offers."""

import pytest

from jobs.loops.manager.document_flow import DocumentFlow


def offered(documents, *, every, passes, flow=None, since=0.0):
    flow = flow or DocumentFlow()
    for number in range(passes):
        flow.note(documents, at=since + number * every)
    return flow


@pytest.mark.parametrize("every", [0.13, 0.36])
def test_the_flow_is_the_mean_of_the_last_seconds_for_any_interval_of_passes(every):
    flow = offered(270 * every, every=every, passes=200)

    assert flow.documents_a_second == pytest.approx(270, rel=0.01)
    assert flow.is_steady


def test_the_first_pass_of_a_manager_gives_no_flow():
    assert not offered(5_000, every=1, passes=1).is_steady


def test_a_flow_of_few_documents_is_not_steady():
    assert not offered(5, every=0.13, passes=80).is_steady


def test_passes_with_many_documents_and_pauses_of_two_seconds_are_a_steady_flow():
    flow = DocumentFlow()
    for burst in range(5):
        offered(200, every=0.2, passes=1, flow=flow, since=burst * 2.0)
        offered(0, every=0.2, passes=9, flow=flow, since=burst * 2.0 + 0.2)
        flow.note_reading()

    assert flow.is_steady
    assert flow.goes_on(at=10.0)


def test_a_flow_ends_three_seconds_after_its_last_document():
    flow = offered(40, every=0.13, passes=80)
    flow.note_reading()
    ended_at = 79 * 0.13

    assert flow.goes_on(at=ended_at + 2.9)
    assert not flow.goes_on(at=ended_at + 3.1)


def test_a_flow_that_is_not_steady_goes_on_after_ten_documents():
    flow = offered(3, every=0.13, passes=80)
    flow.note_reading()
    assert not flow.goes_on(at=10.4)

    offered(3, every=0.13, passes=3, flow=flow, since=10.4)
    assert not flow.goes_on(at=10.7)
    offered(3, every=0.13, passes=1, flow=flow, since=10.8)
    assert flow.goes_on(at=10.8)
