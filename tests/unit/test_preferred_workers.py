"""Proves that the same worker, the preferred worker of a bin, serves the bin as long as this worker exists."""

import uuid

from hypothesis import given
from hypothesis import strategies as st

from jobs.throttling.bins import BinSeen, LaneSeen, OpenTurn, TurnPlan
from jobs.throttling.limits import Limits
from jobs.throttling.preferred_workers import prefer_workers, rank_workers

WORKERS = [uuid.UUID(int=number) for number in range(1, 9)]
LIMITS = Limits(4, 0.0)


def first_choices(bins, workers):
    return {bin_id: rank_workers(bin_id, workers)[0] for bin_id in bins}


def plan_of(bin_id, **facts):
    lane = LaneSeen(id=bin_id, bin_id=bin_id, job_id=1, priority=5, served_at=None, **facts.pop("lane", {}))
    return TurnPlan(lane, 10, 1, LIMITS, **facts)


def seen(bin_id, *workers):
    turns = [OpenTurn(number, worker, has_follower=False) for number, worker in enumerate(workers)]
    usual = {"not_before": None, "back_off_until": None, "closed_at": None, "is_known": True, "open_requests": 0}
    return BinSeen(bin_id, LIMITS, turns=turns, **usual)


def prefer(*plans, bins=(), workers=tuple(WORKERS)):
    return [plan.preferred for plan in prefer_workers(plans, bins=bins, workers=workers)]


@given(st.randoms(use_true_random=False), st.integers(1, 1 << 40))
def test_the_order_in_which_workers_are_known_changes_nothing(random, bin_id):
    shuffled = random.sample(WORKERS, len(WORKERS))

    assert rank_workers(bin_id, shuffled) == rank_workers(bin_id, WORKERS)


def test_only_the_bins_of_an_ended_worker_move():
    before, after = first_choices(range(1000), WORKERS), first_choices(range(1000), WORKERS[1:])

    assert {bin_id for bin_id in before if before[bin_id] != after[bin_id]} == {
        bin_id for bin_id, worker in before.items() if worker == WORKERS[0]
    }


def test_bins_are_spread_over_the_workers():
    shares = list(first_choices(range(8000), WORKERS).values())

    assert all(850 < shares.count(worker) < 1150 for worker in WORKERS)


def test_several_turns_of_a_bin_go_to_its_first_preferred_workers():
    assert prefer(plan_of(7), plan_of(7)) == rank_workers(7, WORKERS)[:2]


def test_a_worker_that_serves_the_host_gets_no_second_turn_before_another():
    first, second, *_ = rank_workers(7, WORKERS)

    assert prefer(plan_of(7), bins=[seen(7, first)]) == [second]


def test_the_preferred_worker_of_a_tagged_host_has_the_tag():
    tagged = rank_workers(7, WORKERS)[-1]

    assert prefer(plan_of(7, lane={"tag": "x", "workers": frozenset({tagged})})) == [tagged]


def test_turns_that_need_one_worker_go_to_the_parents_preferred_worker():
    assert set(prefer(plan_of(1, together=99), plan_of(2, together=99))) == {rank_workers(99, WORKERS)[0]}


def test_turns_with_a_chosen_worker_get_no_preferred_worker():
    assert prefer(plan_of(7, worker=WORKERS[0])) == [None]
    assert prefer(plan_of(7), workers=()) == [None]
