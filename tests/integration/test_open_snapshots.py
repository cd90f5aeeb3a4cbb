"""
Proves that the cost of a turn does not grow while a long transaction, such as a backup, keeps a snapshot open.

The tests count with the statistics of PostgreSQL: index entries read in the
tables of states, and rows of these tables that were read by sequential scans.
"""

from contextlib import contextmanager

import psycopg
import pytest

from jobs.models import Batch, Job, Lane
from jobs.queue.pace.limits import read_limits
from jobs.queue.release import withdraw
from jobs.queue.rounds import make_round
from jobs.queue.wake import postpone_lanes, wake_job, wake_lanes
from tests.support.cluster import seconds
from tests.support.filled_queue import FilledQueue, Shape

BINS = 100
# Number of documents in a round: ten of each lane.
A_ROUND = 10 * BINS
_READ = """
SELECT sum(idx_tup_read)::bigint + (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
                                     WHERE relname IN ('jobs_lanestate', 'jobs_binstate'))
  FROM pg_stat_user_indexes WHERE indexrelname IN ('jobs_lanestate_pkey', 'jobs_binstate_pkey')
"""


@pytest.fixture
def connection(new_connection):
    """Return a connection whose backend has no cached plans of other tests."""
    return new_connection


@contextmanager
def backup(connection):
    """Keep a snapshot of the database open while the block runs, as a backup does."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with connection.transaction():
        connection.execute("SELECT count(*) FROM jobs_job")
        yield


def read_in_a_round(queue):
    """Return the number of index entries and rows of states that are read while each lane gives one turn."""
    before = read(queue.connection)
    queue.cycle(A_ROUND)
    return read(queue.connection) - before


def read_after_analyze(queue, *, documents):
    """
    Run ANALYZE, then move this number of documents. Return the number of index entries and rows of states that were
    read.
    """
    queue.connection.execute("ANALYZE jobs_lanestate, jobs_binstate")
    before = read(queue.connection)
    queue.cycle(documents)
    return read(queue.connection) - before


def pages_of_lane_states(connection):
    (pages,) = connection.execute("SELECT pg_relation_size('jobs_lanestate') / 8192").fetchone()
    return pages


def read_by_rare_steps(queue):
    """
    Return the number of index entries and rows of states that each rare step reads. A rare step is not part of a turn.
    """
    lanes = list(Lane.objects.order_by("pk")[:20])
    queue.stuff(200)
    batches = list(Batch.objects.filter(state="available").values_list("pk", flat=True))
    steps = {
        "a job is woken": lambda connection, now: wake_job(connection, job_id=Job.objects.first().pk, now=now),
        "lanes are woken": lambda connection, now: wake_lanes(connection, [lane.pk for lane in lanes], now=now),
        "lanes are postponed": lambda connection, now: postpone_lanes(
            connection, [lane.pk for lane in lanes], until=now + seconds(1)
        ),
        "batches are withdrawn": lambda connection, now: withdraw(connection, batches=batches, now=now),
        "limits are read": lambda connection, now: read_limits(
            connection, bins=[lane.bin_id for lane in lanes], now=now
        ),
    }
    found = {}
    for name, step in steps.items():
        before = read(queue.connection)
        step(queue.connection, queue.now())
        found[name] = read(queue.connection) - before
    return found


def read(connection):
    connection.execute("SELECT pg_stat_force_next_flush()")
    (entries,) = connection.execute(_READ).fetchone()
    return entries


def test_the_tenth_turn_of_a_lane_reads_as_few_rows_as_its_second_turn(connection, other_connection):
    queue = FilledQueue(connection, documents=12 * A_ROUND, shape=Shape(bins=BINS))

    with backup(other_connection):
        queue.cycle(A_ROUND)
        of_turns = [read_in_a_round(queue) for _ in range(9)]

    assert of_turns[0] > 4 * BINS
    assert of_turns[-1] <= 1.2 * of_turns[0]


def test_the_hundredth_turn_of_a_few_lanes_reads_as_few_rows_as_the_tenth(connection, other_connection):
    bins = 20
    queue = FilledQueue(connection, documents=500 * bins, shape=Shape(bins=bins))

    with backup(other_connection):
        queue.cycle(40 * bins)
        few_turns = read_after_analyze(queue, documents=4 * bins)
        queue.cycle(360 * bins)
        many_turns = read_after_analyze(queue, documents=4 * bins)

    # The versions fill more pages than there are lanes. The planner must not expect one row on each page.
    assert pages_of_lane_states(connection) > 1.5 * bins
    assert few_turns > 4 * bins
    assert many_turns <= 1.2 * few_turns


def test_rare_steps_read_as_few_rows_after_many_turns_as_after_a_few(connection, other_connection):
    queue = FilledQueue(connection, documents=12 * A_ROUND, shape=Shape(bins=BINS))

    with backup(other_connection):
        of_few = read_by_rare_steps(queue)
        queue.cycle(9 * A_ROUND)
        of_many = read_by_rare_steps(queue)

    # Each step found states to read.
    assert min(of_few.values()) >= BINS // 10
    assert {name: entries for name, entries in of_many.items() if entries > 1.5 * of_few[name]} == {}


def test_a_round_of_checks_wakes_all_lanes_despite_an_open_snapshot(connection, other_connection):
    queue = FilledQueue(connection, documents=4 * A_ROUND, shape=Shape(bins=BINS))
    sleep = "UPDATE jobs_lanestate SET ready_at = NULL, version = version + 1 WHERE seed_id = %s"

    with backup(other_connection):
        queue.cycle(2 * A_ROUND)
        connection.execute(sleep, [queue.seeds[0]])

        woken = make_round(connection, groups=[queue.group.id], now=queue.now())

    assert woken == BINS // 10
