"""Proves that a page which receives only changes shows the same values as a page which receives whole screens."""

from hypothesis import given
from hypothesis import strategies as st

from crawlctl.live.changes import changes


def rows(below):
    row = st.builds(lambda key, cells: {**cells, "key": key}, st.sampled_from("abcde"), below)
    return st.lists(row, unique_by=lambda row: row["key"], max_size=4)


def screens(below):
    names = {"status": st.sampled_from(["", "1", "2"]), "hosts": rows(below), "nodes": rows(below)}
    return st.fixed_dictionaries(names)


def apply(shown, changed):
    """Return a record with changes applied as static/js/screen.js does: absent names keep their values."""
    after = dict(shown)
    for name, value in changed.items():
        if isinstance(value, list):
            known = {row["key"]: row for row in shown.get(name, ())}
            after[name] = [apply(known.get(row["key"], {}), row) for row in value]
        else:
            after[name] = value
    return after


same_names = st.fixed_dictionaries({"rate": st.sampled_from(["", "1", "2"]), "tiles": rows(st.just({}))})


@given(before=screens(same_names), after=screens(same_names))
def test_the_newer_screen_is_shown_after_the_changes(before, after):
    assert apply(before, changes(before, after)) == after


@given(screen=screens(same_names))
def test_unchanged_parts_are_not_mentioned(screen):
    assert changes(screen, dict(screen)) == {}


def test_only_changes_of_a_row_are_sent():
    before = {"hosts": [{"key": "1", "name": "a", "open": "1"}, {"key": "2", "name": "b", "open": "2"}]}
    after = {"hosts": [{"key": "2", "name": "b", "open": "3"}, {"key": "1", "name": "a", "open": "1"}]}

    assert changes(before, after) == {"hosts": [{"key": "2", "open": "3"}, {"key": "1"}]}
