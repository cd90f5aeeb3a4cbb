"""Proves that the calls of a connector about one document give the right outcome."""

from dataclasses import replace

import pytest

from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, Ending, RetryLimit, ScheduleBounds
from jobs.connectors.repository.parts import BadPart


def make_activity(**facts):
    document = Document(
        hash="0" * 32,
        identifier="x:parent",
        depth=1,
        redirects=0,
        version="",
        validators="",
        failures=0,
        failing_for=0.0,
        **facts,
    )
    return Activity(document, configuration="1")


def name(activity, identifier, **facts):
    activity.reference(identifier=identifier, hash=identifier, bin="", **facts)


def test_a_document_named_twice_has_one_row_and_the_data_of_both():
    activity = make_activity()

    name(activity, "a", carry={"colour": ["red"]})
    name(activity, "a", carry={"colour": ["blue", "red"], "size": ["1"]})
    activity.no_document(code="DIRECTORY")

    (named,) = activity.outcome.references
    assert named.carry == {"colour": ("blue", "red"), "size": ("1",)}


def test_a_document_linked_by_two_types_counts_once_for_each():
    activity = make_activity()

    name(activity, "a", link_type="child")
    name(activity, "a", link_type="peer")
    name(activity, "a", link_type="peer", carry={"n": ["1"]})
    activity.no_document(code="DIRECTORY")

    assert [(named.link_type, named.carry) for named in activity.outcome.references] == [
        ("child", None),
        ("peer", {"n": ("1",)}),
    ]


def test_carried_data_are_read_by_their_names():
    activity = make_activity(carried={"colour": ("red",)})

    assert activity.carried("colour") == ("red",)
    assert activity.carried("size") == ()
    assert make_activity().carried("colour") == ()


def test_a_version_is_valid_only_with_the_carried_data_it_was_stored_with():
    plain, red, blue = make_activity(), *(make_activity(carried={"colour": (value,)}) for value in ("red", "blue"))

    versions = {activity.version_of("text") for activity in (plain, red, blue)}

    assert len(versions) == 3
    again = make_activity(carried={"colour": ("red",)})
    assert again.version_of("text") == red.version_of("text")


def test_a_fetch_is_conditional_only_if_the_carried_data_are_unchanged():
    read = make_activity(carried={"colour": ("red",)})
    facts = {"version": read.version_of("text"), "validators": "etag"}

    def may_be_conditional(carried):
        return Activity(replace(read.document, carried=carried, **facts), configuration="1").may_be_conditional

    assert may_be_conditional({"colour": ("red",)})
    assert not may_be_conditional({"colour": ("blue",)})
    assert not may_be_conditional(None)


def test_values_that_no_database_can_store_are_not_carried():
    activity = make_activity()

    name(activity, "a", carry={"n\0": ["half \ud800", "zero \0"]})
    activity.no_document(code="DIRECTORY")

    assert activity.outcome.references[0].carry == {"n?": ("half ?", "zero ?")}


def test_an_ending_includes_messages_sent_before_it():
    activity = make_activity()
    bounds = ScheduleBounds(recrawl_least=60.0)
    limit = RetryLimit(attempts=3, aborts_job=True)

    activity.set_schedule_bounds(bounds)
    activity.record("fetch", began=1.0, seconds=0.5, bytes=10, result_code="503")
    activity.retry_later(code="503", after=5.0, limit=limit)

    outcome = activity.outcome
    assert (outcome.ending, outcome.schedule_bounds, outcome.retry_limit) == (Ending.RETRY, bounds, limit)
    assert [(one.entity, one.result_code) for one in outcome.records] == [("x:parent", "503")]


def test_reported_parts_count_only_with_a_document_that_was_read():
    activity = make_activity()
    activity.parts.add("a", "apples")

    with pytest.raises(BadPart, match="end with ingest"):
        activity.unchanged(code="OK_UNCHANGED", read=True)
    activity.failed(code="UNREADABLE")

    assert not activity.outcome.parts


@pytest.mark.parametrize("path", ["", "a\0", "half \ud800"])
def test_a_path_that_no_output_can_store_names_no_part(path):
    with pytest.raises(BadPart):
        make_activity().parts.add(path, "text")
