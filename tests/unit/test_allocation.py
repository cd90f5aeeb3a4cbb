"""Proves on snapshots of clusters that each group goes to the right manager."""

import dataclasses
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.assignment.weighted import weighted
from nodes.decisions.allocate import Give, allocate, rebalance
from nodes.decisions.hand_over import LetGo, MoveRefused, Release, TakeBack, let_go, move
from nodes.decisions.items import ItemSeen, ItemState, ManagerSeen
from nodes.lifecycle import NodeStatus
from tests.support.cluster import TIMEOUT, seconds
from tests.support.tables import each_row

A, B, C, GONE = (UUID(int=number) for number in range(1, 5))


def manager(id_, status=NodeStatus.RUNNING, **facts):
    return ManagerSeen(id=id_, status=status, **facts)


def draining(id_):
    return manager(id_, NodeStatus.DRAINING)


def owned(id_, owner, **facts):
    return ItemSeen(id=id_, **({"owner": owner, "epoch": 1, "state": ItemState.OWNED} | facts))


def free(id_, **facts):
    return owned(id_, None, state=ItemState.FREE, **facts)


def releasing(id_, owner, *, to, **facts):
    return owned(id_, owner, state=ItemState.RELEASING, destination=to, **facts)


def allocated(*items, among):
    return allocate(items=items, managers=among, strategy=weighted, timeout=TIMEOUT)


# --- Free items ------------------------------------------------------------------------------------


def test_a_free_item_goes_to_the_least_loaded_node():
    assert allocated(owned(1, A), owned(2, A), owned(3, B), free(4), among=[manager(A), manager(B)]) == (
        Give(item=4, owner=None, epoch=1, to=B),
    )


def test_groups_of_a_lost_manager_are_spread_over_all_other_managers():
    items = [owned(1, A), owned(2, B), *(owned(number, GONE) for number in (3, 4, 5, 6))]

    given_to = [action.to for action in allocated(*items, among=[manager(A), manager(B)])]

    assert sorted(given_to) == [A, A, B, B]


def test_a_free_item_goes_to_the_least_weight_and_not_to_the_fewest_items():
    items = [owned(1, A, weight=5.0), owned(2, B), owned(3, B), free(4)]

    assert [action.to for action in allocated(*items, among=[manager(A), manager(B)])] == [B]


def test_a_silent_manager_gets_no_group_and_keeps_its_groups_until_it_fails():
    silent = manager(B, is_silent=True)

    assert allocated(owned(1, B), owned(2, A), free(3), among=[manager(A), silent]) == (
        Give(item=3, owner=None, epoch=1, to=A),
    )


@each_row("status", [NodeStatus.STARTING, NodeStatus.DRAINING])
def test_without_a_working_manager_no_group_moves(status):
    assert allocated(free(1), owned(2, A), among=[manager(A, status)]) == ()


# --- Moves -----------------------------------------------------------------------------------------


def test_a_manager_without_groups_gets_its_share():
    items = [*(owned(number, A) for number in (1, 2, 3)), *(owned(number, B) for number in (4, 5, 6))]

    actions = allocated(*items, among=[manager(A), manager(B), manager(C)])

    assert all(isinstance(action, Release) and action.to == C for action in actions)
    assert len(actions) == 2


def test_uneven_shares_stay_if_each_manager_has_a_group():
    items = [*(owned(number, A) for number in (1, 2, 3, 4)), owned(5, B)]

    assert allocated(*items, among=[manager(A), manager(B)]) == ()


def test_a_manager_that_awaits_a_group_gets_no_further_share():
    items = [owned(1, A), owned(2, A), owned(3, A), releasing(4, A, to=B)]

    assert allocated(*items, among=[manager(A), manager(B)]) == ()


def test_groups_of_a_draining_manager_are_moved_to_the_other_managers():
    items = [owned(1, A), owned(2, B), owned(3, C)]

    assert allocated(*items, among=[draining(A), manager(B), manager(C)]) == (Release(item=1, owner=A, epoch=1, to=B),)


def test_a_move_whose_owner_ended_finishes_at_its_target():
    item = releasing(1, GONE, to=B)

    assert allocated(item, owned(2, A), among=[manager(A), manager(B)]) == (TakeBack(item=1, epoch=1, to=B),)


