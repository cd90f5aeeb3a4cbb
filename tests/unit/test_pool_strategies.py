"""Proves properties of every plan of the pool strategies, and the figures that DJM publishes."""

import itertools
from collections import Counter
from importlib.metadata import EntryPoints

import mmh3
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodes.assignment import names
from nodes.assignment.pools import Situation, StrategyRefused, WorkItem, chained, share_out
from nodes.assignment.rendezvous import evenly_rendezvous, rendezvous
from nodes.assignment.spread import evenly_spread, weighted_spread
from tests.support.tables import each_row

NODES = ["w0", "w1", "w2", "w3"]
JOBS = ["a", "b", "c"]
ALL = pytest.mark.parametrize("strategy", [evenly_spread, weighted_spread, rendezvous, evenly_rendezvous])
EVEN = pytest.mark.parametrize("strategy", [evenly_spread, evenly_rendezvous])


@st.composite
def situations(draw, *, items=8, jobs=JOBS, nodes=NODES):
    """
    Draw pools, the nodes that can run each pool, and previous holders: these nodes, and a node that no longer exists.
    """
    pools = {job: [f"i{number}" for number in range(draw(st.integers(0, items)))] for job in jobs}
    available = {job: draw(st.sets(st.sampled_from(nodes))) for job in jobs}
    every = [WorkItem(job, item) for job, pool in pools.items() for item in pool]
    held = {item: draw(st.sampled_from([*nodes, "gone", None])) for item in every}
    previous = {item: node for item, node in held.items() if node is not None}
    return Situation(
        pools=pools, available=available, previous=previous, weights={item: draw(st.integers(1, 5)) for item in every}
    )


def counts_of(shares, *, job, nodes):
    counts = Counter(dict.fromkeys(nodes, 0))
    counts.update(node for item, node in shares.items() if item.job == job)
    return counts


def is_even(shares, situation):
    for job, nodes in situation.available.items():
        if nodes:
            counts = counts_of(shares, job=job, nodes=nodes).values()
            if max(counts) - min(counts) > 1:
                return False
    return True


def moves(shares, previous):
    """Return the number of items that a plan gives to a node other than their previous holder."""
    return sum(previous.get(item) != node for item, node in shares.items())


@ALL
@given(situation=situations())
def test_every_feasible_item_has_one_capable_node(strategy, situation):
    shares = share_out(strategy, situation)

    there = {WorkItem(job, item) for job, pool in situation.pools.items() if situation.available[job] for item in pool}
    assert shares.keys() == there
    assert all(node in situation.available[item.job] for item, node in shares.items())


@EVEN
@given(situation=situations())
def test_each_job_is_even_over_the_nodes_that_can_do_it(strategy, situation):
    assert is_even(share_out(strategy, situation), situation)


@ALL
@given(situation=situations(), random=st.randoms())
def test_the_order_of_the_input_does_not_matter(strategy, situation, random):
    def shuffled(mapping):
        return dict(random.sample(list(mapping.items()), len(mapping)))

    other = Situation(
        pools=shuffled({job: random.sample(pool, len(pool)) for job, pool in situation.pools.items()}),
        available=shuffled({job: sorted(nodes, reverse=True) for job, nodes in situation.available.items()}),
        previous=shuffled(situation.previous),
        weights=situation.weights,
    )

    assert share_out(strategy, other) == share_out(strategy, situation)


@ALL
@given(situation=situations())
def test_no_item_moves_without_a_change(strategy, situation):
    shares = share_out(strategy, situation)

    again = Situation(pools=situation.pools, available=situation.available, previous=shares, weights=situation.weights)

    assert share_out(strategy, again) == shares


@given(situation=situations(items=3, jobs=["a", "b"], nodes=NODES[:3]))
def test_evenly_spread_makes_the_fewest_moves_of_all_even_plans(situation):
    every = [WorkItem(job, item) for job, pool in situation.pools.items() if situation.available[job] for item in pool]
    plans = itertools.product(*(sorted(situation.available[item.job]) for item in every))
    even = (plan for nodes in plans if is_even(plan := dict(zip(every, nodes, strict=True)), situation))

    fewest = min(moves(plan, situation.previous) for plan in even)

    assert moves(share_out(evenly_spread, situation), situation.previous) == fewest


@given(situation=situations(), gone=st.sampled_from(NODES))
def test_rendezvous_moves_only_the_items_of_an_ended_node(situation, gone):
    before = share_out(rendezvous, situation)
    left = {job: nodes - {gone} for job, nodes in situation.available.items()}

    after = share_out(rendezvous, Situation(pools=situation.pools, available=left))

    assert all(before[item] in {node, gone} for item, node in after.items())


