"""
Proves that each lane and each bin has one row of state: the database refuses a commit that leaves none or several.
"""

import psycopg
import pytest

from jobs.models import Bin, BinState, Lane, LaneState
from tests.support.factories import make_bin, make_job, make_lane

refused = pytest.raises(psycopg.errors.IntegrityConstraintViolation)

ANOTHER_OF_LANE = """
INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, version)
SELECT lane_id, seed_id, bin_id, version + 7 FROM jobs_lanestate WHERE lane_id = %s
"""
ANOTHER_OF_BIN = (
    "INSERT INTO jobs_binstate (bin_id, version) SELECT bin_id, version + 7 FROM jobs_binstate WHERE bin_id = %s"
)

REPLACE = """
WITH gone AS (DELETE FROM jobs_lanestate WHERE lane_id = %s)
INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id, version)
SELECT id, seed_id, bin_id, nextval('jobs_document_number') FROM jobs_lane WHERE id = %s
"""


@pytest.fixture
def lane(connection):
    return make_lane(make_job().seeds.get())


def test_a_lane_without_a_state_is_refused(connection, lane):
    bin_ = make_bin("b.example")

    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="has no state"):
        connection.execute("INSERT INTO jobs_lane (seed_id, bin_id) VALUES (%s, %s)", [lane.seed_id, bin_.pk])

    assert Lane.objects.count() == 1


def test_a_bin_without_a_state_is_refused(connection):
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="has no state"):
        connection.execute(
            """INSERT INTO jobs_bin (namespace, name, "interval", is_known) VALUES ('web', 'a.example', 0, true)"""
        )

    assert not Bin.objects.exists()


def test_a_second_state_of_a_lane_or_a_bin_is_refused(connection, lane):
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="has a state already"):
        connection.execute(ANOTHER_OF_LANE, [lane.pk])
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="has a state already"):
        connection.execute(ANOTHER_OF_BIN, [lane.bin_id])

    assert (LaneState.objects.count(), BinState.objects.count()) == (1, 1)


def test_the_second_of_two_simultaneous_replacements_is_refused(connection, other_connection, rival, lane):
    with connection.transaction():
        replace_state(connection, lane)
        rival.start_and_wait(replace_state, other_connection, lane)

    with refused:
        rival.result()
    assert LaneState.objects.count() == 1


def replace_state(connection, lane):
    connection.execute(REPLACE, [lane.pk, lane.pk])


def test_a_state_cannot_be_deleted_before_its_lane_or_its_bin(connection, lane):
    other = make_lane(lane.seed, "b.example")

    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="has no state any more"):
        connection.execute("DELETE FROM jobs_lanestate WHERE lane_id = %s", [lane.pk])
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation, match="has no state any more"):
        connection.execute("DELETE FROM jobs_binstate WHERE bin_id = %s", [lane.bin_id])
    with refused:
        connection.execute(
            "UPDATE jobs_lanestate SET lane_id = %s, version = version + 1 WHERE lane_id = %s", [other.pk, lane.pk]
        )

    assert (LaneState.objects.count(), BinState.objects.count()) == (2, 2)


def test_rows_deleted_with_their_job_delete_their_states(lane):
    lane.seed.job.delete()

    assert not Lane.objects.exists()
    assert not LaneState.objects.exists()
