"""
The waiting time of documents, charged to the causes of verdicts. Arithmetic, no I/O.

Each waiting document is charged to one cause at each moment: the cause that holds its job, or the verdict on its host.
So the sum of the charges at a moment is the number of waiting documents, and the sum over a span is their waiting time.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from jobs.verdicts.causes import Cause, Verdict
from jobs.verdicts.jobs import HostOfJob, most_common

_S = TypeVar("_S", bound=Hashable)

# Longest time between two samples that is charged (seconds). A longer time is not charged, because too little is known
# about it.
LONGEST_STEP: Final = 15.0


class Sample(NamedTuple, Generic[_S]):
    """
    A sample: the waiting documents of each subject by cause, at a moment (seconds of any clock).

    `term` is the number of the main manager's term. The time between samples of two terms is not charged, because the
    earlier main manager may have charged it.
    """

    at: float
    waiting: Mapping[_S, Mapping[Cause, int]]
    term: int = 0


def charge_now(*, hold: Verdict | None, hosts: Sequence[HostOfJob], waiting: int) -> dict[Cause, int]:
    """
    Return the `waiting` documents of a job by the cause for which they wait now.

    `hosts` are the hosts at which most of them wait. Documents at other hosts are charged to the most common cause at
    these hosts.
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


def add_up(charged: Sequence[Mapping[Cause, int]]) -> dict[Cause, int]:
    """Return the waiting documents of several jobs by cause."""
    whole: dict[Cause, int] = {}
    for one in charged:
        for cause, amount in one.items():
            whole[cause] = whole.get(cause, 0) + amount
    return whole


def charge(earlier: Sample[_S] | None, later: Sample[_S]) -> dict[tuple[_S, Cause], float]:
    """
    Return the document-seconds of each subject and cause between two samples.

    The calculation assumes that the documents of each cause change evenly between the samples. A subject that the
    earlier sample lacks had no waiting documents then.
    """
    if earlier is None or earlier.term != later.term or not 0 < later.at - earlier.at <= LONGEST_STEP:
        return {}
    step = later.at - earlier.at
    charged: dict[tuple[_S, Cause], float] = {}
    for subject in {*earlier.waiting, *later.waiting}:
        before, after = earlier.waiting.get(subject, {}), later.waiting.get(subject, {})
        for cause in {*before, *after}:
            if seconds := (before.get(cause, 0) + after.get(cause, 0)) / 2 * step:
                charged[subject, cause] = seconds
    return charged
