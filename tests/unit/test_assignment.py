"""Proves properties of every plan of the assignment strategies, and the number of moves."""

import itertools
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.assignment.evenly import evenly
from nodes.assignment.weighted import weighted
from tests.support.tables import each_row

HOLDERS = ["a", "b", "c", "d"]
WHOLE_WEIGHTS = st.integers(1, 9)
STRATEGIES = pytest.mark.parametrize("strategy", [evenly, weighted])


@st.composite
def _situations(draw, *, items=12, weights=WHOLE_WEIGHTS):
    """Draw available holders, weights of items, and a previous holder of each item, which may be unavailable."""
    available = draw(st.sets(st.sampled_from(HOLDERS), min_size=1))
    count = draw(st.integers(0, items))
    previous = {item: draw(st.sampled_from([*HOLDERS, None])) for item in range(count)}
    return available, previous, {item: float(draw(weights)) for item in previous}


def loads_of(assignment, *, available, weights):
    loads = dict.fromkeys(available, 0.0)
    for item, holder in assignment.items():
        loads[holder] += weights[item]
    return loads


def moves_of(assignment, *, previous, available):
    """Return the number of items that leave an available holder."""
    return sum(previous[item] in available and previous[item] != holder for item, holder in assignment.items())


def is_balanced(assignment, *, available, weights):
    loads = loads_of(assignment, available=available, weights=weights)
    return all(
        loads[holder] - loads[other] <= weights[item] for item, holder in assignment.items() for other in available
    )


def fewest_moves(*, previous, available, weights):
    """Return the fewest moves of a balanced assignment, found by trying every assignment."""
    every = itertools.product(sorted(available), repeat=len(previous))
    assignments = (dict(zip(previous, holders, strict=True)) for holders in every)
    return min(
        moves_of(one, previous=previous, available=available)
        for one in assignments
        if is_balanced(one, available=available, weights=weights)
    )


@STRATEGIES
@given(_situations())
def test_every_item_has_one_available_holder(strategy, situation):
    available, previous, weights = situation

    assignment = strategy(available=available, previous=previous, weights=weights)

    assert assignment.keys() == previous.keys()
    assert set(assignment.values()) <= available


@STRATEGIES
@given(_situations(), st.randoms())
def test_the_order_of_the_input_does_not_matter(strategy, situation, random):
    available, previous, weights = situation
    shuffled = list(previous.items())
    random.shuffle(shuffled)

    plans = [
        strategy(available=some, previous=held, weights=weights)
        for some, held in ((available, previous), (sorted(available, reverse=True), dict(shuffled)))
    ]

    assert plans[0] == plans[1]


@STRATEGIES
@given(_situations())
def test_balanced_shares_stay(strategy, situation):
    available, previous, weights = situation
    balanced = strategy(available=available, previous=previous, weights=weights)

    assert strategy(available=available, previous=balanced, weights=weights) == balanced


@STRATEGIES
def test_no_item_is_assigned_without_an_available_node(strategy):
    assert strategy(available=[], previous={1: "a"}, weights={}) == {}


@given(_situations())
def test_strategy_evenly_gives_shares_that_differ_by_one_item_at_most(situation):
    available, previous, weights = situation

    assignment = evenly(available=available, previous=previous, weights=weights)

    counts = Counter(dict.fromkeys(available, 0))
    counts.update(assignment.values())
    assert max(counts.values()) - min(counts.values()) <= 1


@given(_situations(items=6))
def test_strategy_evenly_makes_the_fewest_moves(situation):
    available, previous, _weights = situation

    assignment = evenly(available=available, previous=previous, weights={})

    assert moves_of(assignment, previous=previous, available=available) == fewest_moves(
        previous=previous, available=available, weights=dict.fromkeys(previous, 1.0)
    )


@given(_situations())
def test_no_single_move_makes_a_plan_of_strategy_weighted_more_even(situation):
    available, previous, weights = situation

    assignment = weighted(available=available, previous=previous, weights=weights)

    assert is_balanced(assignment, available=available, weights=weights)


@given(_situations(items=6))
def test_strategy_weighted_makes_at_most_two_moves_more_than_needed(situation):
    available, previous, weights = situation

    assignment = weighted(available=available, previous=previous, weights=weights)

    fewest = fewest_moves(previous=previous, available=available, weights=weights)
    assert fewest <= moves_of(assignment, previous=previous, available=available) <= fewest + 2


@given(_situations(weights=st.floats(0, 100, allow_subnormal=False) | st.sampled_from([100.0, 1e-14, 2e-14])))
def test_fractional_weights_reach_a_stable_balance(situation):
    available, previous, weights = situation

    assignment = weighted(available=available, previous=previous, weights=weights)

    assert weighted(available=available, previous=assignment, weights=weights) == assignment


@each_row("light", [1e-14, 1e-13, 1e-300, 5e-324, 0.1 + 0.2 - 0.3])
def test_a_very_light_item_does_not_move_back_and_forth(light):
    previous, weights = {1: "a", 2: "b", 3: "a"}, {1: 100.0, 2: 100.0, 3: light}

    assert weighted(available=["a", "b"], previous=previous, weights=weights) == previous


def test_items_without_weight_are_also_spread():
    assignment = weighted(available=["a", "b"], previous=dict.fromkeys(range(4)), weights=dict.fromkeys(range(4), 0.0))

    assert Counter(assignment.values()) == {"a": 2, "b": 2}


def test_kept_items_add_to_the_load_of_their_node_and_do_not_move():
    assignment = weighted(
        available=["a", "b"], previous=dict.fromkeys([1, 2, 3]), weights={9: 3.0}, kept={9: "a", 8: "gone"}
    )

    assert assignment == {1: "b", 2: "b", 3: "b"}


def test_a_newcomer_gets_its_share_and_no_other_node_is_disturbed():
    previous = {item: "a" if item < 6 else "b" for item in range(12)}

    assignment = evenly(available=["a", "b", "c"], previous=previous, weights={})

    moved = {item: holder for item, holder in assignment.items() if holder != previous[item]}
    assert Counter(moved.values()) == {"c": 4}


# Scenarios of the reference with its number of moves. The strategy "evenly" may make fewer moves, but not more.
@each_row(
    ("held", "available", "expected"),
    [
        ("0001", "01", 1),
        ("0001", "012", 1),
        ("001122", "012", 0),
        ("00", "012", 1),
        ("000000", "01", 3),
        ("001122", "01", 2),
    ],
)
def test_scenarios_of_the_reference_need_at_most_its_number_of_moves(held, available, expected):
    previous = dict(enumerate(held))

    assignment = evenly(available=available, previous=previous, weights={})

    assert sum(assignment[item] != holder for item, holder in previous.items()) <= expected
