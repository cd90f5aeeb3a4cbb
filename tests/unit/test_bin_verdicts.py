"""What keeps a bin from being asked for more: the most decisive reason that there is."""

import datetime as dt

import pytest

from jobs.throttling.limits import Limits
from jobs.throttling.verdict import Above, Cause, Known, judge

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
SOON = NOON + dt.timedelta(seconds=30)
LATER = NOON + dt.timedelta(seconds=60)


def make_bin(*, served=True, **facts):
    """A bin with a gap of a second that is served at its pace, or waits for a turn."""
    usual = {
        "limits": Limits(2, 1.0),
        "is_stopped": False,
        "open_turns": 1 if served else 0,
        "open_requests": 2 if served else 0,
        "not_before": None,
        "back_off_until": None,
        "back_off_level": 0,
        "waiting": 10,
        "is_ready": True,
        "is_owned": True,
        "is_served": True,
        "starts_per_second": 1.0,
        "bytes_per_second": 5_000.0,
    }
    return Known(**(usual | facts))


def parent(**facts):
    return Above(**({"id": 9, "limits": Limits(8, 0.0), "open_requests": 2, "opens_at": None} | facts))


@pytest.mark.parametrize(
    ("cause", "seen"),
    [
        (Cause.STOPPED, make_bin(limits=Limits(2, 1.0, denied=True), is_stopped=True)),
        (Cause.CLOSED, make_bin(limits=Limits(2, 1.0, closed_until=LATER), back_off_until=SOON)),
        (Cause.DENIED, make_bin(limits=Limits(2, 1.0, denied=True), back_off_until=SOON)),
        (Cause.BACK_OFF, make_bin(back_off_until=SOON, back_off_level=2)),
        (Cause.TRIAL, make_bin(back_off_until=NOON, back_off_level=2)),
        (Cause.NOTHING_WAITS, make_bin(served=False, waiting=0)),
        (Cause.NO_WORKER, make_bin(served=False, is_served=False)),
        (Cause.NO_OWNER, make_bin(served=False, is_owned=False)),
        (Cause.NOT_DUE, make_bin(served=False, is_ready=False)),
        (Cause.NEXT, make_bin(served=False)),
        (Cause.GAP, make_bin(served=False, not_before=SOON)),
        (Cause.GAP, make_bin()),
        (Cause.GAP, make_bin(starts_per_second=None)),
        (Cause.GAP, make_bin(starts_per_second=0.9)),
        (Cause.HOST, make_bin(starts_per_second=0.3)),
        (Cause.BYTES, make_bin(limits=Limits(2, 0.1, bytes_per_second=5_000.0), starts_per_second=2.0)),
        (Cause.REQUESTS, make_bin(limits=Limits(2, 0.0), starts_per_second=40.0)),
        (Cause.NOTHING_WAITS, make_bin(limits=Limits(2, 0.0), waiting=0)),
        (Cause.PARENT, make_bin(above=[parent(limits=Limits(8, 5.0))])),
        (Cause.PARENT, make_bin(open_requests=1, above=[parent(limits=Limits(2, 0.0))])),
        (Cause.GAP, make_bin(above=[parent(limits=Limits(2, 0.0))])),
        (Cause.PARENT, make_bin(served=False, above=[parent(limits=Limits(2, 0.0))])),
        (Cause.PARENT, make_bin(served=False, above=[parent(opens_at=SOON)])),
        (Cause.GAP, make_bin(served=False, not_before=LATER, above=[parent(opens_at=SOON)])),
        (Cause.GAP, make_bin(served=False, not_before=SOON, above=[parent(limits=Limits(2, 0.0))])),
        (Cause.PARENT, make_bin(served=False, not_before=SOON, above=[parent(opens_at=LATER)])),
        # Its parent's only place goes to it and to others by turns.
        (Cause.PARENT, make_bin(starts_per_second=0.5, above=[parent(limits=Limits(1, 0.0), starts_per_second=1.5)])),
        (Cause.HOST, make_bin(starts_per_second=0.5, above=[parent(limits=Limits(1, 0.0), starts_per_second=0.5)])),
        (Cause.HOST, make_bin(starts_per_second=0.5, above=[parent(limits=Limits(9, 0.0), starts_per_second=9.0)])),
    ],
)
def test_the_cause_is_the_most_decisive_one(cause, seen):
    assert judge(seen, now=NOON).cause == cause


def test_a_cause_tells_until_when_and_which_parent():
    assert judge(make_bin(back_off_until=SOON), now=NOON).until == SOON
    verdict = judge(make_bin(served=False, above=[parent(opens_at=SOON)]), now=NOON)
    assert (verdict.parent, verdict.until) == (9, SOON)
