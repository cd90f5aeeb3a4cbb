"""
The waiting time of documents, charged to the causes of verdicts. Arithmetic, no I/O.

Each waiting document is charged to one cause at each moment: the cause that holds its job, or the verdict on its host.
So the charges of a moment sum to the waiting documents, and those of a span to their waiting time.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.jobs import HostOfJob, most_common

# Longest time between two readings that is charged (seconds). Nothing is known about a longer one.
LONGEST_STEP: Final = 15.0


class Reading(NamedTuple):
    """The waiting documents by cause at a moment (seconds of any clock)."""

    at: float
    waiting: Mapping[Cause, int]


def charge_now(*, hold: Verdict | None, hosts: Sequence[HostOfJob], waiting: int) -> dict[Cause, int]:
    """
    Return the `waiting` documents of a job by the cause for which they wait now.

    `hosts` are those where most of them wait. Documents at other hosts are charged to the most common cause of these.
    """
    if not waiting:
        return {}
    if hold is not None:
        return {hold.cause: waiting}
    charged: dict[Cause, int] = {}
    left = waiting
    for host in sorted(hosts, key=lambda one: -one.waiting):
        here = min(host.waiting, left)
        if here and host.verdict.cause != Cause.NOTHING_WAITS:
            charged[host.verdict.cause] = charged.get(host.verdict.cause, 0) + here
            left -= here
    if left:
        rest = most_common(hosts).cause
        charged[rest] = charged.get(rest, 0) + left
    return charged


def charge(readings: Sequence[Reading]) -> dict[Cause, float]:
    """
    Return the document-seconds of each cause over these readings, the largest first.

    Between two readings, the documents of each cause are taken to change evenly.
    """
    charged: dict[Cause, float] = {}
    for earlier, later in pairwise(readings):
        step = later.at - earlier.at
        if 0 < step <= LONGEST_STEP:
            for cause in {*earlier.waiting, *later.waiting}:
                mean = (earlier.waiting.get(cause, 0) + later.waiting.get(cause, 0)) / 2
                charged[cause] = charged.get(cause, 0.0) + mean * step
    return dict(sorted(charged.items(), key=lambda one: (-one[1], one[0])))
