"""Proves that a test with a table (`each_row`) runs all rows, and shows each failing row."""

import inspect

import pytest
from django.contrib.auth.models import Group

from tests.support.tables import each_row


def test_every_row_of_a_table_runs_and_each_failing_row_is_shown():
    seen = []

    @each_row(("given", "wanted"), [(1, 1), (2, 3), pytest.param(4, 4, id="four"), pytest.param(5, 6, id="five")])
    def table(given, wanted):
        seen.append(given)
        assert given == wanted

    with pytest.raises(AssertionError) as failed:
        table()

    assert seen == [1, 2, 4, 5]
    assert "2 of 4 rows differ" in str(failed.value)
    assert "[2-3]" in str(failed.value)
    assert "assert 5 == 6" in str(failed.value)
    assert "[four]" not in str(failed.value)


def test_rows_of_two_tables_are_combined():
    seen = []

    @each_row("left", "ab")
    @each_row("right", [1, 2])
    def table(left, right, fixture):
        seen.append((left, right, fixture))

    assert list(inspect.signature(table).parameters) == ["fixture"]
    table(fixture="f")

    assert seen == [("a", 1, "f"), ("a", 2, "f"), ("b", 1, "f"), ("b", 2, "f")]


def test_a_table_without_rows_or_with_a_wrong_name_raises_an_error():
    with pytest.raises(AssertionError, match="proves nothing"):
        each_row("given", [])
    with pytest.raises(AssertionError, match="does not take"):
        each_row("given", [1])(lambda other: other)


def test_a_skip_in_one_row_skips_the_whole_test():
    @each_row("given", [1])
    def table(given):
        pytest.skip("not here")

    with pytest.raises(pytest.skip.Exception):
        table()


async def test_rows_of_a_coroutine_are_awaited():
    @each_row("given", [1, 2])
    async def table(given):
        assert given == 1

    with pytest.raises(AssertionError, match="1 of 2 rows differ"):
        await table()


@pytest.mark.django_db
def test_writes_of_a_row_are_rolled_back_after_the_row():
    before = Group.objects.count()

    @each_row("given", [1, 2])
    def table(given):
        assert Group.objects.count() == before
        Group.objects.create(name="one")

    table()

    assert Group.objects.count() == before
