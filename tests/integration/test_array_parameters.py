"""Proves that our faster conversion of lists sends PostgreSQL exactly the same values as psycopg."""

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.queue.sql.arrays import Hashes

pytestmark = pytest.mark.django_db

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
ODD = ["", "NULL", "null", "{}", "{", '"', "\\", '\\"', "a,b", " a ", "a\nb", "'", "é", "\U0001f600", "\x01"]


def returned_by_server(connection, values, kind):
    return connection.execute(f"SELECT %s::{kind}[]", (values,)).fetchone()[0]


@pytest.mark.parametrize("text", ODD)
def test_a_text_parameter_arrives_at_postgresql_unchanged(connection, text):
    assert returned_by_server(connection, [text, "x", text], "text") == [text, "x", text]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(texts=st.lists(TEXTS))
def test_lists_of_texts_arrive_unchanged(connection, texts):
    assert returned_by_server(connection, texts, "text") == texts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(numbers=st.lists(st.integers(min_value=-(2**63), max_value=2**63 - 1)))
def test_lists_of_numbers_arrive_unchanged(connection, numbers):
    assert returned_by_server(connection, numbers, "bigint") == numbers


@given(values=st.lists(st.booleans()))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_lists_of_truth_values_arrive_unchanged(connection, values):
    assert returned_by_server(connection, values, "bool") == values


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([], "text"),
        ([None, "a", None], "text"),
        ([1, None], "bigint"),
        ([True, False, None], "bool"),
        ([0.5, 2.0], "float"),
        ([None], "timestamptz"),
        ([[1, 2], [3, 4]], "int"),
    ],
)
def test_psycopg_converts_all_other_lists(connection, values, kind):
    assert returned_by_server(connection, values, kind) == values


def test_a_text_that_the_database_cannot_hold_is_refused(connection):
    with pytest.raises(psycopg.DataError):
        returned_by_server(connection, ["a\0b", "c"], "text")


def test_hashes_may_be_given_as_texts(connection):
    found = returned_by_server(connection, ["0" * 31 + "1"], "uuid")

    assert [one.hex for one in found] == ["0" * 31 + "1"]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(hashes=st.lists(st.uuids().map(lambda one: one.hex)))
def test_lists_of_hashes_arrive_unchanged(connection, hashes):
    assert [one.hex for one in returned_by_server(connection, Hashes(hashes), "uuid")] == hashes


def test_a_statement_is_the_same_for_lists_of_any_length(connection):
    connection.prepare_threshold = 0
    for numbers, flags in (([1], [True]), ([70_000], []), ([2**40, None], [None]), ([], [False, None])):
        connection.execute("SELECT %s::bigint[], %s::bool[]", (numbers, flags))

    prepared = connection.execute(
        "SELECT count(*) FROM pg_prepared_statements WHERE statement LIKE 'SELECT $1::bigint[], %'", prepare=False
    )

    assert prepared.fetchone()[0] == 1
