"""The order in which the processes of pytest-xdist run the tests."""

from collections.abc import Callable, Iterable
from typing import Final, TypeVar

_T = TypeVar("_T")

# Folders of tests that mostly wait for other processes.
WAITING: Final = ("tests/acceptance/", "tests/integration/coordination/")


def waiting_first(tests: Iterable[_T], *, processes: int, name_of: Callable[[_T], str]) -> list[_T]:
    """
    Return the tests in an order that gives each process its share of the waiting tests, at its beginning.

    So waiting tests run beside each other and not beside computing tests, and no long test is left for the end.
    pytest-xdist cuts the list into one piece for each process. Later, it moves tests from the end of a piece.
    """
    tests = list(tests)
    waiting = [test for test in tests if name_of(test).startswith(WAITING)]
    others = [test for test in tests if not name_of(test).startswith(WAITING)]
    ordered: list[_T] = []
    for left in range(processes, 0, -1):
        size = (len(waiting) + len(others)) // left
        # The last process takes the rest of both.
        share = max(len(waiting) // left, size - len(others))
        ordered += waiting[:share] + others[: size - share]
        del waiting[:share], others[: size - share]
    return ordered
