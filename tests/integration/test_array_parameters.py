"""Lists as parameters: what arrives is what psycopg would have sent."""

import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jobs.queue.arrays import QuickListDumper

pytestmark = pytest.mark.django_db

TEXTS = st.text(alphabet=st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
ODD = ["", "NULL", "null", "{}", "{", '"', "\\", '\\"', "a,b", " a ", "a\nb", "'", "é", "\U0001f600", "\x01"]


@pytest.fixture
def quick(connection):
    connection.adapters.register_dumper(list, QuickListDumper)
    return connection


def came(connection, values, kind):
    return connection.execute(f"SELECT %s::{kind}[]", (values,)).fetchone()[0]


@pytest.mark.parametrize("text", ODD)
def test_a_text_arrives_as_it_is(quick, text):
    assert came(quick, [text, "x", text], "text") == [text, "x", text]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(texts=st.lists(TEXTS))
def test_texts_arrive_as_they_are(quick, texts):
    assert came(quick, texts, "text") == texts


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(numbers=st.lists(st.integers(min_value=-(2**63), max_value=2**63 - 1)))
def test_numbers_arrive_as_they_are(quick, numbers):
    assert came(quick, numbers, "bigint") == numbers


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
def test_other_lists_are_left_to_psycopg(quick, values, kind):
    assert came(quick, values, kind) == values


def test_a_text_that_the_database_cannot_hold_is_refused(quick):
    with pytest.raises(psycopg.DataError):
        came(quick, ["a\0b", "c"], "text")


def test_hashes_may_be_given_as_texts(quick):
    found = came(quick, ["0" * 31 + "1"], "uuid")

    assert [one.hex for one in found] == ["0" * 31 + "1"]
