"""Waits for conditions, never for a fixed time."""

import time
from collections.abc import Callable
from typing import TypeVar

_T = TypeVar("_T")

# Shortest and longest time from one check of a condition to the next (seconds).
_SHORTEST_PAUSE = 0.02
_LONGEST_PAUSE = 0.1
# Pause before the next check: this part of the time since the start of the wait, or this multiple of the duration of
# the last check. The longer of the two applies.
_PART_OF_WAIT = 1 / 50
_DURATIONS_OF_CHECK = 3


def wait_for(condition: Callable[[], _T], *, saying: str, within: float = 60.0) -> _T:
    """
    Return the condition's value once it is true. Fail with `saying` after `within` seconds.

    Checks become rarer during a long wait, and an expensive check is rarer from the start: checks take processor time
    from the processes that the test waits for.
    """
    started_at = time.monotonic()
    while True:
        checked_at = time.monotonic()
        if found := condition():
            return found
        now = time.monotonic()
        assert now < started_at + within, f"not within {within:g} s: {saying}"
        pause = max(_PART_OF_WAIT * (now - started_at), _DURATIONS_OF_CHECK * (now - checked_at), _SHORTEST_PAUSE)
        time.sleep(min(pause, _LONGEST_PAUSE))


def wait_until(condition: Callable[[], _T], *, within: float = 60.0) -> _T:
    """Return the condition's value once it is true. Fail after `within` seconds."""
    return wait_for(condition, within=within, saying="the condition is true")
