"""Proves that the migrations that rename stored names keep the rows of earlier tables, in both directions."""

import uuid

import pytest
from django.db import connection as django_connection
from django.db.migrations.executor import MigrationExecutor

from jobs.models import DeletedJob, Gate, Job, Seed, ThrottlePolicy
from jobs.state.deleted_jobs import store_deleted_job
from nodes.distributed.models import RedistributionRequest
from nodes.models import ClusterRequest, CoordinationMember, Node
from tests.support.cluster import NOON, register_node
from tests.support.factories import make_job, make_policy

EARLIER = [("jobs", "0004_labels"), ("nodes", "0003_labels"), ("distributed", "0003_labels")]


def migrate(targets=None):
    """Migrate the tables to these migrations, or to the latest ones."""
    executor = MigrationExecutor(django_connection)
    executor.migrate(targets or executor.loader.graph.leaf_nodes())


def values_of(statement):
    with django_connection.cursor() as cursor:
        cursor.execute(statement)
        return cursor.fetchone()


@pytest.fixture
def renamed_again(connection):
    """Give the tables their present names again at the end, also if the test fails."""
    yield
    migrate()


def test_rows_survive_migrations_that_rename_stored_names(connection, renamed_again):
    job = make_job(policy=make_policy("everywhere", applies_everywhere=True, skips_loopback=True))
    make_policy("private", applies_everywhere=True, skips_loopback=True, private_to=job)
    store_deleted_job(job, now=NOON)
    Job.objects.update(ungrouped=0)
    node = Node.objects.get(pk=register_node(connection, "worker").id)
    Gate.objects.create(name="login", key=uuid.uuid4(), node=node, closed_at=NOON)
    RedistributionRequest.objects.create(cluster="jobs", asked_at=NOON, asked_by="ann")
    ClusterRequest.objects.create(kind="rebalance", asked_by="ann", asked_at=NOON, state="in_progress")
    CoordinationMember.objects.create(
        cluster="jobs",
        node="n1",
        instance=uuid.uuid4(),
        jobs=[],
        heartbeat_at=NOON,
        steady_since=NOON,
        timeout_seconds=5,
    )
    stored = DeletedJob.objects.get().rows

    migrate(EARLIER)

    assert values_of("SELECT state FROM nodes_clusterrequest") == ("under way",)
    assert values_of("SELECT shut_at FROM jobs_gate") == (NOON,)
    assert values_of("SELECT asked_by FROM nodes_distributedjobwish") == ("ann",)
    assert values_of("SELECT beaten_at FROM nodes_coordinationmember") == (NOON,)
    assert values_of("SELECT bool_and(holds_everywhere AND spares_loopback) FROM jobs_throttlepolicy") == (True,)
    (rows,) = values_of("SELECT rows::text FROM jobs_deletedjob")
    assert all(f'"{name}"' in rows for name in ("strays", "holds_everywhere", "spares_loopback"))
    # The functions of triggers use the names of the version to which the tables were migrated.
    connection.execute("UPDATE jobs_seed SET policy_id = NULL")
    assert values_of("SELECT strays FROM jobs_job") == (1,)

    migrate()

    assert DeletedJob.objects.get().rows == stored
    assert ClusterRequest.objects.get().is_open
    assert Gate.objects.get().closed_at == NOON
    assert RedistributionRequest.objects.get().asked_by == "ann"
    assert CoordinationMember.objects.get().heartbeat_at == NOON
    assert ThrottlePolicy.objects.filter(applies_everywhere=True, skips_loopback=True).count() == 2
    assert Job.objects.get().ungrouped == 1
    Seed.objects.create(job=job, urls=["http://b.example/"])
    Job.objects.update(node_scope="another")
    assert Job.objects.get().ungrouped == 3
