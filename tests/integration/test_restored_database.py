"""Proves that the first registration after a restore ends older nodes, and skips numbers that may have been used."""

import pytest

from nodes.membership import members
from nodes.models import DatabaseRestore, MainTerm, Node, NodeEvent
from tests.integration.test_older_database import incarnation, promote  # noqa: F401 - a fixture
from tests.support.cluster import elect_main, register_node
from tests.support.factories import make_running_job

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.usefixtures("incarnation")]


def sequence(connection, name):
    return connection.execute("SELECT last_value FROM pg_sequences WHERE sequencename = %s", [name]).fetchone()[0]


def test_the_first_node_after_a_restore_ends_all_older_nodes(connection):
    old = register_node(connection, "manager")
    elect_main(connection, old)
    term = MainTerm.objects.get().term
    members.beat(connection, node_id=old.id, progress={})
    promote(connection)

    new = register_node(connection, "manager")
    register_node(connection, "worker")

    assert (Node.objects.get(pk=old.id).status, Node.objects.get(pk=new.id).status) == ("failed", "running")
    row = MainTerm.objects.get()
    assert (row.term > term + 500, row.main_id) == (True, None)
    [restore] = DatabaseRestore.objects.all()
    assert (restore.after, restore.nodes_ended) == ("7/00000002/5/9", 1)
    assert restore.as_of == Node.objects.get(pk=old.id).heartbeat_at
    assert NodeEvent.objects.filter(message__startswith="the database was restored").count() == 1


def test_numbers_that_may_have_been_used_before_a_restore_are_skipped(connection):
    job = make_running_job(register_node(connection, "manager"))
    before = sequence(connection, "jobs_job_id_seq")
    assert before >= job.job.pk
    promote(connection)

    register_node(connection, "manager")

    assert sequence(connection, "jobs_job_id_seq") == before + 1000


def test_a_registration_without_a_restore_changes_nothing(connection):
    first = register_node(connection, "manager")
    register_node(connection, "worker")

    assert Node.objects.get(pk=first.id).status == "running"
    assert not DatabaseRestore.objects.exists()
