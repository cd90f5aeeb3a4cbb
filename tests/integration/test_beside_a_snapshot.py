"""
What a turn looks at does not grow with the age of a snapshot that somebody holds open, such as a backup's.

PostgreSQL itself counts: entries that were read in the indexes of states, and rows of tables that were read whole.
"""

from contextlib import contextmanager

import psycopg

from tests.filled_queue import FilledQueue, Shape

BINS = 100
# Each lane gives ten documents.
A_ROUND = 10 * BINS
_READ = """
SELECT sum(idx_tup_read)::bigint + (SELECT sum(seq_tup_read)::bigint FROM pg_stat_user_tables
                                     WHERE relname IN ('jobs_lanestate', 'jobs_binstate'))
  FROM pg_stat_user_indexes WHERE indexrelname IN ('jobs_lanestate_pkey', 'jobs_binstate_pkey')
"""


@contextmanager
def backup(connection):
    """Somebody begins to read the database, and goes on reading it as it was."""
    connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
    with connection.transaction():
        connection.execute("SELECT count(*) FROM jobs_job")
        yield


def read_in_a_round(queue):
    """How much of the states of lanes and bins is read while each lane gives a turn."""
    before = read(queue.connection)
    queue.cycle(A_ROUND)
    return read(queue.connection) - before


def read(connection):
    connection.execute("SELECT pg_stat_force_next_flush()")
    (entries,) = connection.execute(_READ).fetchone()
    return entries


def test_the_tenth_turn_of_a_lane_reads_as_much_as_the_second(connection, other_connection):
    queue = FilledQueue(connection, documents=12 * A_ROUND, shape=Shape(bins=BINS))

    with backup(other_connection):
        queue.cycle(A_ROUND)
        of_turns = [read_in_a_round(queue) for _ in range(9)]

    assert of_turns[0] > 4 * BINS
    assert of_turns[-1] <= 1.2 * of_turns[0]