def test_the_main_ends_a_move_whose_owner_does_not_release_in_time():
    asked_lately = releasing(1, A, to=B, releasing_for=TIMEOUT)
    overdue = dataclasses.replace(asked_lately, releasing_for=TIMEOUT + seconds(0.1))

    assert allocated(asked_lately, among=[manager(A), manager(B)]) == ()
    assert allocated(overdue, among=[manager(A), manager(B)]) == (TakeBack(item=1, epoch=1, to=B),)


def test_a_move_to_a_manager_that_ended_meanwhile_goes_to_another():
    item = releasing(1, GONE, to=B)

    assert allocated(item, among=[manager(A), draining(B)]) == (TakeBack(item=1, epoch=1, to=A),)


# --- The owner's part --------------------------------------------------------------------------------


def test_the_owner_releases_exactly_the_groups_that_leave_it():
    items = [releasing(1, A, to=B), owned(2, A), releasing(3, C, to=B)]

    assert let_go(items=items, managers=[manager(A), manager(B)], me=A) == (LetGo(item=1, owner=A, epoch=1, to=B),)


def test_groups_that_move_to_a_lost_manager_become_free():
    assert let_go(items=[releasing(1, A, to=GONE)], managers=[manager(A)], me=A) == (
        LetGo(item=1, owner=A, epoch=1, to=None),
    )


# --- Manual moves ------------------------------------------------------------------------------------


def test_a_rebalance_evens_an_uneven_share():
    items = [owned(number, A) for number in range(6)]

    moves = rebalance(items=items, managers=[manager(A), manager(B), manager(C)], strategy=weighted)

    assert sorted(action.to for action in moves) == [B, B, C, C]


def test_an_item_can_be_moved_by_hand():
    assert move(owned(1, A), to=manager(B), managers=[manager(A), manager(B)]) == Release(
        item=1, owner=A, epoch=1, to=B
    )


def test_moving_an_item_to_its_present_owner_changes_nothing():
    assert move(owned(1, A), to=manager(A), managers=[manager(A)]) is None


@each_row(
    ("item", "to", "sentence"),
    [
        (releasing(1, A, to=C), manager(B), "is moving already"),
        (free(1), manager(B), "has no owner"),
        (owned(1, GONE), manager(B), "has no owner"),
        (owned(1, A), draining(B), "is draining"),
        (owned(1, A), manager(B, NodeStatus.STARTING), "is not running"),
    ],
)
def test_an_impossible_move_is_refused_with_a_reason(item, to, sentence):
    with pytest.raises(MoveRefused, match=sentence):
        move(item, to=to, managers=[manager(A), to])


# --- Properties --------------------------------------------------------------------------------------

_MANAGERS = st.fixed_dictionaries(
    {id_: st.sampled_from([None, NodeStatus.RUNNING, NodeStatus.DRAINING]) for id_ in (A, B, C)}
)
_OWNERS = st.sampled_from([None, A, B, C, GONE])


def _apply(item, actions):
    """Return the item after its action and after its owner's reaction."""
    action = next((action for action in actions if action.item == item.id), None)
    if action is None:
        return item
    if item.state == ItemState.RELEASING or not isinstance(action, Release):
        return owned(item.id, action.to, epoch=item.epoch + 1, weight=item.weight)
    return owned(item.id, action.to, epoch=item.epoch + 1, weight=item.weight)


@given(_MANAGERS, st.lists(st.tuples(_OWNERS, st.integers(1, 5)), max_size=12))
def test_all_items_go_to_working_managers_and_then_no_more_moves_follow(there, held):
    managers = [manager(id_, status) for id_, status in there.items() if status is not None]
    items = [
        owned(number, owner, weight=float(weight), state=ItemState.OWNED if owner else ItemState.FREE)
        for number, (owner, weight) in enumerate(held)
    ]
    at_work = {one.id for one in managers if one.takes}

    after = [_apply(item, allocated(*items, among=managers)) for item in items]

    if at_work:
        assert {item.owner for item in after} <= at_work
        # A new manager may get more items in a second round, because the heavy items move first.
        settled = [_apply(item, allocated(*after, among=managers)) for item in after]
        assert allocated(*settled, among=managers) == ()
