"""
Proves that instances share the items of their jobs without overlaps, even while instances start and end, and pools
change.
"""

import datetime as dt
import time

from nodes.distributed import Schedule, Tuning, thread_per_item
from tests.support.behaviour import AllToOne, SpreadUntilBroken
from tests.support.fleet import OFTEN
from tests.support.waiting import wait_until

SECOND = dt.timedelta(seconds=1)
TEN = [f"item-{number}" for number in range(10)]


def pairs_of(**pools):
    """Return the items of all jobs as pairs (job, item), as the ledger has them."""
    return {(job, item) for job, items in pools.items() for item in items}


def have_begun_all(fleet, job, items, *, on, since):
    """True if exactly these instances have begun all items since that moment."""
    shares = fleet.ledger.shares(job, since=since)
    return set(shares) == set(on) and set().union(*shares.values()) == set(items)


def wait_for_shares(fleet, job, items, *, on):
    """Wait until exactly these instances share the items without an overlap. Return the items by node."""

    def shares():
        since = time.monotonic()
        wait_until(lambda: {item for _job, item in fleet.ledger.items(job, since=since)} >= set(items))
        found = fleet.ledger.shares(job, since=since)
        disjoint = sum(map(len, found.values())) == len(items)
        return found if disjoint and set(found) == set(on) else None

    return wait_until(shares)


# --- Shares --------------------------------------------------------------------------------------


def test_a_custom_strategy_decides_the_shares(fleet):
    for name in ("c", "b", "a"):
        fleet.start(name, fleet.job("reports", items=TEN), strategy=AllToOne("b"))

    assert wait_for_shares(fleet, "reports", TEN, on={"b"}) == {"b": set(TEN)}


def test_a_strategy_that_loses_items_is_refused_and_all_shares_stay(fleet, caplog):
    instance = fleet.start("a", fleet.job("reports", items=TEN), strategy=SpreadUntilBroken())
    wait_for_shares(fleet, "reports", TEN, on={"a"})
    instance.strategy.is_broken = True

    fleet.start("b", fleet.job("reports", items=TEN), strategy=SpreadUntilBroken(is_broken=True))

    wait_until(lambda: "reports/item-0" in instance.status().refusal)
    assert "the assignment of items stays unchanged: the strategy gave no node to reports/item-0" in caplog.text
    assert wait_for_shares(fleet, "reports", TEN, on={"a"})

    for one in fleet.instances.values():
        one.strategy.is_broken = False
    assert wait_for_shares(fleet, "reports", TEN, on={"a", "b"})
    assert instance.status().refusal == ""


def test_each_item_goes_to_one_capable_instance(fleet):
    pools = {"job-1": ["a", "b", "c"], "job-2": ["d"], "job-3": ["e", "f", "g", "h", "i"]}
    for name, jobs in (("w1", (1, 3)), ("w2", (1, 2, 3)), ("w3", (1, 3))):
        fleet.start(name, *(fleet.job(f"job-{number}", items=pools[f"job-{number}"]) for number in jobs))

    wait_until(lambda: fleet.ledger.items() == pairs_of(**pools))
    shares = wait_until(lambda: len(found := fleet.watcher().read_state().shares) == 9 and found)

    assert {item.job for item, node in shares.items() if node != "w2"} == {"job-1", "job-3"}
    assert {run.node for run in fleet.ledger.runs_of("job-2")} == {"w2"}
    assert fleet.conflicts() == []


def test_a_job_of_a_single_item_runs_on_one_instance(fleet):
    for name in ("a", "b", "c"):
        fleet.start(name, fleet.job("mails"))

    shares = wait_for_shares(
        fleet, "mails", ["singleton"], on=wait_until(lambda: set(fleet.watcher().read_state().shares.values()))
    )

    assert len(shares) == 1
    assert fleet.conflicts() == []


def test_items_are_distributed_again_on_request(fleet):
    for name in ("a", "b"):
        fleet.start(name, fleet.job("reports", items=TEN), strategy=AllToOne("a"))
    wait_for_shares(fleet, "reports", TEN, on={"a"})

    for instance in fleet.instances.values():
        instance.strategy.preferred = "b"
        instance.rebalance()

    assert wait_for_shares(fleet, "reports", TEN, on={"b"})


# --- Instances come and go -----------------------------------------------------------------------


def test_a_new_instance_gets_a_share(fleet):
    fleet.start("djm1", fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1"})

    fleet.start("djm2", fleet.job("reports", items=TEN))

    shares = wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})
    assert sorted(map(len, shares.values())) == [5, 5]
    assert fleet.conflicts() == []


