"""The order in which the processes of pytest-xdist run the tests."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

_T = TypeVar("_T")

# Files with a test that takes longest, on a quiet machine from 20 seconds to two minutes.
LONG: Final = (
    "tests/acceptance/test_installed.py",
    "tests/integration/test_api_contract.py",
    "tests/acceptance/test_pace_from_outside.py",
    "tests/acceptance/test_embedded_restarts.py",
    "tests/integration/test_queue_cost.py",
    "tests/integration/test_against_an_oracle.py",
)
# Folders of tests that mostly wait for other processes.
WAITING: Final = ("tests/acceptance/", "tests/integration/coordination/")


def waiting_first(tests: Iterable[_T], *, processes: int, name_of: Callable[[_T], str]) -> list[_T]:
    """
    Return the tests in an order that gives each process its share of the long tests, then of the waiting tests.

    So waiting tests run at the same time as other waiting tests, not as computing tests, and no long test is left for
    the end. pytest-xdist cuts the list into one piece for each process. Later, it moves tests from the end of a piece.
    """
    kinds: list[list[_T]] = [[], [], []]
    for test in tests:
        name = name_of(test)
        kinds[0 if name.startswith(LONG) else 1 if name.startswith(WAITING) else 2].append(test)
    ordered: list[_T] = []
    for left in range(processes, 0, -1):
        space = sum(map(len, kinds)) // left
        for place, kind in enumerate(kinds):
            # If the tests of the later kinds are too few to fill the piece, more tests of this kind are needed.
            share = max(len(kind) // left, space - sum(map(len, kinds[place + 1 :])))
            share = min(share, space)
            ordered += kind[:share]
            del kind[:share]
            space -= share
    return ordered
