"""Proves that the facts of any minute can be rebuilt from the stored differences between minutes."""

from hypothesis import given
from hypothesis import strategies as st

from jobs.queries.cluster.facts import add_up, difference

_values = st.one_of(st.integers(0, 3), st.fixed_dictionaries({"name": st.sampled_from("ab")}))
_entries = st.dictionaries(st.sampled_from("123"), _values, min_size=1)
_facts = st.dictionaries(st.sampled_from(["nodes", "jobs"]), _entries)


@given(st.lists(_facts))
def test_each_minute_is_the_sum_of_the_differences_up_to_it(minutes):
    changes, before = [], {}
    for facts in minutes:
        changes.append(difference(before, facts))
        before = facts

        assert add_up(changes) == facts


def test_equal_facts_have_no_difference():
    facts = {"nodes": {"1": {"name": "a"}}}

    assert difference(facts, facts) == {}
