"""The page of a job shows its busiest hosts, and finds them without reading all hosts."""

import pytest
from django.db import connection as django_connection
from django.utils import timezone

from jobs.lifecycle.document import Stage
from jobs.models import Batch, CounterDelta, Outcome, Turn
from jobs.queries.jobs.page import read_job_page
from jobs.ui.job_screen import job_screen
from tests.integration.test_bounded_reads import Reader
from tests.support.cluster import NOON, register_node, seconds
from tests.support.factories import count_folded, make_lane, make_running_job

MANY = 5_000


@pytest.fixture
def running(connection):
    return make_running_job(register_node(connection, "manager"))


def count(lane, amount, *, by=count_folded, stage=Stage.PENDING, **facts):
    by(job_id=lane.seed.job_id, lane_id=lane.pk, run_no=1, measure="stage", stage=stage, amount=amount, **facts)


def serve(lane):
    """Give a turn of this lane to a worker."""
    group = lane.seed.group
    batch = Batch.objects.create(group=group, node_scope="cluster", state="sent", documents=1, created_at=NOON)
    Turn.objects.create(batch=batch, lane=lane, bin=lane.bin, documents=1, requests=1, gap=0)


def hosts_of(running):
    page = read_job_page(running.job.pk, now=NOON)
    return [host.host.name for host in page.hosts]


@pytest.fixture
def sleepers(connection, running):
    """Add many hosts whose last turn was an hour ago."""
    with connection.transaction():
        connection.execute(
            """
            INSERT INTO jobs_bin (namespace, name, "interval", is_known)
            SELECT 'web', 'asleep' || n || '.example', 0, true FROM generate_series(1, %s) AS n
            """,
            [MANY],
        )
        connection.execute("INSERT INTO jobs_binstate (bin_id) SELECT id FROM jobs_bin")
        connection.execute("INSERT INTO jobs_lane (seed_id, bin_id) SELECT %s, id FROM jobs_bin", [running.seed.pk])
        connection.execute(
            "INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, served_at) SELECT id, seed_id, bin_id, %s FROM jobs_lane",
            [NOON - seconds(3600)],
        )
    connection.execute(
        """
        INSERT INTO jobs_counter (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
        SELECT %s, lane.id, 1, 'stage', 2, outcome, code, 7
          FROM jobs_lane AS lane, (VALUES (1, '200'), (3, '404'), (4, 'ROBOTS')) AS ended(outcome, code)
        """,
        [running.job.pk],
    )
    connection.execute("ANALYZE jobs_bin, jobs_binstate, jobs_lane, jobs_lanestate, jobs_counter")


def test_hosts_in_progress_come_first_then_waiting_ones_then_the_latest(running, sleepers):
    late = make_lane(running.seed, "late.example", ready_at=None, served_at=NOON)
    count(late, 200, stage=Stage.DONE, outcome=Outcome.INDEXED, code="200")
    waiting = make_lane(running.seed, "waiting.example", ready_at=NOON + seconds(60), served_at=NOON)
    count(waiting, 3)
    busy = make_lane(running.seed, "busy.example", ready_at=None, served_at=NOON - seconds(86400))
    count(busy, 1, stage=Stage.ACTIVE)
    serve(busy)

    shown = hosts_of(running)

    assert shown[:3] == ["busy.example", "waiting.example", "late.example"]
    assert len(shown) == 50


def test_the_counts_of_a_host_are_the_sum_of_its_lanes_and_deltas(running):
    lane = make_lane(running.seed, "a.example")
    count(lane, 10)
    count(lane, -4, by=CounterDelta.objects.create)
    count(lane, 3, stage=Stage.DONE, outcome=Outcome.FAILED, code="500")
    count(lane, 1, stage=Stage.DONE, outcome=Outcome.INDEXED, code="200", by=CounterDelta.objects.create)

    (host,) = read_job_page(running.job.pk, now=NOON).hosts

    assert (host.pending, host.active, host.done, host.failed) == (6, 0, 4, 3)


def test_hosts_are_counted_up_to_a_limit(running, sleepers):
    page = read_job_page(running.job.pk, now=NOON)
    screen = job_screen(page, now=NOON)

    assert (page.known_hosts, page.are_more_hosts) == (1_000, True)
    assert screen["hosts_in_all"] == "at least 1,000"
    assert screen["hosts_hidden"] == "and at least 950 more hosts"


def test_a_small_number_of_hosts_is_counted_exactly(running):
    for number in range(60):
        count(make_lane(running.seed, f"h{number}.example"), number + 1)

    page = read_job_page(running.job.pk, now=NOON)

    assert (page.known_hosts, page.are_more_hosts, len(page.hosts)) == (60, False, 50)
    assert job_screen(page, now=NOON)["hosts_hidden"] == "and 10 more hosts"


def test_a_job_with_very_many_hosts_reads_only_the_shown_hosts(running, sleepers):
    reader = Reader(of={"jobs_lane", "jobs_lanestate", "jobs_bin", "jobs_binstate", "jobs_counter", "jobs_jobcounter"})

    with django_connection.execute_wrapper(reader):
        assert len(read_job_page(running.job.pk, now=timezone.now()).hosts) == 50

    assert reader.excesses == []
