"""What a bin hands out: never more than its limits, to whom it is due, and as soon as it may."""

import uuid
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.throttling.bins import (
    COURTESY,
    DOCUMENTS_A_TURN,
    LONGEST_TURN,
    BinSeen,
    LaneSeen,
    NoPlace,
    OpenTurn,
    plan_turns,
)
from tests.cluster import NOON, seconds

WORKER, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
_ids = count(1)


def seen_bin(**facts):
    """A bin that was asked before, that is idle, and may have 4 open requests."""
    usual = {
        "id": 1,
        "requests": 4,
        "gap": 0.0,
        "not_before": None,
        "back_off_until": None,
        "closed_at": None,
        "is_known": True,
        "open_requests": 0,
        "turns": (),
    }
    return BinSeen(**(usual | facts))


def seen_lane(**facts):
    return LaneSeen(**({"id": next(_ids), "bin_id": 1, "job_id": 1, "priority": 5, "served_at": None} | facts))


def plan(seen, *lanes, workers=1):
    return plan_turns(bins=[seen], lanes=lanes or [seen_lane()], workers=workers, now=NOON)


def shapes(turns):
    return [(turn.documents, turn.requests) for turn in turns]


def sent(turn_id=7, *, worker=WORKER, has_follower=False):
    return OpenTurn(turn_id, worker, has_follower)


def test_the_bin_that_was_served_longest_ago_comes_first():
    bins = [seen_bin(id=1), seen_bin(id=2), seen_bin(id=3)]
    lanes = [
        seen_lane(id=11, bin_id=1, served_at=NOON - seconds(1)),
        seen_lane(id=12, bin_id=2, served_at=NOON - seconds(2)),
        seen_lane(id=13, bin_id=3, priority=1, served_at=NOON),
    ]

    turns, _ = plan_turns(bins=bins, lanes=lanes, workers=1, now=NOON)

    assert [turn.lane.id for turn in turns] == [13, 12, 11]


# --- Limited bins --------------------------------------------------------------------------------


def test_a_bin_with_a_gap_has_one_turn_with_all_its_requests():
    turns, waiting = plan(seen_bin(gap=1.0), seen_lane(), seen_lane(), workers=3)

    assert shapes(turns) == [(10, 4)]
    assert [place.until for place in waiting] == [None]


@pytest.mark.parametrize(("gap", "documents"), [(0.01, DOCUMENTS_A_TURN), (1.0, 10), (4.0, 2), (10.0, 1), (3600.0, 1)])
def test_a_turn_is_ten_seconds_of_work_at_most(gap, documents):
    turns, _ = plan(seen_bin(gap=gap))

    assert [turn.documents for turn in turns] == [documents]
    assert documents == 1 or documents * gap <= LONGEST_TURN.total_seconds()


def test_a_turn_that_was_sent_is_followed_by_one_without_requests_of_its_own():
    turns, _ = plan(seen_bin(gap=1.0, turns=[sent()], open_requests=4))

    assert [(turn.requests, turn.follows.id) for turn in turns] == [(0, 7)]


@pytest.mark.parametrize(
    "open_turns",
    [[sent(worker=None)], [sent(has_follower=True), sent(8)], [sent(has_follower=True)]],
    ids=["only offered", "followed", "followed by one that closed"],
)
def test_a_limited_bin_has_one_turn_and_one_successor_at_most(open_turns):
    turns, waiting = plan(seen_bin(gap=1.0, turns=open_turns, open_requests=4))

    assert turns == []
    assert [place.until for place in waiting] == [None]


def test_an_unknown_host_is_asked_for_one_document_first():
    assert shapes(plan(seen_bin(is_known=False), seen_lane(), seen_lane(), workers=2)[0]) == [(1, 1)]
    assert plan(seen_bin(is_known=False, turns=[sent()], open_requests=1))[0] == []


# --- Bins that limit open requests only ----------------------------------------------------------


@pytest.mark.parametrize(
    ("requests", "workers", "shares"), [(4, 1, [4]), (4, 2, [2, 2]), (5, 2, [2, 2, 1]), (2, 5, [1, 1]), (3, 0, [3])]
)
def test_open_requests_are_shared_out_between_the_workers(requests, workers, shares):
    turns, _ = plan(seen_bin(requests=requests), workers=workers)

    assert [turn.requests for turn in turns] == shares


def test_what_is_open_already_is_not_given_again():
    turns, _ = plan(seen_bin(requests=4, turns=[sent(has_follower=True)], open_requests=3))

    assert [turn.requests for turn in turns] == [1]


