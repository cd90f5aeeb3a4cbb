"""Proves that each value of a definition survives writing as text and reading."""

import json

import yaml
from hypothesis import given
from hypothesis import strategies as st

from jobs.definitions.texts import as_yaml, read, write

# Characters that a column can store.
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
WORDS = st.sampled_from(
    ["no", "on", "~", "null", "", "1:30", "0x1f", "010", "1e5", "1_000", "2026-11-24", ".5", "=", "- a", "#"]
)
SCALARS = st.one_of(
    TEXTS, WORDS, st.booleans(), st.none(), st.integers(), st.floats(allow_nan=False, allow_infinity=False)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS | WORDS, inner, max_size=4),
    max_leaves=12,
)
DEFINITIONS = st.lists(st.dictionaries(TEXTS | WORDS, VALUES, max_size=4), max_size=3)


@given(DEFINITIONS)
def test_written_yaml_is_read_unchanged(definitions):
    text = "".join(write(definitions, text_format="yaml"))

    assert read(text.encode(), text_format="yaml") == definitions


@given(DEFINITIONS)
def test_written_json_is_read_unchanged(definitions):
    text = "".join(write(definitions, text_format="json"))

    assert read(text.encode(), text_format="json") == [definitions]
    assert json.loads(text) == definitions


@given(VALUES)
def test_other_readers_of_yaml_read_the_same_value(value):
    assert yaml.safe_load(as_yaml(value)) == value


def test_a_yaml_value_used_in_two_places_is_written_out_in_both():
    shared = {"a": ["b"]}

    assert as_yaml([shared, shared]) == "- a:\n  - b\n- a:\n  - b\n"