@ALL
def test_shares_match_the_availability_if_each_job_has_one_node(strategy):
    situation = Situation(
        pools={"job-A": ["A0"], "job-B": ["B0"], "job-C": ["C0"]},
        available={"job-A": ["worker-0"], "job-B": ["worker-1"], "job-C": ["worker-2"]},
    )

    assert share_out(strategy, situation) == {
        ("job-A", "A0"): "worker-0",
        ("job-B", "B0"): "worker-1",
        ("job-C", "C0"): "worker-2",
    }


def test_jobs_of_one_item_are_spread_over_the_nodes():
    jobs = [f"singleton-{number}" for number in range(8)]

    shares = share_out(
        evenly_spread,
        Situation(pools=dict.fromkeys(jobs, ("all",)), available=dict.fromkeys(jobs, NODES)),
    )

    assert Counter(shares.values()) == dict.fromkeys(NODES, 2)


# --- DJM's figures -------------------------------------------------------------------------------

# For each job: the items of each worker (separated by blanks). Then follow the number of workers, the largest number of
# items that evenly spread moves, and the exact number that rendezvous moves.
PUBLISHED = [
    ({"job-0": "012 3"}, 2, 1, 2),
    ({"job-0": "012 3"}, 3, 1, 2),
    ({"job-0": "01 23 45"}, 3, 0, 2),
    ({"job-0": "01", "job-1": "- 23 45"}, 3, 2, 3),
    ({"job-0": "- 0", "job-1": "123 456", "job-2": "7 8"}, 3, 2, 5),
    ({"job-0": "0 1", "job-1": "2 3", "job-2": "4 5", "job-3": "6 7"}, 3, 0, 6),
    ({"job-0": "01234", "job-1": "56789", "job-2": "A", "job-3": "BC"}, 6, 9, 10),
    ({"job-1": "01 23 45"}, 2, 2, 4),
    ({"job-0": "0 1 2", "job-1": "36 4 5", "job-2": "- 7", "job-3": "9 A 8"}, 2, 3, 10),
]


def published_situation(held, workers):
    previous = {
        WorkItem(job, f"work-item-{int(item, 16)}"): f"worker-{number}"
        for job, by_worker in held.items()
        for number, items in enumerate(by_worker.split())
        for item in items.strip("-")
    }
    return Situation(
        pools={job: [item.item for item in previous if item.job == job] for job in held},
        available={job: [f"worker-{number}" for number in range(workers)] for job in held},
        previous=previous,
    )


@each_row(("held", "workers", "spread", "hashed"), PUBLISHED)
def test_as_many_items_move_as_djm_publishes(held, workers, spread, hashed):
    situation = published_situation(held, workers)

    assert moves(share_out(rendezvous, situation), situation.previous) == hashed
    assert moves(share_out(evenly_spread, situation), situation.previous) <= spread


@each_row(
    ("held", "workers", "expected"),
    [(*row[:2], expected) for row, expected in zip(PUBLISHED, [3, 3, 3, 2, 6, 7, 12, 5], strict=False)],
)
def test_evenly_rendezvous_moves_as_many_items_as_the_rules_of_djm(held, workers, expected):
    situation = published_situation(held, workers)

    assert moves(share_out(evenly_rendezvous, situation), situation.previous) == expected


def test_the_hash_equals_that_of_other_implementations_of_murmur3():
    # The vectors of MurmurHash3_x64_128 that Guava, Cassandra and others test against.
    assert mmh3.hash64("", seed=0)[0] == 0
    assert mmh3.hash64("hello", seed=0, signed=False)[0] == 0xCBD8A7B341BD9B02
    assert mmh3.hash64("hello, world", seed=0, signed=False)[0] == 0x342FAC623A5EBC8E
    assert mmh3.hash64("19 Jan 2038 at 3:14:07 AM", seed=0, signed=False)[0] == 0xB89E5988B737AFFC


@EVEN
def test_a_cluster_that_is_rebooted_node_by_node_stays_even(strategy):
    sizes = [1] * 32 + [2] * 4 + [3] * 5 + [16] * 2 + [285]
    pools = {f"job-{number}": [f"item-{item}" for item in range(size)] for number, size in enumerate(sizes)}
    everybody = {f"worker-{number}" for number in range(8)}
    previous = {}

    for away in [None, *sorted(everybody)]:
        for there in (everybody - {away}, everybody):
            situation = Situation(pools=pools, available=dict.fromkeys(pools, there), previous=previous)
            previous = share_out(strategy, situation)
            assert is_even(previous, situation)
            assert len(previous) == 372


# --- Chains, names and mistakes ------------------------------------------------------------------


