"""
Proves that patterns of mutants and freeze points exist in our source. Without a match, a mutant would change nothing.
"""

import importlib

import pytest

from tests.chaos.mutants import MUTANTS, look_for_its_places
from tests.chaos.node_faults import STOPS


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_switches_off_is_there(mutant):
    look_for_its_places(mutant)


@pytest.mark.parametrize("point", [point for points in STOPS.values() for point in points])
def test_where_a_node_is_told_to_freeze_there_is_a_function(point):
    module, _, name = point.partition(":")

    assert callable(getattr(importlib.import_module(module), name))
