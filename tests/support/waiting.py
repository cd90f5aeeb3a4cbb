"""Waits for conditions, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")


def wait_until(condition: Callable[[], _T], *, within: float = 60.0) -> _T:
    """Return the condition's value once it is true. Fail after `within` seconds."""
    deadline = time.monotonic() + within
    while not (found := condition()):
        assert time.monotonic() < deadline, f"it did not come true within {within:g} s"
        time.sleep(0.01)
    return found
