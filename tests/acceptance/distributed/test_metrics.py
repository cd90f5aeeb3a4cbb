"""Proves that the counts of a manager of distributed jobs agree with the ledger of its runs."""

import datetime as dt

from nodes.distributed import Tuning
from tests.support.behaviour import at_first
from tests.support.metrics import parse
from tests.support.waiting import wait_until

# Name of a job, as a label value. Label values are in the order of the label names: djmJob, djmNodeId, result.
JOB = "mails.daily-1"
HOUR = dt.timedelta(hours=1)


def scrape(instance):
    return parse(instance.metrics())


def test_runs_and_failures_are_counted_by_the_name_of_the_job(fleet):
    job = fleet.job(JOB, ("ann", "bob", "cy"), fails=at_first)
    instance = fleet.start("a", job, counts=True)
    wait_until(lambda: len(fleet.ledger.runs_of()) > 3)

    assert instance.close()

    shown = scrape(instance)
    runs = len(fleet.ledger.runs_of())
    assert shown["djm_job_mails_daily_1_seconds_count", JOB, "a"] == runs
    assert shown["djm_job_mails_daily_1_active", JOB, "a"] == 0
    assert shown["djm_runs_total", JOB, "a", "failed"] == 1
    assert shown["djm_runs_total", JOB, "a", "ok"] == runs - 1
    assert shown["djm_pool_job_scheduler_run_seconds_count", "a"] == runs


def test_starts_ends_and_each_kind_of_work_are_counted_by_node(fleet):
    instance = fleet.start("a", fleet.job("mails", ("ann", "bob")), fleet.job("reports"), counts=True)
    wait_until(lambda: len(fleet.ledger.items()) == 3)

    working = scrape(instance)
    assert instance.close()
    closed = scrape(instance)

    assert working["djm_init_seconds_count", "a"] == 1
    assert working["djm_init_seconds_sum", "a"] > 0
    assert ("djm_close_seconds_count", "a") not in working
    assert working["djm_scheduled_pool_check_work_pool_tasks_count", "a"] == 2
    assert working["djm_scheduled_pool_cleaning_task_tasks_count", "a"] == 1
    assert working["djm_scheduled_pool_PersistentExpiringLockManager_tasks_count", "a"] == 1
    assert closed["djm_close_seconds_count", "a"] == 1
    for pool in ("rebalance", "update_assignment", "check_work_pool"):
        assert closed[f"djm_pool_{pool}_run_seconds_count", "a"] > 0
        assert closed[f"djm_pool_{pool}_activeThreads", "a"] == 0
    for pool in ("job_scheduler", "check_work_pool", "cleaning_task", "PersistentExpiringLockManager"):
        assert closed[f"djm_scheduled_pool_{pool}_tasks_count", "a"] == 0


def test_metrics_of_shares_pools_and_moves_agree_with_the_cluster(fleet):
    items = tuple(f"item-{number}" for number in range(6))
    first = fleet.start("a", fleet.job("mails", items), counts=True)
    wait_until(lambda: scrape(first).get(("djm_share_items", "mails", "a")) == 6)

    second = fleet.start("b", fleet.job("mails", items), counts=True)

    wait_until(lambda: scrape(second).get(("djm_share_items", "mails", "b")) == 3)
    wait_until(lambda: scrape(first)["djm_share_items", "mails", "a"] == 3)
    shown = scrape(first) | scrape(second)
    assert shown["djm_work_pool_items", "mails", "a"] == 6
    assert shown["djm_work_pool_problem", "mails", "a"] == 0
    assert sum(amount for key, amount in shown.items() if key[0] == "djm_items_moved_total") >= 3


def test_a_node_shows_whether_it_is_a_member_and_main(fleet):
    first = fleet.start("a", fleet.job("mails"), counts=True)
    wait_until(lambda: scrape(first)["djm_main", "a"] == 1)
    second = fleet.start("b", fleet.job("mails"), counts=True)
    assert scrape(second)["djm_member", "b"] == 1
    assert scrape(second)["djm_main", "b"] == 0

    fleet.proxy_of("a").cut()

    wait_until(lambda: scrape(first)["djm_member", "a"] == scrape(first)["djm_main", "a"] == 0)
    wait_until(lambda: scrape(second)["djm_main", "b"] == 1)


def test_runs_are_counted_as_waiting_until_they_start(fleet):
    instance = fleet.start("a", fleet.job("mails", every=HOUR, first=HOUR), counts=True)

    wait_until(lambda: scrape(instance).get(("djm_scheduled_pool_job_scheduler_tasks_count", "a")) == 1)
    assert fleet.ledger.runs_of() == []


def test_clean_ups_are_counted_at_the_main_node(fleet):
    tuning = Tuning(clean_every=dt.timedelta(seconds=0.2))
    instance = fleet.start("a", fleet.job("mails"), counts=True, tuning=tuning)

    wait_until(lambda: scrape(instance).get(("djm_pool_cleaning_task_run_seconds_count", "a"), 0) > 1)


def test_metrics_show_a_pool_that_cannot_be_read(fleet):
    instance = fleet.start("a", fleet.job("mails", RuntimeError("no such table")), counts=True)

    wait_until(lambda: scrape(instance).get(("djm_work_pool_problem", "mails", "a")) == 1)
    assert scrape(instance)["djm_work_pool_items", "mails", "a"] == 0