def _ussd_stays(situation, placed):
    item = WorkItem("ussd", "all")
    return {item: situation.previous.get(item, situation.nodes_of("ussd")[0])}


def _sms_away_from_ussd(situation, placed):
    taken = placed[WorkItem("ussd", "all")]
    others = [node for node in situation.nodes_of("sms") if node != taken]
    items = situation.to_place("sms", placed=placed)
    return {WorkItem("sms", item): others[number % len(others)] for number, item in enumerate(items)}


def test_a_chain_lets_each_strategy_place_the_remaining_items():
    pools = {"ussd": ["all"], "sms": ["0", "1", "2"], "rebill": list("0123456")}
    situation = Situation(pools=pools, available=dict.fromkeys(pools, NODES), previous={WorkItem("ussd", "all"): "w2"})

    shares = share_out(chained(_ussd_stays, _sms_away_from_ussd, evenly_spread), situation)

    assert shares[WorkItem("ussd", "all")] == "w2"
    assert "w2" not in {node for item, node in shares.items() if item.job == "sms"}
    totals = Counter(shares.values()).values()
    assert max(totals) - min(totals) <= 1


SITUATION = Situation(pools={"a": ["0", "1"], "idle": ["0"]}, available={"a": ["w0"]})


@each_row(
    ("shares", "sentence"),
    [
        ({("a", "0"): "w0"}, "the strategy gave no node to a/1; each item of a pool needs one"),
        ({("a", "0"): "w0", ("a", "1"): "w0", ("a", "2"): "w0"}, "the strategy placed a/2, which no pool has"),
        (
            {("a", "0"): "w0", ("a", "1"): "w9"},
            "the strategy placed a/1 on w9, where that job cannot run",
        ),
        (
            {("a", "0"): "w0", ("a", "1"): "w0", ("idle", "0"): "w0"},
            "the strategy placed idle/0 on w0, where that job cannot run",
        ),
    ],
)
def test_a_strategy_that_loses_or_invents_items_is_refused_by_name(shares, sentence):
    def mistaken(situation, placed):
        return {WorkItem(*item): node for item, node in shares.items()}

    with pytest.raises(StrategyRefused, match=f"^{sentence}$"):
        share_out(mistaken, SITUATION)


def test_a_strategy_of_a_chain_may_not_move_items_placed_by_earlier_ones():
    def mistaken(situation, placed):
        return {WorkItem("a", "0"): "w0"}

    with pytest.raises(StrategyRefused, match="placed a/0, which an earlier strategy has placed"):
        share_out(chained(evenly_spread, mistaken), SITUATION)


@each_row(
    ("name", "strategy"),
    [
        ("evenly-rendezvous", evenly_rendezvous),
        ("evenly-spread", evenly_spread),
        ("rendezvous", rendezvous),
        ("weighted-spread", weighted_spread),
    ],
)
def test_each_built_in_strategy_has_a_name(name, strategy):
    assert names.strategy_named(name) is strategy


def _added(monkeypatch, **places):
    text = f"[{names.GROUP}]\n" + "\n".join(f"{name.replace('_', '-')}={place}" for name, place in places.items())
    monkeypatch.setattr(
        names, "entry_points", lambda group: EntryPoints(EntryPoints._from_text(text)).select(group=group)
    )


def test_an_installed_strategy_is_found_and_can_be_chained(monkeypatch):
    monkeypatch.setattr("nodes.assignment.spread.keep_ussd", _ussd_stays, raising=False)
    _added(monkeypatch, keep_ussd="nodes.assignment.spread:keep_ussd")
    pools = {"ussd": ["all"], "rebill": ["0", "1", "2"]}
    ussd = WorkItem("ussd", "all")
    situation = Situation(pools=pools, available=dict.fromkeys(pools, NODES), previous={ussd: "w2"})

    shares = share_out(names.strategy_named("keep-ussd, evenly-spread"), situation)

    assert shares[ussd] == "w2"
    assert sorted(shares.values()) == NODES


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "even",
            "there is no strategy 'even'; there are: broken, evenly-rendezvous, evenly-spread, number, rendezvous",
        ),
        ("evenly-spread,", "there is no strategy ''"),
        ("broken", r"the strategy broken \(nodes.nowhere:it\) cannot be loaded: No module"),
        ("number", r"the strategy number \(math:pi\) cannot be called"),
    ],
)
def test_the_name_of_a_missing_strategy_is_refused(monkeypatch, name, sentence):
    _added(monkeypatch, broken="nodes.nowhere:it", number="math:pi")

    with pytest.raises(names.NoSuchStrategy, match=f"^{sentence}"):
        names.strategy_named(name)
