"""
Proves that the verdict on a host names the most decisive reason, and that a host with a queue always has a verdict.
"""

import datetime as dt

import pytest

from jobs.throttling.limits import UNLIMITED_REQUESTS, UNTIL_RELEASED, Limits
from jobs.verdicts.causes import Cause
from jobs.verdicts.hosts import Above, Known, judge_host
from jobs.verdicts.requests import Counted, Requests, add_up
from tests.support.tables import each_row

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
SOON = NOON + dt.timedelta(seconds=30)
LATER = NOON + dt.timedelta(seconds=60)
JUST_NOW = NOON - dt.timedelta(seconds=5)
MINUTE = dt.timedelta(minutes=1)


def make_host(*, served=True, **facts):
    """Return a host with a gap of a second and a queue. It is served at its pace, or waits for a turn."""
    usual = {
        "limits": Limits(2, 1.0),
        "is_stopped": False,
        "open_turns": 1 if served else 0,
        "lent": 2 if served else 0,
        "not_before": None,
        "back_off_until": None,
        "back_off_level": 0,
        "waiting": 10,
        "ready_at": NOON,
        "is_owned": True,
        "is_served": True,
        "starts_per_second": 1.0,
        "bytes_per_second": 5_000.0,
    }
    return Known(**(usual | facts))


def parent(**facts):
    return Above(**({"id": 9, "limits": Limits(8, 0.0), "open_requests": 2, "opens_at": None} | facts))


def answering_in(seconds):
    return Requests(ended=60, seconds=seconds)


def refusing(failed=60, ended=60):
    return Requests(ended=ended, failed=failed, codes={"REFUSED": failed}, seconds=0.01, failing_since=JUST_NOW)


@each_row(
    ("cause", "seen"),
    [
        (Cause.STOPPED, make_host(limits=Limits(2, 1.0, closed_until=UNTIL_RELEASED), is_stopped=True)),
        (Cause.DENIED, make_host(limits=Limits(2, 1.0, denied=True, closed_until=UNTIL_RELEASED), is_stopped=True)),
        (Cause.CLOSED, make_host(limits=Limits(2, 1.0, closed_until=LATER), back_off_until=SOON)),
        (Cause.DENIED, make_host(limits=Limits(2, 1.0, denied=True), back_off_until=SOON)),
        (Cause.BACK_OFF, make_host(back_off_until=SOON, back_off_level=2)),
        (Cause.TRIAL, make_host(back_off_until=NOON, back_off_level=2)),
        (Cause.NOTHING_WAITS, make_host(served=False, waiting=0)),
        (Cause.IN_PROGRESS, make_host(waiting=0, in_progress=2)),
        # Workers have claimed all documents, and start them at the host's pace.
        (Cause.GAP, make_host(waiting=0, in_progress=48)),
        (Cause.REQUESTS, make_host(limits=Limits(4, 0.0), waiting=0, in_progress=2_459, open_now=4)),
        (Cause.JOBS_HELD, make_host(served=False, waiting=63, held=63)),
        (Cause.GAP, make_host(waiting=63, held=62)),
        (Cause.NO_WORKER, make_host(served=False, is_served=False)),
        (Cause.NO_TAG, make_host(served=False, is_served=False, missing_tag="intranet")),
        (Cause.NO_OWNER, make_host(served=False, is_owned=False)),
        (Cause.GROUP_FAILS, make_host(served=False, group_failing_since=NOON, group_why="ValueError")),
        (Cause.NOT_DUE, make_host(served=False, ready_at=SOON)),
        (Cause.NOT_DUE, make_host(served=False, ready_at=None)),
        (Cause.NEXT, make_host(served=False)),
        (Cause.WORKERS, make_host(served=False, workers_are_full=True)),
        (Cause.GAP, make_host(served=False, not_before=SOON)),
        (Cause.CRAWL_DELAY, make_host(served=False, not_before=SOON, asks_for_delay=True)),
        (Cause.GAP, make_host()),
        (Cause.CRAWL_DELAY, make_host(asks_for_delay=True)),
        (Cause.GAP, make_host(starts_per_second=None)),
        # The host answers quickly. The rate lags behind an edit, and the policy still sets the pace.
        (Cause.GAP, make_host(starts_per_second=0.3, latest=answering_in(0.01))),
        (Cause.RAMPING, make_host(starts_per_second=0.3, latest=answering_in(0.01), changed_at=JUST_NOW)),
        (Cause.RAMPING, make_host(is_known=False)),
        (Cause.WORKERS, make_host(starts_per_second=0.3, latest=answering_in(0.01), workers_are_full=True)),
        # Two connections carry one request a second, and the policy allows two.
        (Cause.REQUESTS, make_host(limits=Limits(2, 0.5), latest=answering_in(2.0))),
        (Cause.REQUESTS, make_host(limits=Limits(16, 0.0), waiting=540, open_now=16)),
        (Cause.REQUESTS, make_host(limits=Limits(2, 0.0), starts_per_second=40.0)),
        (Cause.WORKERS, make_host(limits=Limits(16, 0.0), open_now=1)),
        (Cause.WORKERS, make_host(limits=Limits(UNLIMITED_REQUESTS, 0.0))),
        (Cause.BYTES, make_host(limits=Limits(2, 0.1, bytes_per_second=5_000.0), starts_per_second=2.0)),
        (Cause.BYTES, make_host(limits=Limits(2, 0.0, bytes_per_second=5_000.0), bytes_per_second=None)),
        (Cause.IN_PROGRESS, make_host(limits=Limits(2, 0.0), waiting=0, in_progress=1)),
        (Cause.PARENT, make_host(above=[parent(limits=Limits(8, 5.0))])),
        (Cause.PARENT, make_host(lent=1, starts_per_second=0.5, above=[parent(limits=Limits(2, 0.0))])),
        # The parent is full, but the host's own gap is the cause: the host uses all of its rate.
        (Cause.GAP, make_host(lent=1, above=[parent(limits=Limits(2, 0.0))])),
        (Cause.GAP, make_host(above=[parent(limits=Limits(2, 0.0))])),
        (Cause.PARENT, make_host(served=False, above=[parent(limits=Limits(2, 0.0))])),
        (Cause.PARENT, make_host(served=False, above=[parent(opens_at=SOON)])),
        # Turns below a parent with a gap share the parent's requests. Only the parent's limit of documents can be used
        # up.
        (Cause.NEXT, make_host(served=False, above=[parent(limits=Limits(2, 0.5), open_documents=3)])),
        (Cause.PARENT, make_host(served=False, above=[parent(limits=Limits(2, 0.5), open_documents=20)])),
        (Cause.PARENT, make_host(served=False, ready_at=SOON, above=[parent(limits=Limits(2, 0.5))])),
        (Cause.NOT_DUE, make_host(served=False, ready_at=SOON, above=[parent(open_requests=0)])),
        # A pause longer than the gap comes from the bytes that were read.
        (Cause.BYTES, make_host(served=False, limits=Limits(2, 1.0, 1_000.0), not_before=SOON)),
        (Cause.GAP, make_host(served=False, limits=Limits(2, 60.0, 1_000.0), not_before=SOON)),
        (Cause.GAP, make_host(served=False, not_before=LATER, ready_at=LATER, above=[parent(opens_at=SOON)])),
        (Cause.GAP, make_host(served=False, not_before=SOON, above=[parent(limits=Limits(2, 0.0))])),
        (Cause.PARENT, make_host(served=False, not_before=SOON, above=[parent(opens_at=LATER)])),
        # The parent has one place for an open request. Its hosts use this place one after the other.
        (Cause.PARENT, make_host(starts_per_second=0.5, above=[parent(limits=Limits(1, 0.0), starts_per_second=1.5)])),
        (Cause.GAP, make_host(starts_per_second=0.5, above=[parent(limits=Limits(1, 0.0), starts_per_second=0.5)])),
    ],
)
def test_the_verdict_names_the_most_decisive_cause(cause, seen):
    assert judge_host(seen, now=NOON).cause == cause


