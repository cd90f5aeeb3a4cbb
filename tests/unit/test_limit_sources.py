"""Proves that each limit of a bin names its strictest source: the one whose limit is in force."""

import datetime as dt
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st

from jobs.queue.pace.limits import AppliedPolicies
from jobs.throttling.limits import UNLIMITED_REQUESTS, Limits
from jobs.throttling.policies import Numbers, PolicyValues, RuleValues
from jobs.throttling.sources import Origin, Source, decisive, of_policy, of_robots
from jobs.throttling.windows import Window

NOON = dt.datetime(2030, 1, 1, 12, tzinfo=dt.UTC)
MORNINGS = Window(opens=dt.time(8), closes=dt.time(14))


def make_terms(id_=1, *rules, gap=1.0, **facts):
    return PolicyValues(id=id_, version=1, numbers=Numbers(requests=2, min_gap=gap), rules=rules, **facts)


def test_a_rule_in_force_is_named_with_its_beginning_and_its_end():
    rule = RuleValues("*.example", MORNINGS, Numbers(min_gap=5.0))

    source = of_policy(make_terms(1, RuleValues("other"), rule), "a.example", NOON)

    assert (source.policy, source.rule, source.limits.gap) == (1, 2, 5.0)
    assert (source.since, source.until) == (NOON.replace(hour=8), NOON.replace(hour=14))


def test_limits_of_the_policy_itself_have_no_rule():
    source = of_policy(make_terms(1, RuleValues("other", denies=True)), "a.example", NOON)

    assert (source.rule, source.limits) == (None, Limits(2, 1.0))


def test_each_limit_names_its_strictest_source():
    loose = Source(Origin.POLICY, Limits(8, 1.0, 1000), policy=1)
    few = Source(Origin.POLICY, Limits(2, 0.0), policy=2)
    slow = of_robots(4.0)

    found = decisive([loose, few, slow])

    assert (found.requests, found.gap, found.bytes_per_second, found.denied) == (few, slow, loose, None)


numbers = st.builds(
    Numbers,
    requests=st.none() | st.integers(1, 9),
    min_gap=st.none() | st.sampled_from([0.0, 0.5, 3.0]),
    rate_gap=st.none() | st.sampled_from([1.0, 2.0]),
    bytes_per_second=st.none() | st.integers(1, 9),
)
rules = st.builds(
    RuleValues,
    pattern=st.sampled_from(["", "a.example", "*.example", "b.example"]),
    window=st.sampled_from([Window(), MORNINGS, Window(opens=dt.time(14), closes=dt.time(20))]),
    numbers=numbers,
    denies=st.booleans(),
)


@st.composite
def terms(draw):
    count = draw(st.integers(0, 3))
    return {
        str(id_): PolicyValues(
            id=id_,
            version=1,
            numbers=draw(numbers),
            rules=tuple(draw(st.lists(rules, max_size=3))),
            applies_everywhere=draw(st.booleans()),
            per_address=draw(st.booleans()),
        )
        for id_ in range(1, count + 1)
    }


@given(
    terms(), st.sampled_from(["web", "address"]), st.booleans(), st.sampled_from([0.0, 2.5]), st.booleans(), st.data()
)
def test_the_strictest_of_all_sources_applies(policies, namespace, is_stopped, interval, some, data):
    brought = {id_ for id_, known in policies.items() if not known.applies_everywhere or data.draw(st.booleans())}
    row = SimpleNamespace(
        namespace=namespace,
        name="a.example",
        policies={id_: 1 for id_ in brought if some},
        usual_requests=2,
        usual_gap=1.0,
        interval=interval,
        stopped_at=NOON if is_stopped else None,
    )
    known = AppliedPolicies({int(id_): one for id_, one in policies.items()}, now=NOON)

    limits, found = known.of_bin(row), decisive(known.sources_of(row))

    assert limits.requests == (found.requests.limits.requests if found.requests else UNLIMITED_REQUESTS)
    assert limits.gap == (found.gap.limits.gap if found.gap else 0.0)
    assert limits.bytes_per_second == (found.bytes_per_second and found.bytes_per_second.limits.bytes_per_second)
    assert (limits.denied or limits.closed_until is not None) == (found.denied is not None)
