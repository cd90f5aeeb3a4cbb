"""Proves that a bin gives turns to the lane that is due, within its limits, and as early as allowed."""

import uuid
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from jobs.throttling.bins import (
    COURTESY,
    DOCUMENTS_A_TURN,
    LONGEST_PLAN,
    MOST_A_TURN,
    BinSeen,
    LaneSeen,
    NoPlace,
    OpenTurn,
    ParentSeen,
    largest_turn,
    plan_turns,
)
from jobs.throttling.limits import Limits
from jobs.throttling.pace import EXPECTED_BYTES
from tests.support.cluster import NOON, seconds
from tests.support.tables import each_row

WORKER, OTHER = uuid.UUID(int=1), uuid.UUID(int=2)
_ids = count(1)


def limits(*, requests=4, gap=0.0, bytes_per_second=None, denied=False):
    return Limits(requests, gap, bytes_per_second, denied)


def seen_bin(*, requests=4, gap=0.0, bytes_per_second=None, denied=False, **facts):
    """Return an idle bin that was requested before, with a limit of 4 open requests."""
    usual = {
        "id": 1,
        "limits": Limits(requests, gap, bytes_per_second, denied),
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


def plan(seen, *lanes, workers=1, **facts):
    return plan_turns(bins=[seen], lanes=lanes or [seen_lane()], workers=workers, now=NOON, **facts)


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


def test_lanes_of_seeds_that_are_ahead_alternate_with_others_of_one_priority():
    lanes = [
        *(seen_lane(id=10 + place, bin_id=10 + place) for place in range(3)),
        *(seen_lane(id=20 + place, bin_id=20 + place, is_ahead=True, served_at=NOON) for place in range(2)),
        seen_lane(id=30, bin_id=30, priority=1),
    ]

    turns, _ = plan_turns(bins=[seen_bin(id=lane.bin_id) for lane in lanes], lanes=lanes, workers=1, now=NOON)

    assert [turn.lane.id for turn in turns] == [30, 20, 10, 21, 11, 12]


# --- Limited bins --------------------------------------------------------------------------------


def test_a_bin_with_a_gap_has_one_turn_with_all_its_requests():
    turns, waiting = plan(seen_bin(gap=1.0), seen_lane(), seen_lane(), workers=3)

    assert shapes(turns) == [(2, 4)]
    assert [place.until for place in waiting] == [None]


@each_row(("gap", "documents"), [(0.05, 40), (0.25, 8), (1.0, 2), (2.0, 1), (10.0, 1), (3600.0, 1)])
def test_a_turn_with_a_gap_has_documents_for_two_seconds(gap, documents):
    turns, _ = plan(seen_bin(gap=gap))
    successors, _ = plan(seen_bin(gap=gap, turns=[sent()], open_requests=4))

    assert [turn.documents for turn in turns] == [documents]
    assert sum(turn.documents for turn in turns + successors) * gap <= LONGEST_PLAN.total_seconds() or not successors


def test_a_bin_with_a_limit_of_bytes_has_one_turn_of_the_allowed_bytes():
    turns, _ = plan(seen_bin(bytes_per_second=2 * EXPECTED_BYTES), seen_lane(), seen_lane(), workers=3)

    assert shapes(turns) == [(4, 4)]


def test_a_bytes_limit_expects_pages_of_the_size_of_earlier_pages():
    turns, _ = plan(seen_bin(bytes_per_second=20_000, page_bytes=2_000))

    assert shapes(turns) == [(20, 4)]


@each_row(
    ("answer_seconds", "documents"),
    [(None, DOCUMENTS_A_TURN), (0.001, MOST_A_TURN), (0.02, 400), (0.5, 16), (2.0, 4), (60.0, 4)],
)
def test_a_turn_without_a_gap_has_documents_for_two_seconds_of_answers(answer_seconds, documents):
    turns, _ = plan(seen_bin(requests=4, answer_seconds=answer_seconds))
    successors, _ = plan(seen_bin(requests=4, answer_seconds=answer_seconds, turns=[sent()], open_requests=4))

    assert [turn.documents for turn in turns] == [documents]
    assert [turn.documents for turn in successors] == [documents]


@each_row(("claims", "documents"), [(8192, 1024), (256, 32), (4, 1)])
def test_a_turn_holds_an_eighth_of_the_smallest_workers_limit(claims, documents):
    turns, _ = plan(seen_bin(requests=250, answer_seconds=0.01), largest=largest_turn(claims))

    assert shapes(turns) == [(documents, 250)]


def test_slow_answers_reduce_the_documents_of_turns_with_a_gap():
    turns, _ = plan(seen_bin(requests=1, gap=0.1, answer_seconds=1.0))

    assert shapes(turns) == [(2, 1)]


def test_each_worker_gets_documents_for_its_share_of_the_requests():
    turns, _ = plan(seen_bin(requests=8, answer_seconds=1.0), workers=2)

    assert shapes(turns) == [(8, 4), (8, 4)]


def test_an_overloaded_bin_gets_one_trial_document():
    turns, _ = plan(seen_bin(back_off_level=3), seen_lane(), seen_lane(), workers=2)

    assert [(turn.documents, turn.requests, turn.is_trial) for turn in turns] == [(1, 1, True)]
    assert plan(seen_bin(back_off_level=3, turns=[sent()], open_requests=1))[0] == []


def test_denied_documents_are_handed_out_without_a_pace():
    closed = {"gap": 60.0, "not_before": NOON + seconds(60), "is_known": False}

    turns, _ = plan(seen_bin(denied=True, **closed))

    assert [(turn.documents, turn.limits.denied) for turn in turns] == [(DOCUMENTS_A_TURN, True)]


def test_a_successor_of_a_sent_turn_gets_no_separate_requests():
    turns, _ = plan(seen_bin(gap=1.0, turns=[sent()], open_requests=4))

    assert [(turn.requests, turn.follows.id) for turn in turns] == [(0, 7)]


@each_row(
    "open_turns",
    [[sent(worker=None)], [sent(has_follower=True), sent(8)], [sent(has_follower=True)]],
    ids=["only offered", "followed", "followed by one that closed"],
)
def test_a_limited_bin_has_one_turn_and_one_successor_at_most(open_turns):
    turns, waiting = plan(seen_bin(gap=1.0, turns=open_turns, open_requests=4))

    assert turns == []
    assert [place.until for place in waiting] == [None]


def test_an_unknown_host_gets_one_document_first():
    assert shapes(plan(seen_bin(is_known=False), seen_lane(), seen_lane(), workers=2)[0]) == [(1, 1)]
    assert plan(seen_bin(is_known=False, turns=[sent()], open_requests=1))[0] == []


# --- Bins that limit open requests only ----------------------------------------------------------


@each_row(
    ("requests", "workers", "shares"),
    [(4, 1, [4]), (4, 2, [2, 2]), (5, 2, [2, 2, 1]), (2, 5, [2]), (5, 5, [2, 2, 1]), (3, 0, [3])],
)
def test_open_requests_are_shared_out_between_the_workers(requests, workers, shares):
    turns, _ = plan(seen_bin(requests=requests), workers=workers)

    assert [turn.requests for turn in turns] == shares


def test_the_requests_of_an_open_turn_are_not_given_again():
    turns, _ = plan(seen_bin(requests=4, turns=[sent(has_follower=True)], open_requests=3))

    assert [turn.requests for turn in turns] == [1]


def test_requests_of_a_higher_limit_are_not_passed_on():
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
    # The number of open requests may exceed the present limit if the limit was lowered.
    seen = seen_bin(requests=requests, open_requests=taken, turns=[sent(has_follower=True)] if taken else [])

    turns, _ = plan(seen, *(seen_lane() for _ in range(lanes)), workers=workers)

    assert sum(turn.requests for turn in turns) == max(0, requests - taken)


# --- Times ---------------------------------------------------------------------------------------


def test_a_host_gets_the_pause_that_it_requested():
    turns, waiting = plan(seen_bin(back_off_until=NOON + seconds(30)))

    assert turns == []
    assert [place.until for place in waiting] == [NOON + seconds(30)]


def test_a_turn_is_handed_out_only_shortly_before_its_first_start():
    far, near = seen_bin(not_before=NOON + seconds(60)), seen_bin(not_before=NOON + seconds(0.5))

    assert plan(far)[0] == []
    assert NOON < plan(far)[1][0].until <= NOON + seconds(60)
    assert len(plan(near)[0]) == 1


# --- Order of lanes ------------------------------------------------------------------------------


def test_a_turn_goes_to_the_highest_priority_then_the_longest_unserved_lane():
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


def test_the_lane_of_another_owner_goes_first_for_a_limited_time():
    mine = seen_lane(served_at=NOON - seconds(1))
    rival = {"gap": 1.0, "has_rival": True, "rival_priority": 5, "rival_served_at": NOON - seconds(5)}
    just_freed = seen_bin(**rival, closed_at=NOON)
    freed_long_ago = seen_bin(**rival, closed_at=NOON - COURTESY)

    assert plan(just_freed, mine) == ([], [NoPlace(mine, NOON + COURTESY)])
    assert len(plan(freed_long_ago, mine)[0]) == 1


@each_row("theirs", [{"rival_priority": 9}, {"rival_priority": 5, "rival_served_at": NOON}])
def test_another_owners_lane_of_lower_priority_delays_no_turn(theirs):
    mine = seen_lane(served_at=NOON - seconds(1))

    turns, _ = plan(seen_bin(gap=1.0, has_rival=True, closed_at=NOON, **theirs), mine)

    assert len(turns) == 1


def test_the_plan_of_a_bin_does_not_depend_on_other_bins():
    bins = [seen_bin(id=1, gap=1.0), seen_bin(id=2, gap=1.0, back_off_until=NOON + seconds(5)), seen_bin(id=3)]
    lanes = [seen_lane(bin_id=bin_id) for bin_id in (1, 2, 3, 1)]

    turns, waiting = plan_turns(bins=bins, lanes=lanes, workers=1, now=NOON)

    assert [turn.lane for turn in turns] == [lanes[0], lanes[2]]
    assert [place.lane for place in waiting] == [lanes[3], lanes[1]]


def test_a_turn_is_succeeded_only_by_lanes_that_its_worker_may_have():
    limited = seen_bin(gap=1.0, turns=[sent(worker=WORKER)])
    mine, others = (seen_lane(tag="x", workers=frozenset({one})) for one in (WORKER, OTHER))

    assert [turn.lane for turn in plan(limited, mine)[0]] == [mine]
    assert plan(limited, others) == ([], [NoPlace(others, None)])


def test_a_first_lane_that_cannot_be_the_successor_gets_the_next_turn():
    first = seen_lane(tag="x", workers=frozenset({OTHER}), priority=1)
    second = seen_lane(priority=9)

    turns, waiting = plan(seen_bin(gap=1.0, turns=[sent(worker=WORKER)]), first, second)
    assert (turns, [place.lane for place in waiting]) == ([], [first, second])

    assert [turn.lane for turn in plan(seen_bin(gap=1.0), first, second)[0]] == [first]


# --- Parents -------------------------------------------------------------------------------------

ADDRESS, POLICY = 50, 60


def seen_parent(kind=ADDRESS, *, requests=1000, gap=0.0, bytes_per_second=None, **facts):
    usual = {"not_before": None, "back_off_until": None, "open_requests": 0, "open_documents": 0}
    more = {"workers": frozenset(), "whole_group": kind == POLICY}
    return ParentSeen(id=kind, limits=Limits(requests, gap, bytes_per_second), **(usual | more | facts))


def plan_under(parent, *bins, workers=2):
    """Plan one lane of each bin below a parent."""
    lanes = [seen_lane(bin_id=seen.id) for seen in bins]
    return plan_turns(bins=bins, parents=[parent], lanes=lanes, workers=workers, now=NOON)


def below(*ids, parent=ADDRESS, **facts):
    return [seen_bin(id=id_, parent=parent if parent == ADDRESS else None, **facts) for id_ in ids]


@given(
    most=st.integers(1, 20),
    taken=st.integers(0, 25),
    own=st.lists(st.integers(1, 8), min_size=1, max_size=8),
    kind=st.sampled_from([ADDRESS, POLICY]),
)
def test_open_requests_of_hosts_never_exceed_the_limit_of_their_parent(most, taken, own, kind):
    bins = [
        seen_bin(id=n, requests=requests, parent=ADDRESS if kind == ADDRESS else None) for n, requests in enumerate(own)
    ]

    turns, _ = plan_under(seen_parent(kind, requests=most, open_requests=taken), *bins)

    given_now = sum(turn.requests for turn in turns)
    assert given_now <= max(0, most - taken)
    assert given_now == min(max(0, most - taken), sum(own))


def test_all_turns_of_a_limited_parent_go_to_one_worker():
    turns, _ = plan_under(seen_parent(gap=0.5), *below(1, 2, 3, gap=1.0))

    assert {(turn.worker, turn.together) for turn in turns} == {(None, ADDRESS)}
    parent = seen_parent(gap=0.5, workers=frozenset({WORKER}), open_documents=3, open_requests=4)
    assert {(turn.worker, turn.together) for turn in plan_under(parent, *below(1, 2, 3, gap=1.0))[0]} == {
        (WORKER, None)
    }


def test_each_turn_of_a_limited_parent_has_its_own_requests():
    parent = seen_parent(requests=1, gap=0.5, workers=frozenset({WORKER}), open_documents=3, open_requests=3)

    turns, _ = plan_under(parent, *below(1, 2, 3, gap=1.0))

    assert [(turn.requests, turn.worker) for turn in turns] == 3 * [(1, WORKER)]


@each_row("workers", [{None}, {WORKER, OTHER}, {WORKER, None}])
def test_a_limited_parent_gets_no_turn_while_its_worker_is_unknown(workers):
    turns, _ = plan_under(seen_parent(gap=0.5, workers=frozenset(workers), open_requests=1), *below(1, 2))

    assert turns == []


def test_a_limited_parent_hands_out_documents_for_at_most_ten_seconds():
    turns, _ = plan_under(seen_parent(gap=1.0), *below(*range(1, 30), gap=1.0))

    assert sum(turn.documents for turn in turns) == 10
    full = seen_parent(gap=1.0, workers=frozenset({WORKER}), open_documents=10, open_requests=1)
    assert plan_under(full, *below(1))[0] == []


def test_a_turn_below_a_parent_has_no_successor_so_that_others_have_turns():
    follows = seen_bin(id=1, parent=ADDRESS, turns=[sent()], open_requests=4)

    assert plan_under(seen_parent(open_requests=4), follows)[0] == []


def test_hosts_that_wait_for_a_shared_ip_address_return_one_by_one():
    _, waiting = plan_under(seen_parent(requests=2, open_requests=2), *below(1, 2, 3))

    moments = [place.until for place in waiting]
    assert moments == sorted(set(moments))
    assert moments[0] > NOON


def test_lanes_that_wait_for_a_limit_of_the_group_keep_their_place():
    assert plan_under(seen_parent(POLICY, requests=2, open_requests=2), *below(1, 2, parent=POLICY)) == ([], [])


def test_a_paced_turn_below_a_parent_is_longer_as_it_gets_no_successor():
    alone, _ = plan(seen_bin(gap=0.5))
    turns, _ = plan_under(seen_parent(), *below(1, gap=0.5))

    assert (shapes(alone), shapes(turns)) == ([(4, 4)], [(10, 4)])


def test_a_parent_that_backs_off_keeps_all_its_bins_back():
    assert plan_under(seen_parent(back_off_until=NOON + seconds(30)), *below(1, 2))[0] == []


def test_a_parent_at_its_limit_does_not_hold_up_bins_without_a_parent():
    turns, _ = plan_under(seen_parent(requests=1, open_requests=1), seen_bin(id=1), *below(2))

    assert [turn.lane.bin_id for turn in turns] == [1] * len(turns)
    assert turns
