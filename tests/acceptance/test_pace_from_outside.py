"""
Proves by the sites' own logs that hosts shared by two jobs and two policies keep their pace through faults of managers
and workers.
"""

import random

import pytest

from tests.chaos import cluster as chaos
from tests.support.pace.rules import Limits
from tests.support.pace.scenario import Scenario


@pytest.fixture
def nodes(machine, tmp_path):
    """Return managers and workers, each on its own machine, with none started yet."""
    cluster = chaos.Cluster(None, machine.database, tmp_path, random.Random(1), lambda _words: None)
    try:
        yield cluster
    finally:
        cluster.end()


@pytest.fixture
def forked(nodes):
    """Fork the nodes, for tests that set no clocks."""
    nodes.is_forked = True


@pytest.fixture
def scenario(nodes, request):
    with Scenario(nodes, **getattr(request, "param", {})) as scenario:
        yield scenario


def assert_kept(scenario):
    found = scenario.broken()
    assert not found, "\n".join(map(str, found[:10]))


def test_the_strictest_limits_hold_through_faults_of_managers_and_workers(scenario):
    scenario.owner(scenario.policies[0]).kill(back_in=1)
    scenario.go_on()
    for _ in range(2):
        scenario.asker().kill(back_in=1)
        scenario.go_on()
    for _ in range(4):
        scenario.move_groups()
        scenario.go_on(8)
    if chaos.has_faketime():
        for node, offset in zip(scenario.cluster.nodes, ("+1h", "-1h", "-2d", "+40s", "-5s", "+0s"), strict=True):
            node.set_clock(offset)
        scenario.go_on(20)

    assert_kept(scenario)
    assert len(scenario.agents()) > 2


@pytest.mark.usefixtures("forked")
def test_an_edit_applies_everywhere_in_ten_seconds_and_a_denial_in_five(scenario):
    scenario.edit(Limits(gap=0.5, open_requests=1))
    scenario.edit(Limits(gap=0.05, open_requests=2, bytes_per_second=60_000), judged_for=12)
    scenario.edit(Limits(gap=0.1, open_requests=1, starts=(2, 1.0)))
    scenario.deny()

    assert_kept(scenario)


@pytest.mark.usefixtures("forked")
@pytest.mark.parametrize("scenario", [{"cap": Limits(open_requests=2, starts=(5, 1.0))}], indirect=True)
def test_the_limit_of_all_hosts_together_holds_through_kills_and_moves(scenario):
    for _ in range(2):
        scenario.asker().kill(back_in=1)
        scenario.go_on(10)
        scenario.move_groups()
        scenario.go_on(10)

    assert_kept(scenario)