def test_what_was_given_under_a_higher_limit_is_not_handed_on():
    of_eight = [sent(turn_id) for turn_id in range(4)]

    assert plan(seen_bin(requests=3, open_requests=8, turns=of_eight))[0] == []
    assert plan(seen_bin(requests=3, open_requests=8, gap=1.0, turns=of_eight[:1]))[0] == []
    assert shapes(plan(seen_bin(requests=3, open_requests=2, turns=of_eight[:1]))[0]) == [
        (DOCUMENTS_A_TURN, 0),
        (DOCUMENTS_A_TURN, 1),
    ]


@given(
    requests=st.integers(1, 50),
    workers=st.integers(0, 10),
    taken=st.integers(0, 60),
    lanes=st.integers(1, 5),
)
def test_the_requests_of_a_bin_never_exceed_its_limit(requests, workers, taken, lanes):
    # More may be open than is allowed now: the limit was lowered meanwhile.
    seen = seen_bin(requests=requests, open_requests=taken, turns=[sent(has_follower=True)] if taken else [])

    turns, _ = plan(seen, *(seen_lane() for _ in range(lanes)), workers=workers)

    assert sum(turn.requests for turn in turns) == max(0, requests - taken)


# --- When ----------------------------------------------------------------------------------------


def test_a_host_that_asked_for_time_gets_it():
    turns, waiting = plan(seen_bin(back_off_until=NOON + seconds(30)))

    assert turns == []
    assert [place.until for place in waiting] == [NOON + seconds(30)]


def test_a_turn_is_handed_out_only_shortly_before_its_first_start():
    far, near = seen_bin(not_before=NOON + seconds(60)), seen_bin(not_before=NOON + seconds(0.5))

    assert plan(far)[0] == []
    assert NOON < plan(far)[1][0].until <= NOON + seconds(60)
    assert len(plan(near)[0]) == 1


# --- To whom -------------------------------------------------------------------------------------


def test_the_place_goes_by_priority_and_then_to_whom_was_served_longest_ago():
    lately, long_ago, never = (
        seen_lane(served_at=NOON - seconds(1)),
        seen_lane(served_at=NOON - seconds(9)),
        seen_lane(),
    )
    first = seen_lane(priority=1, served_at=NOON)

    def chosen(*lanes):
        return plan(seen_bin(gap=1.0), *lanes)[0][0].lane

    assert chosen(lately, long_ago, never, first) == first
    assert chosen(lately, long_ago, never) == never
    assert chosen(lately, long_ago) == long_ago


def test_the_lane_of_another_owner_goes_first_but_not_for_longer_than_is_courteous():
    mine = seen_lane(served_at=NOON - seconds(1))
    rival = {"gap": 1.0, "has_rival": True, "rival_priority": 5, "rival_served_at": NOON - seconds(5)}
    just_freed = seen_bin(**rival, closed_at=NOON)
    freed_long_ago = seen_bin(**rival, closed_at=NOON - COURTESY)

    assert plan(just_freed, mine) == ([], [NoPlace(mine, NOON + COURTESY)])
    assert len(plan(freed_long_ago, mine)[0]) == 1


@pytest.mark.parametrize("theirs", [{"rival_priority": 9}, {"rival_priority": 5, "rival_served_at": NOON}])
def test_a_rival_who_is_not_before_me_holds_nothing_up(theirs):
    mine = seen_lane(served_at=NOON - seconds(1))

    turns, _ = plan(seen_bin(gap=1.0, has_rival=True, closed_at=NOON, **theirs), mine)

    assert len(turns) == 1


def test_each_bin_is_planned_for_itself():
    bins = [seen_bin(id=1, gap=1.0), seen_bin(id=2, gap=1.0, back_off_until=NOON + seconds(5)), seen_bin(id=3)]
    lanes = [seen_lane(bin_id=bin_id) for bin_id in (1, 2, 3, 1)]

    turns, waiting = plan_turns(bins=bins, lanes=lanes, workers=1, now=NOON)

    assert [turn.lane for turn in turns] == [lanes[0], lanes[2]]
    assert [place.lane for place in waiting] == [lanes[3], lanes[1]]


def test_a_turn_is_followed_only_by_what_its_worker_may_have():
    limited = seen_bin(gap=1.0, turns=[sent(worker=WORKER)])
    mine, others = (seen_lane(tag="x", workers=frozenset({one})) for one in (WORKER, OTHER))

    assert [turn.lane for turn in plan(limited, mine)[0]] == [mine]
    assert plan(limited, others) == ([], [NoPlace(others, None)])


def test_who_is_first_in_line_and_may_not_follow_gets_the_place_when_the_turn_has_ended():
    first = seen_lane(tag="x", workers=frozenset({OTHER}), priority=1)
    second = seen_lane(priority=9)

    turns, waiting = plan(seen_bin(gap=1.0, turns=[sent(worker=WORKER)]), first, second)
    assert (turns, [place.lane for place in waiting]) == ([], [first, second])

    assert [turn.lane for turn in plan(seen_bin(gap=1.0), first, second)[0]] == [first]