def test_items_of_a_closing_instance_go_to_other_capable_instances(fleet):
    pools = {"job-1": ["a", "b", "c"], "job-2": ["d"], "job-3": ["e", "f", "g", "h", "i"]}
    for name, jobs in (("w1", (1, 3)), ("w2", (1, 2, 3)), ("w3", (1, 2, 3))):
        fleet.start(name, *(fleet.job(f"job-{number}", items=pools[f"job-{number}"]) for number in jobs))
    wait_until(lambda: fleet.ledger.items() == pairs_of(**pools))

    fleet.close("w3")

    closed_at = time.monotonic()
    wait_until(lambda: fleet.ledger.items(since=closed_at) == pairs_of(**pools))
    assert {run.node for run in fleet.ledger.runs_of("job-2", since=closed_at)} == {"w2"}
    assert {run.node for run in fleet.ledger.runs_of(since=closed_at)} == {"w1", "w2"}
    assert fleet.conflicts() == []


def test_the_last_of_two_instances_runs_all_items(fleet):
    for name in ("djm1", "djm2"):
        fleet.start(name, fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})

    fleet.close("djm1")

    assert wait_for_shares(fleet, "reports", TEN, on={"djm2"}) == {"djm2": set(TEN)}


def test_the_last_two_of_three_instances_share_all_items(fleet):
    for name in ("djm1", "djm2", "djm3"):
        fleet.start(name, fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2", "djm3"})

    fleet.close("djm3")

    assert sorted(map(len, wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"}).values())) == [5, 5]


def test_unmoved_items_are_not_disturbed(fleet):
    mails = fleet.job("mails", takes=dt.timedelta(hours=1))
    fleet.start("a", mails, fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"a"})
    wait_until(lambda: fleet.ledger.runs_of("mails"))

    fleet.start("b", fleet.job("reports", items=TEN))

    wait_for_shares(fleet, "reports", TEN, on={"a", "b"})
    assert len(fleet.ledger.runs_of("mails")) == 1
    assert mails.told_to_stop_at == []


# --- Pools change --------------------------------------------------------------------------------


def test_a_changed_pool_is_distributed_again(fleet):
    jobs = [fleet.job("reports", items=TEN, check=OFTEN) for _name in ("a", "b")]
    for name, job in zip(("a", "b"), jobs, strict=True):
        fleet.start(name, job)
    wait_for_shares(fleet, "reports", TEN, on={"a", "b"})

    more = [f"item-{number}" for number in range(20)]
    for job in jobs:
        job.items = more

    assert sorted(map(len, wait_for_shares(fleet, "reports", more, on={"a", "b"}).values())) == [10, 10]
    assert fleet.conflicts() == []


def test_a_check_of_an_unchanged_pool_moves_no_item(fleet):
    takes = dt.timedelta(hours=1)
    job = fleet.job("reports", items=TEN, check=dt.timedelta(milliseconds=50), running=thread_per_item, takes=takes)
    fleet.start("a", job)
    wait_until(lambda: len(fleet.ledger.items()) == 10)

    until = time.monotonic() + 2
    wait_until(lambda: time.monotonic() > until)

    assert len(fleet.ledger.runs_of()) == 10
    assert job.told_to_stop_at == []


# --- The main instance ---------------------------------------------------------------------------


def test_another_instance_becomes_main_node_when_the_first_one_closes(fleet):
    for name in ("a", "b"):
        fleet.start(name, fleet.job("reports", items=TEN))

    def mains():
        return [name for name, instance in fleet.instances.items() if instance.status().leadership is not None]

    (first,) = wait_until(mains)
    fleet.close(first)

    wait_until(lambda: mains() and mains() != [first])
    assert wait_for_shares(fleet, "reports", TEN, on=set(fleet.instances))


def test_the_pool_of_a_job_without_instances_expires_after_its_set_time(fleet):
    slowly = Tuning(clean_every=3600 * SECOND)
    keeper = fleet.start("keeper", tuning=slowly)
    wait_until(lambda: keeper.status().leadership is not None)
    watcher = fleet.watcher()
    fleet.start("a", fleet.job("reports", items=TEN), tuning=slowly)
    fleet.close("a")
    assert set(watcher.read_state().pools) == {"reports"}

    keeper.tuning = Tuning(clean_every=SECOND / 2)

    wait_until(lambda: watcher.read_state().pools == {}, within=5)


def test_all_instances_together_keep_the_rate_of_each_item(fleet):
    for name in ("a", "b"):
        fleet.start(name, fleet.job("reports", items=TEN, every=Schedule.by_rate(OFTEN), running=thread_per_item))
    wait_for_shares(fleet, "reports", TEN, on={"a", "b"})

    since = time.monotonic()
    wait_until(lambda: time.monotonic() > since + 2)

    counts = [sum(item in run.items for run in fleet.ledger.runs_of(since=since)) for item in TEN]
    assert max(counts) <= 24
    assert fleet.conflicts() == []
