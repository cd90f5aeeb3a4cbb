"""`manage.py migrate` changes no tables while nodes work on them."""

import io
from collections import Counter
from importlib import import_module

import pytest
from django.core.management import CommandError, call_command
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from tests.support.cluster import fall_silent, register_node

# Packages of crawlctl whose applications have tables.
OURS = {"crawlctl", "jobs", "nodes"}
MIGRATION = "0001_version_0_1_0"
# The migrations of the states of the development, which this one replaces.
REPLACED = [name for _, name in import_module(f"nodes.migrations.{MIGRATION}").Migration.replaces]


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
def recorded_again(connection):
    """
    Make the tables look as if a state of the development had made them. Return a function that records its migrations.
    """
    recorded = MigrationRecorder.Migration.objects
    known = list(recorded.filter(app="nodes"))
    recorded.filter(app="nodes").delete()
    yield lambda names: [recorded.create(app="nodes", name=name) for name in names]
    recorded.filter(app="nodes").delete()
    recorded.bulk_create(known)


def test_tables_of_the_last_state_of_the_development_are_current(recorded_again):
    recorded_again(REPLACED)

    migrate()

    assert MigrationRecorder.Migration.objects.filter(app="nodes", name=MIGRATION).exists()


@pytest.mark.parametrize("made", [1, -1], ids=["the first migration", "all migrations but the last"])
def test_tables_of_an_earlier_state_are_refused_by_name(recorded_again, made):
    recorded_again(REPLACED[:made])

    with pytest.raises(CommandError) as refused:
        migrate()

    assert refused.value.returncode == 2
    assert "which this version cannot upgrade" in str(refused.value)
    assert "upgrade it in two steps as UPGRADING.md says" in str(refused.value)
    assert f"nodes.{min(REPLACED[made:])}" in str(refused.value)
    assert str(refused.value).count("nodes.0") == min(10, len(REPLACED[made:]))


def test_each_application_has_one_migration():
    loader = MigrationLoader(None)
    ours = [key for key, migration in loader.disk_migrations.items() if migration.__module__.split(".")[0] in OURS]

    assert Counter(label for label, _ in ours) == dict.fromkeys({label for label, _ in ours}, 1)
