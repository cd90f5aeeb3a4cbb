"""Proves that the clean-up after a test that commits deletes all its rows, and restores rows that `migrate` wrote."""

import pytest
from django.contrib.auth.models import Group
from django.db import connection as django_connection
from django.test import TransactionTestCase

from crawlctl.access.roles import ROLES, VIEWER
from jobs.models import Job, ThrottlePolicy
from tests.support.emptying import LARGE, Emptying
from tests.support.factories import make_job, make_policy

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def empty():
    """Empty the database as after a first test, and return the function that empties it again."""
    emptying, test_case = Emptying(), TransactionTestCase()
    emptying.empty(test_case)
    return lambda: emptying.empty(test_case)


def roles():
    return {group.name: group.permissions.count() for group in Group.objects.all()}


def test_rows_that_refer_to_each_other_are_deleted(empty):
    make_job(policy=make_policy())

    empty()

    assert not Job.objects.exists()
    assert not ThrottlePolicy.objects.exists()
    assert roles().keys() == ROLES.keys()


def test_emptying_restores_changed_roles(empty):
    before = roles()
    Group.objects.get(name=VIEWER).permissions.clear()
    Group.objects.create(name="somebody's own")

    empty()

    assert roles() == before


def test_a_large_table_that_is_emptied_keeps_no_dead_rows(empty, connection):
    make_policy(name="x" * 100)
    connection.execute(
        "INSERT INTO jobs_throttlepolicy SELECT (jsonb_populate_record(policy, jsonb_build_object('id', -n, 'name', n))).*"
        "  FROM jobs_throttlepolicy AS policy, generate_series(1, 20000) AS n"
    )
    size = "SELECT pg_relation_size('jobs_throttlepolicy')"
    assert connection.execute(size).fetchone()[0] > LARGE

    empty()

    assert connection.execute(size).fetchone()[0] == 0


def test_the_next_test_uses_the_same_connection(empty):
    before = backend()
    make_policy()

    empty()
    TransactionTestCase()._post_teardown()

    assert backend() == before


def test_a_database_whose_backends_have_ended_is_emptied(empty, other_connection):
    make_policy()
    other_connection.execute("SELECT pg_terminate_backend(%s, 10000)", backend())

    empty()

    assert not ThrottlePolicy.objects.exists()


def backend():
    with django_connection.cursor() as cursor:
        return cursor.execute("SELECT pg_backend_pid()").fetchone()
