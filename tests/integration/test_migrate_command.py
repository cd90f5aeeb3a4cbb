"""`manage.py migrate` changes no tables while nodes work on them."""

import io
from importlib import import_module
from pkgutil import iter_modules

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.recorder import MigrationRecorder

from nodes import migrations
from tests.support.cluster import fall_silent, register_node

Migration = import_module("nodes.migrations.0001_release_0_1").Migration
# The migrations of later versions.
LATER = sorted(name for _, name, _ in iter_modules(migrations.__path__) if name > "0001_release_0_1")


@pytest.fixture
def behind(connection):
    """Make the migrations of an application look unapplied, and record them again after the test."""
    recorded = MigrationRecorder.Migration.objects
    known = list(recorded.filter(app="distributed"))
    recorded.filter(app="distributed").delete()
    yield known[-1]
    recorded.filter(app="distributed").delete()
    recorded.bulk_create(known)


def migrate(*options):
    call_command("migrate", *options, stdout=io.StringIO(), verbosity=0)


def test_tables_are_not_changed_while_nodes_run_and_the_nodes_are_named(connection, behind):
    register_node(connection, "worker", name="w1")
    register_node(connection, "manager", name="m1")

    with pytest.raises(CommandError) as refused:
        migrate()

    assert refused.value.returncode == 2
    assert "in use by manager m1 on elsewhere, worker w1 on elsewhere." in str(refused.value)
    assert not MigrationRecorder.Migration.objects.filter(app=behind.app, name=behind.name).exists()


def test_with_force_the_tables_are_changed_while_nodes_run(connection, behind):
    register_node(connection, "worker")

    migrate("--fake", "--force")

    assert MigrationRecorder.Migration.objects.filter(app=behind.app, name=behind.name).exists()


def test_silent_nodes_delay_no_upgrade(connection, behind):
    fall_silent(connection, register_node(connection, "worker"))

    migrate("--fake")


def test_nodes_may_run_if_no_table_has_to_change(connection):
    register_node(connection, "worker")

    migrate()


@pytest.fixture
def before_the_release(connection):
    """
    Make the tables look as if a version before 0.1.0 had made them. Return a function that records its migrations.
    """
    recorded = MigrationRecorder.Migration.objects
    known = list(recorded.filter(app="nodes"))
    recorded.filter(app="nodes").delete()
    yield lambda names: [recorded.create(app="nodes", name=name) for name in names]
    recorded.filter(app="nodes").delete()
    recorded.bulk_create(known)


def test_tables_of_the_last_version_before_the_release_are_current(before_the_release):
    # The tables already are as the later migrations leave them.
    before_the_release([*(name for _, name in Migration.replaces), *LATER])

    migrate()

    assert MigrationRecorder.Migration.objects.filter(app="nodes", name="0001_release_0_1").exists()


def test_tables_of_an_earlier_version_are_refused_by_name(before_the_release):
    before_the_release(["0001_cluster"])

    with pytest.raises(CommandError) as refused:
        migrate()

    assert refused.value.returncode == 2
    assert "made by a version of crawlctl before 0.1.0" in str(refused.value)
    assert "nodes.0002_events_outlive_nodes" in str(refused.value)
    assert str(refused.value).count("nodes.0") == 10
