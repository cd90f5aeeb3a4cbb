"""
Proves that the progress of the crawl is stored in steps of time, and counts each document once even if processes die.
"""

import datetime as dt

import pytest

from jobs.duties.housekeep import fold_counters
from jobs.duties.progress import charge_waiting_time, coarsen_progress, keep_states
from jobs.lifecycle.document import Stage
from jobs.models import Charge, CounterDelta, Job, Progress
from jobs.queue.counting.counters import forget
from nodes.membership.fences import FenceRefused
from tests.support.cluster import register_node
from tests.support.factories import count_folded, make_documents, make_lane, make_policy, make_running_job
from tests.support.stepping import Main

NOW = dt.datetime(2030, 5, 17, 12, 30, tzinfo=dt.UTC)


class Crawl:
    """A running job with ten waiting documents at one host, and the main manager."""

    def __init__(self, connection):
        self.connection = connection
        self.main = Main(connection)
        register_node(connection, "worker", name="worker-1")
        self.running = make_running_job(self.main.node, policy=make_policy("gentle", min_gap=1.0))
        self.job = self.running.job
        self.lane = make_lane(self.running.seed, "a.test")
        make_documents(self.lane, 10)
        self.count(10, stage=Stage.PENDING)

    def count(self, amount, *, stage, outcome=0):
        facts = {"job_id": self.job.pk, "run_no": self.job.run_no, "measure": "stage", "code": ""}
        count_folded(lane_id=self.lane.pk, stage=stage, outcome=outcome, amount=amount, **facts)

    def delta(self, amount, measure="stage", *, stage=0, outcome=0):
        facts = {"job_id": self.job.pk, "run_no": self.job.run_no, "lane_id": self.lane.pk}
        CounterDelta.objects.create(measure=measure, stage=stage, outcome=outcome, amount=amount, **facts)

    def read(self, clock, *, after):
        """Let the main manager read the number of waiting documents, `after` seconds later."""
        clock.now += dt.timedelta(seconds=after)
        self.main.charging.rests_until = float("-inf")
        self.main.now = clock.now
        self.main.step(charge_waiting_time)


class Clock:
    now = NOW


@pytest.fixture
def crawl(connection):
    return Crawl(connection)


def totals(**which):
    return [(row.documents, row.bytes, row.requests) for row in Progress.objects.filter(**which).order_by("at")]


def test_each_document_byte_and_request_is_added_once_to_its_minute(crawl):
    crawl.delta(3, stage=Stage.DONE, outcome=1)
    crawl.delta(-3, stage=Stage.ACTIVE)
    crawl.delta(2, stage=Stage.DONE, outcome=3)
    crawl.delta(4_000, "bytes")
    crawl.delta(6, "requests")

    crawl.main.step(fold_counters, fold_counters)
    # A document that is read again leaves its stage, and counts again at its next end.
    crawl.delta(-1, stage=Stage.DONE, outcome=1)
    crawl.delta(1, stage=Stage.DONE, outcome=2)
    crawl.main.step(fold_counters)

    for job in (0, crawl.job.pk):
        assert sum(row[0] for row in totals(job_id=job)) == 6
        assert sum(row[1] for row in totals(job_id=job)) == 4_000
        assert sum(row[2] for row in totals(job_id=job)) == 6


def test_folding_counters_without_ended_documents_writes_no_progress(crawl):
    crawl.delta(3, stage=Stage.PENDING)

    crawl.main.step(fold_counters)

    assert not Progress.objects.exists()


def test_the_states_of_running_jobs_are_sampled(crawl):
    crawl.count(7, stage=Stage.DONE, outcome=1)
    crawl.count(2, stage=Stage.DONE, outcome=3)

    crawl.main.step(keep_states, keep_states)

    last = [Progress.objects.filter(job_id=job).order_by("-at")[0] for job in (0, crawl.job.pk)]
    assert [(row.waiting, row.active, row.indexed, row.failed) for row in last] == [(10, 0, 7, 2)] * 2


def test_a_replaced_main_manager_writes_nothing(crawl, connection):
    crawl.delta(3, stage=Stage.DONE, outcome=1)
    other = register_node(connection, "manager", name="other")
    connection.execute("UPDATE nodes_mainterm SET term = term + 1, main_id = %s", (other.id,))

    for duty in (fold_counters, keep_states, coarsen_progress):
        with pytest.raises(FenceRefused):
            crawl.main.step(duty)

    assert not Progress.objects.exists()


def test_the_waiting_time_is_charged_between_two_samples(crawl):
    clock = Clock()
    for _reading in range(3):
        crawl.read(clock, after=5)
    Job.objects.update(pause="paused")
    crawl.read(clock, after=5)

    # Ten documents have waited for fifteen seconds.
    for subject in Charge.Subject:
        charged = Charge.objects.filter(subject=subject)
        assert sum(row.seconds for row in charged) == pytest.approx(150, rel=0.01)
    of_job = {row.cause: row.seconds for row in Charge.objects.filter(subject=Charge.Subject.JOB)}
    assert of_job["paused"] == pytest.approx(25)


def test_the_time_between_two_terms_is_not_charged(crawl):
    clock = Clock()
    crawl.read(clock, after=5)
    crawl.main.charging.last = crawl.main.charging.last._replace(term=crawl.main.term.term - 1)

    crawl.read(clock, after=5)
    assert not Charge.objects.exists()
    crawl.read(clock, after=5)
    assert Charge.objects.exists()


def keep(model, *, ago, **facts):
    model.objects.create(at=NOW - ago, **facts)


def test_old_minutes_are_merged_into_longer_steps_with_the_same_sums(crawl):
    for minute in range(10):
        ago = dt.timedelta(days=1, minutes=30 + minute)
        keep(Progress, ago=ago, job_id=0, step=60, documents=minute, bytes=10, waiting=minute)
        keep(Charge, ago=ago, subject=0, subject_id=0, step=60, cause="gap", seconds=2)
    keep(Progress, ago=dt.timedelta(minutes=5), job_id=0, step=60, documents=1)
    keep(Progress, ago=dt.timedelta(days=8), job_id=0, step=300, documents=8)
    keep(Progress, ago=dt.timedelta(days=31), job_id=0, step=3600, documents=100)
    keep(Charge, ago=dt.timedelta(days=2), subject=2, subject_id=1, step=60, cause="gap", seconds=2)
    crawl.main.now = NOW

    crawl.main.step(coarsen_progress, coarsen_progress)

    assert [(row.step, row.documents) for row in Progress.objects.order_by("step", "at")] == [
        (60, 1),
        (300, 30),
        (300, 15),
        (300, 0),
        (3600, 8),
    ]
    # A step has the states of its last minute.
    assert [row.waiting for row in Progress.objects.filter(step=300).order_by("at")] == [6, 1, 0]
    assert sum(row.seconds for row in Charge.objects.all()) == 20


def test_the_progress_of_a_deleted_job_is_deleted(crawl, connection):
    crawl.delta(3, stage=Stage.DONE, outcome=1)
    crawl.main.step(fold_counters, keep_states)

    forget(connection, job_id=crawl.job.pk)

    assert {row.job_id for row in Progress.objects.all()} == {0}
