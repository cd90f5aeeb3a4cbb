"""A mutant that matches nothing any more would survive as if nothing were switched off."""

import pytest

from tests.chaos.mutants import MUTANTS, look_for_its_places


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_what_a_mutant_switches_off_is_there(mutant):
    look_for_its_places(mutant)
