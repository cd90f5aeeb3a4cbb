"""
Proves that items of an instance that dies or loses its connection go to other instances only after their leases have
ended.
"""

import datetime as dt
import time

import pytest

from nodes.coordination.port import Refused, Unreachable
from nodes.distributed import DistributedJobManager, Tuning, thread_per_item
from tests.acceptance.distributed.test_sharing import TEN, wait_for_shares
from tests.support.fleet import TIMEOUT
from tests.support.waiting import wait_until

HOUR = dt.timedelta(hours=1)
SECOND = dt.timedelta(seconds=1)


def test_an_item_has_one_holder_despite_faults_of_its_connection(fleet):
    for name in ("djm1", "djm2"):
        fleet.start(name, fleet.job("reports", items=TEN, takes=SECOND / 5))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})

    fleet.proxy_of("djm1").cut()
    wait_for_shares(fleet, "reports", TEN, on={"djm2"})
    fleet.proxy_of("djm1").heal()
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})
    fleet.close("djm1")
    wait_for_shares(fleet, "reports", TEN, on={"djm2"})

    assert fleet.conflicts() == []


def test_a_thousand_items_begin_again_within_two_timeouts_of_a_kill(fleet):
    thousand, timeout = {f"item-{number}" for number in range(1_000)}, 20 * SECOND
    names = ["djm1", "djm2", "djm3"]
    for name in names:
        fleet.start(name, fleet.job("reports", items=thousand, takes=SECOND / 5), timeout=timeout)

    while len(names) > 1:
        shares = wait_for_shares(fleet, "reports", thousand, on=set(names))
        killed, killed_at = names.pop(0), time.monotonic()
        fleet.kill(killed)

        assert seconds_until_begun(fleet, "reports", shares[killed], since=killed_at) < 2 * timeout.total_seconds()
    assert fleet.conflicts() == []


def seconds_until_begun(fleet, job, items, *, since):
    """
    Wait until all these items have begun since a moment. Return the seconds from that moment until the last item began.
    """

    def first_runs():
        runs = sorted(fleet.ledger.runs_of(job, since=since), key=lambda run: -run.began_at)
        return {item: run.began_at for run in runs for item in run.items}

    wait_until(lambda: first_runs().keys() >= items)
    begun = first_runs()
    return max(begun[item] for item in items) - since


def test_a_run_that_loses_its_store_stops_before_its_lease_ends(fleet):
    job = fleet.job("mails", takes=HOUR)
    fleet.start("djm1", job)
    wait_until(lambda: fleet.ledger.runs_of("mails"))

    cut_at = time.monotonic()
    fleet.proxy_of("djm1").cut()
    fleet.start("djm2", fleet.job("mails"))
    wait_until(lambda: job.told_to_stop_at)
    wait_until(lambda: fleet.ledger.runs_of("mails", node="djm2"))

    (told_at,) = job.told_to_stop_at
    # If the connection is cut at the worst moment, half of the lease is left. The run must stop when a sixth is left.
    assert told_at - cut_at > TIMEOUT.total_seconds() / 4
    assert told_at - cut_at < TIMEOUT.total_seconds()
    assert fleet.ledger.runs_of("mails", node="djm2")[0].began_at > told_at
    assert fleet.conflicts() == []


def test_a_cut_off_node_ends_a_short_run_normally_and_begins_no_run(fleet):
    job = fleet.job("mails", takes=SECOND / 2)
    instance = fleet.start("djm1", job)
    wait_until(lambda: fleet.ledger.runs_of("mails"))

    fleet.proxy_of("djm1").cut()
    wait_until(lambda: not instance.status().is_member)

    since = time.monotonic()
    wait_until(lambda: time.monotonic() > since + 1.5)
    assert fleet.ledger.runs_of("mails", since=since) == []
    assert instance.status().jobs["mails"].runs.in_progress == 0
    assert job.told_to_stop_at == []


def test_a_connection_that_is_cut_for_a_moment_disturbs_no_run(fleet):
    job = fleet.job("mails", takes=HOUR)
    fleet.start("djm1", job)
    wait_until(lambda: fleet.ledger.runs_of("mails"))

    fleet.proxy_of("djm1").cut()
    cut_at = time.monotonic()
    wait_until(lambda: time.monotonic() > cut_at + TIMEOUT.total_seconds() / 5)
    fleet.proxy_of("djm1").heal()

    healed_at = time.monotonic()
    wait_until(lambda: time.monotonic() > healed_at + 1.5 * TIMEOUT.total_seconds())
    assert job.told_to_stop_at == []
    assert len(fleet.ledger.runs_of("mails")) == 1


