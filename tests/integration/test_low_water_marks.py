"""Scans of active work start at the low-water mark, and no work is below it, despite slow or open transactions."""

import pytest

from jobs.models import Batch, LowWaterMark
from jobs.queue.sql.low_water import LOWEST_BATCH, raise_marks
from tests.support.cluster import register_node
from tests.support.factories import make_policy, make_running_job
from tests.support.waiting import wait_until

FOUND = f"SELECT id FROM jobs_batch WHERE state IN ('available', 'sent') AND id >= {LOWEST_BATCH} ORDER BY id"
OFFER = """
INSERT INTO jobs_batch (group_id, node_scope, kind, state, documents, created_at)
VALUES (%s, 'cluster', 'process', 'available', 1, now()) RETURNING id
"""


@pytest.fixture
def offer(connection):
    """Return a function that offers a batch over a connection and returns its number."""
    group = make_running_job(register_node(connection, "manager"), policy=make_policy()).group.id

    def insert(over):
        # A transaction that draws a batch number already holds locks.
        over.execute("SELECT FROM jobs_throttlegroup WHERE id = %s FOR SHARE", [group])
        return over.execute(OFFER, [group]).fetchone()[0]

    return insert


def end(*batches):
    Batch.objects.filter(pk__in=batches).update(state="done")


def raise_as_far_as_possible(connection):
    for _ in range(3):
        raise_marks(connection)
    return LowWaterMark.objects.latest("id").batch


def assert_rises_to(batch, connection):
    """
    Wait until the low-water mark is at this batch. Transactions of tests in parallel, on the same server, hold it back.
    """
    wait_until(lambda: raise_as_far_as_possible(connection) == batch, within=300)


def test_the_low_water_marks_rise_when_rows_are_finished(connection, offer):
    over, still_open, last = offer(connection), offer(connection), offer(connection)
    end(over, last)

    assert_rises_to(still_open, connection)

    end(still_open)
    assert_rises_to(last + 1, connection)


def test_a_batch_with_a_number_but_without_a_row_yet_is_found_later(connection, other_connection, offer):
    with other_connection.transaction():
        slow = offer(other_connection)
        quick = offer(connection)
        end(quick)
        assert raise_as_far_as_possible(connection) <= slow

    assert_rises_to(slow, connection)
    assert connection.execute(FOUND).fetchall() == [(slow,)]


def test_no_low_water_mark_is_written_while_no_batch_is_offered(connection, offer):
    over = offer(connection)
    end(over)
    assert_rises_to(over + 1, connection)
    before = LowWaterMark.objects.latest("id")

    raise_as_far_as_possible(connection)

    assert LowWaterMark.objects.latest("id") == before


def test_a_database_copied_from_another_server_raises_its_own_mark(connection, offer):
    over = offer(connection)
    raise_marks(connection)
    LowWaterMark.objects.update(next_since=2**40)
    end(over)

    assert_rises_to(over + 1, connection)
