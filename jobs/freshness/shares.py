"""
The requests per second that a host has left for its goals, under its own limits and under limits that several hosts
share. Requests for documents without a goal are subtracted. Arithmetic, no I/O.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

# Least share of a host's requests for its goals in a plan, because before the first price their needs are unknown.
_LEAST: Final = 0.1


class Wait(NamedTuple):
    """
    A document without a goal: the seconds from its last look to its next look, and the seconds from now to the next
    look.
    """

    interval: float
    due_in: float


class SharedLimit(NamedTuple):
    """A limit of several hosts: its requests per second, the needs of the other hosts, and the number of these hosts."""

    rate: float
    others: float
    hosts: int


def rate_of(waits: Sequence[Wait | None], *, is_whole: bool) -> float:
    """
    Return the requests per second for documents without a goal.

    `waits` are documents in the order of their due times, None for a document with a goal. If `waits` has only the
    first documents of a lane, it is a sample: each document counts by the part of its interval that `waits` covers.
    """
    span = float("inf")
    due = [wait for wait in waits if wait is not None]
    if not is_whole and due:
        span = max(due[-1].due_in - due[0].due_in, 1.0)
    return sum(1 / max(min(span, wait.interval), 1.0) for wait in due)


def left(rate: float, *, others: float, own: float) -> float:
    """
    Return the part of a rate that is left for the needs `own`, if other documents or hosts have the needs `others`. The
    result is the larger of two parts: the rate minus `others`, and the share of `own` in all needs.
    """
    own = max(own, rate * _LEAST)
    return max(rate - others, rate * own / (own + others))


def allowed(own_rate: float | None, shared: Sequence[SharedLimit], *, own: float) -> float | None:
    """Return the requests per second that a host allows under its own limit and shared ones; None for any number."""
    rates = [own_rate] if own_rate is not None else []
    for limit in shared:
        needs = own or limit.rate / (limit.hosts + 1)
        rates.append(left(limit.rate, others=limit.others, own=needs))
    return min(rates, default=None)
