"""
Proves that patterns of mutants and freeze points exist in our source. Without a match, a mutant would change nothing.
"""

import importlib

from tests.chaos.mutants import MUTANTS, check_patterns
from tests.chaos.node_faults import STOPS
from tests.support.tables import each_row


@each_row("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_code_that_a_mutant_switches_off_exists(mutant):
    check_patterns(mutant)


@each_row("point", [point for points in STOPS.values() for point in points])
def test_each_point_where_a_node_can_freeze_exists(point):
    module, _, name = point.partition(":")

    assert callable(getattr(importlib.import_module(module), name))