def test_a_verdict_names_its_end_and_its_parent():
    assert judge_host(make_host(back_off_until=SOON), now=NOON).until == SOON
    verdict = judge_host(make_host(served=False, above=[parent(opens_at=SOON)]), now=NOON)
    assert (verdict.parent, verdict.until) == (9, SOON)


def test_connections_are_shown_with_the_busy_ones_and_the_answer_time():
    verdict = judge_host(make_host(limits=Limits(2, 0.5), open_now=2, latest=answering_in(2.0)), now=NOON)

    assert (verdict.cause, verdict.busy, verdict.places, verdict.seconds) == (Cause.REQUESTS, 2, 2, 2.0)


@each_row(
    ("is_failing", "latest"),
    [
        (True, refusing()),
        (True, refusing(failed=30)),
        (False, refusing(failed=29)),
        (False, refusing(failed=2, ended=2)),
        (False, Requests()),
    ],
)
def test_a_host_fails_if_half_of_its_latest_requests_failed(is_failing, latest):
    verdict = judge_host(make_host(latest=latest), now=NOON)

    assert (verdict.failing is not None) == is_failing
    assert verdict.cause == Cause.GAP


def test_requests_of_several_codes_show_their_share_and_the_main_code():
    counted = [
        Counted("200", 10, 1.0, NOON),
        Counted("404", 10, 1.0, NOON),
        Counted("REFUSED", 15, 0.5, SOON),
        Counted("503", 5, 5.5, NOON),
    ]

    requests = add_up(counted)

    assert (requests.ended, requests.failed, requests.share, requests.code) == (40, 20, 0.5, "REFUSED")
    assert requests.seconds == pytest.approx(0.2)
    assert requests.failing_since == NOON
