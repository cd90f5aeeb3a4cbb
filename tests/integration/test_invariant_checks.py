"""The main manager checks the invariants, and counts and names each violation."""

import datetime as dt
import logging

import pytest

from jobs.duties import check
from jobs.duties.check import VIOLATIONS, check_invariants
from jobs.duties.context import Pass
from jobs.lifecycle.document import Stage
from jobs.models import Batch, Bin, BinState, CounterDelta, InvariantCheck, ThrottleGroup
from jobs.queue.offering.stuff import stuff
from jobs.queue.take import take
from nodes.membership.fences import FenceRefused, TermHeld
from nodes.models import Node
from tests.support.cluster import NOON, elect_main, register_node
from tests.support.factories import make_bin, make_documents, make_lane, make_policy, make_running_job

LONG_AGO = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@pytest.fixture(autouse=True)
def samples_from_the_first_row(monkeypatch):
    monkeypatch.setattr(check.random, "random", lambda: 0.0)


class Crawl:
    """A job in the middle of its run. A worker has some of its four documents."""

    def __init__(self, connection, **limits):
        self.connection = connection
        self.manager = register_node(connection, "manager")
        self.worker = register_node(connection, "worker")
        self.term = elect_main(connection, self.manager)
        self.running = make_running_job(self.manager, policy=make_policy(open_requests=2, **limits))
        self.lane = make_lane(self.running.seed)
        make_documents(self.lane, 4)
        CounterDelta.objects.create(
            job_id=self.running.job.pk,
            lane_id=self.lane.pk,
            run_no=self.running.job.run_no,
            measure="stage",
            stage=Stage.PENDING,
            amount=4,
        )
        stuff(connection, manager=self.manager.id, group=self.running.group, room=100, workers=1, now=NOON)
        take(connection, worker=self.worker.id, room=2, idle=True, now=NOON)

    def check(self, term=None):
        """Return the violations that the main manager finds, by invariant."""
        at = Pass(
            connection=self.connection,
            me=self.manager.id,
            scope="cluster",
            now=NOON,
            term=term or self.term,
            groups=(),
        )
        check_invariants(at)
        return {row.name: row.found for row in InvariantCheck.objects.all()}

    def example(self, name):
        return InvariantCheck.objects.get(name=name).example


@pytest.fixture
def crawl(connection):
    return Crawl(connection)


def end(node):
    Node.objects.filter(pk=node.id).update(status="failed", stopped_at=LONG_AGO)


def test_all_invariants_hold_in_the_middle_of_a_crawl(crawl):
    assert crawl.check() == dict.fromkeys(InvariantCheck.Name.values, 0)


def test_a_group_of_a_long_lost_owner_is_found(crawl):
    end(crawl.manager)

    assert crawl.check()["owners"] == 1
    assert "owned by the failed manager" in crawl.example("owners")


def test_a_group_that_a_worker_owns_is_found(crawl):
    ThrottleGroup.objects.update(owner=crawl.worker.id)

    assert crawl.check()["owners"] == 1


def test_claimed_documents_of_an_ended_batch_are_found(crawl):
    Batch.objects.update(state="done")

    assert crawl.check()["claims"] >= 2
    assert "which is done" in crawl.example("claims")


def test_a_batch_of_a_long_lost_worker_is_found(crawl):
    end(crawl.worker)

    assert crawl.check()["workers"] == Batch.objects.filter(state="sent").count() > 0
    assert "sent to the failed worker" in crawl.example("workers")


def test_a_counted_place_without_an_open_turn_is_found(crawl):
    BinState.objects.update(open_requests=7)
    make_bin("idle.example", state={"open_turns": 1})

    assert crawl.check()["places"] == 2
    assert "7 requests are counted" in crawl.example("places")


def test_places_below_shared_limits_are_also_checked(connection):
    crawl = Crawl(connection, total_open_requests=9)
    total = BinState.objects.filter(bin__namespace=Bin.POLICY)
    assert total.get().open_requests > 0
    assert crawl.check()["places"] == 0

    total.update(open_requests=9)

    assert crawl.check()["places"] == 1
    assert "9 requests are counted" in crawl.example("places")


def test_a_count_that_differs_from_its_rows_is_found(crawl):
    CounterDelta.objects.create(
        job_id=crawl.running.job.pk,
        lane_id=crawl.lane.pk,
        run_no=crawl.running.job.run_no,
        measure="stage",
        stage=Stage.PENDING,
        amount=1,
    )

    assert crawl.check()["counts"] == 1
    assert f"lane {crawl.lane.pk}: 1 more" in crawl.example("counts")


def test_a_broken_invariant_is_logged(crawl, caplog):
    BinState.objects.update(open_requests=7)

    with caplog.at_level(logging.ERROR):
        crawl.check()

    assert "invariant places does not hold: 1 violation" in caplog.text


def test_a_check_that_takes_too_long_is_cancelled_and_logged(crawl, monkeypatch):
    monkeypatch.setitem(VIOLATIONS, "claims", "SELECT pg_sleep(5)::text")
    monkeypatch.setattr(check, "_LIMIT_TIME", "SET LOCAL statement_timeout = '20ms'")

    assert crawl.check()["claims"] is None


def test_a_replaced_main_writes_none_of_its_findings(crawl):
    old = TermHeld(scope="cluster", term=crawl.term.term - 1, main_id=crawl.manager.id)

    with pytest.raises(FenceRefused):
        crawl.check(term=old)

    assert not InvariantCheck.objects.exists()
