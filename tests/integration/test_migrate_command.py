"""`manage.py migrate` changes no tables while nodes work on them."""

import io

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder

from tests.support.cluster import fall_silent, register_node


@pytest.fixture
def behind(connection):
    """Make the newest migration look unapplied, and record it again after the test."""
    newest = MigrationRecorder.Migration.objects.filter(app="distributed").latest("id")
    newest.delete()
    yield newest
    if not MigrationRecorder.Migration.objects.filter(app=newest.app, name=newest.name).exists():
        MigrationRecorder.Migration.objects.create(app=newest.app, name=newest.name)


def migrate(*options):
    call_command("migrate", *options, stdout=io.StringIO(), verbosity=0)


def test_tables_are_not_changed_while_nodes_beat_and_the_nodes_are_named(connection, behind):
    register_node(connection, "worker", name="w1")
    register_node(connection, "manager", name="m1")

    with pytest.raises(CommandError) as refused:
        migrate()

    assert refused.value.returncode == 2
    assert "in use by manager m1 on elsewhere, worker w1 on elsewhere." in str(refused.value)
    assert not MigrationRecorder.Migration.objects.filter(app=behind.app, name=behind.name).exists()


def test_with_force_they_are_changed_all_the_same(connection, behind):
    register_node(connection, "worker")

    migrate("--fake", "--force")

    assert MigrationRecorder.Migration.objects.filter(app=behind.app, name=behind.name).exists()


def test_silent_nodes_hold_up_no_upgrade(connection, behind):
    fall_silent(connection, register_node(connection, "worker"))

    migrate("--fake")


def test_where_nothing_is_to_be_changed_nodes_may_beat(connection):
    register_node(connection, "worker")

    migrate()