def test_other_instances_share_the_items_of_a_cut_off_instance(fleet):
    for name in ("djm1", "djm2", "djm3"):
        fleet.start(name, fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2", "djm3"})

    fleet.proxy_of("djm3").cut()

    assert sorted(map(len, wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"}).values())) == [5, 5]
    assert fleet.conflicts() == []


def test_a_new_instance_replaces_one_that_was_cut_off_and_killed(fleet):
    fleet.start("djm1", fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1"})
    fleet.proxy_of("djm1").cut(refuses=True)
    fleet.proxy_of("djm1").kill()
    fleet.kill("djm1")

    fleet.start("djm2", fleet.job("reports", items=TEN))

    assert wait_for_shares(fleet, "reports", TEN, on={"djm2"}) == {"djm2": set(TEN)}
    assert fleet.conflicts() == []


def test_items_of_a_killed_instance_wait_for_the_end_of_their_lease(fleet):
    fleet.start("djm1", fleet.job("mails", takes=HOUR))
    wait_until(lambda: fleet.ledger.runs_of("mails"))

    killed_at = time.monotonic()
    fleet.kill("djm1")
    fleet.start("djm2", fleet.job("mails"))
    wait_until(lambda: fleet.ledger.runs_of("mails", node="djm2"))

    (died,) = fleet.ledger.runs_of("mails", node="djm1")
    assert died.has_died
    # If an instance dies at the worst moment, half of its lease is left.
    assert fleet.ledger.runs_of("mails", node="djm2")[0].began_at - killed_at > TIMEOUT.total_seconds() / 3


def test_an_instance_that_was_frozen_runs_only_items_of_its_new_share(fleet):
    job = fleet.job("reports", items=TEN, running=thread_per_item, takes=SECOND / 2)
    frozen = fleet.start("djm1", job)
    fleet.start("djm2", fleet.job("reports", items=TEN, running=thread_per_item, takes=SECOND / 2))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})

    frozen.freeze()
    wait_for_shares(fleet, "reports", TEN, on={"djm2"})
    frozen.thaw()

    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})
    assert fleet.conflicts() == []


def test_all_nodes_continue_after_a_restart_of_the_store(fleet):
    for name in ("djm1", "djm2"):
        fleet.start(name, fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})

    fleet.bench.restart()

    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})
    assert fleet.conflicts() == []


def test_a_main_node_that_is_cut_off_is_replaced(fleet):
    for name in ("djm1", "djm2"):
        fleet.start(name, fleet.job("reports", items=TEN))
    wait_for_shares(fleet, "reports", TEN, on={"djm1", "djm2"})
    (main,) = (name for name, instance in fleet.instances.items() if instance.status().leadership)
    (other,) = fleet.instances.keys() - {main}

    fleet.proxy_of(main).cut()

    wait_until(lambda: fleet.instances[other].status().leadership is not None)
    assert fleet.instances[main].status().leadership is None
    wait_for_shares(fleet, "reports", TEN, on={other})


# --- A store that is unreachable or refuses ------------------------------------------------------


def test_a_starting_node_retries_a_silent_store_and_logs_each_attempt(fleet, caplog):
    fleet.proxy_of("a").cut(refuses=True)

    with pytest.raises(Unreachable):
        fleet.start("a", fleet.job("mails"), tuning=Tuning(start_within=5 * SECOND))

    assert caplog.text.count("node a cannot start yet") >= 1
    fleet.close("a")


def test_a_node_waits_for_a_store_that_answers_late(fleet):
    fleet.proxy_of("a").cut()
    healing = fleet.later(1.0, fleet.proxy_of("a").heal)

    fleet.start("a", fleet.job("mails"))

    healing.join()
    wait_until(lambda: fleet.ledger.runs_of("mails"))


def test_a_zookeeper_path_with_data_of_another_program_is_refused(zookeeper):
    hosts = f"127.0.0.1:{zookeeper.port}"

    with pytest.raises(Refused, match="/zookeeper in ZooKeeper is in use by another application"):
        DistributedJobManager.on_zookeeper(hosts, "/zookeeper", "a", [], timeout=TIMEOUT).start()


@pytest.mark.parametrize("path", ["", "mine", "jobs/mine", "/jobs/", "/jobs//mine", "/jobs/../mine"])
def test_an_invalid_zookeeper_path_is_refused(path):
    with pytest.raises(ValueError, match="is not a path of ZooKeeper: write it as /jobs/mine"):
        DistributedJobManager.on_zookeeper("127.0.0.1:1", path, "a", [])


def test_a_second_start_of_a_manager_is_reported_and_changes_nothing(zookeeper):
    hosts = f"127.0.0.1:{zookeeper.port}"

    with DistributedJobManager.on_zookeeper(hosts, "/jobs/once", "a", [], timeout=TIMEOUT) as manager:
        with pytest.raises(RuntimeError, match="the manager of node a was started already: a manager starts only once"):
            manager.start()
        assert manager.status().is_member

    with pytest.raises(RuntimeError, match="the manager of node a was closed already"):
        manager.start()


def test_data_protected_by_credentials_are_refused_to_other_sessions(zookeeper):
    hosts, path = f"127.0.0.1:{zookeeper.port}", "/guarded/jobs"
    stranger = DistributedJobManager.on_zookeeper(hosts, path, "b", [], timeout=TIMEOUT, credentials="bob:guess")

    with (
        DistributedJobManager.on_zookeeper(hosts, path, "a", [], timeout=TIMEOUT, credentials="ann:secret"),
        pytest.raises(Refused, match="look at the credentials"),
    ):
        stranger.start()
