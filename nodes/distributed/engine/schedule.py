"""
The time of a job's next run, computed from its earlier runs. Moments are seconds of a clock that never steps back.

By *delay*, a run begins a fixed time after the end of the one before. By *rate*, runs begin on a grid of that period.
Missed grid points are skipped: after a run that took longer than its period, the next run begins immediately, but
missed runs are not repeated.
"""

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, Self

# Smallest distance between the starts of two runs by rate (in periods).
_APART: Final = 0.85

# Longest time to a run (seconds). A longer one, such as `timedelta.max` for "never", would be later than any date.
_LONGEST: Final = dt.timedelta(days=36_500).total_seconds()

# Back-off after the first failure, and longest back-off. Each further failure in a row doubles the back-off.
_FIRST_BACK_OFF: Final = dt.timedelta(seconds=1)
_MOST_BACK_OFF: Final = dt.timedelta(minutes=5)
_MOST_DOUBLINGS: Final = 20


class Kind(StrEnum):
    DELAY = "delay"
    RATE = "rate"


@dataclass(frozen=True, slots=True)
class Schedule:
    """The interval of a job's runs. Construct it with `by_delay` or `by_rate`."""

    kind: Kind
    every: dt.timedelta

    def __post_init__(self) -> None:
        if self.every < dt.timedelta() or (self.kind == Kind.RATE and not self.every):
            least = "more than 0" if self.kind == Kind.RATE else "0 or more"
            raise ValueError(
                f"a schedule by {self.kind} of {self.every.total_seconds():g} s is invalid: it must be {least}"
            )

    @classmethod
    def by_delay(cls, every: dt.timedelta) -> Self:
        """
        Return a schedule that runs this long after the end of a run.

        Raises:
            ValueError: the time is negative.
        """
        return cls(Kind.DELAY, every)

    @classmethod
    def by_rate(cls, every: dt.timedelta) -> Self:
        """
        Return a schedule that runs once in each period.

        Raises:
            ValueError: the period is not positive.
        """
        return cls(Kind.RATE, every)


@dataclass(frozen=True, slots=True)
class Past:
    """
    The facts about the earlier runs of a job on a node from which the next run is computed.

    `planned_at` is the grid point of the last run. `failures` counts failures in a row.
    """

    taken_up_at: float
    planned_at: float | None = None
    started_at: float | None = None
    ended_at: float | None = None
    failures: int = 0

    def with_run(self, *, planned_at: float, started_at: float, ended_at: float, failed: bool) -> "Past":
        """Return the past with one more run."""
        return replace(
            self,
            planned_at=planned_at,
            started_at=started_at,
            ended_at=ended_at,
            failures=self.failures + 1 if failed else 0,
        )

    def with_run_elsewhere(self, paced_from: float) -> "Past":
        """Return the past with a run of another node. The time to the next run counts from `paced_from`."""
        return replace(self, planned_at=paced_from, started_at=paced_from, ended_at=paced_from)


def next_start(schedule: Schedule, past: Past, *, initial_delay: dt.timedelta | None = None) -> float:
    """
    Return the moment at which the next run is due. A moment in the past means that the run is due now.

    The first run is due `initial_delay` after the job was taken up, by default after the schedule's own interval. A run
    after a failure is never due before the back-off has ended.
    """
    every = min(schedule.every.total_seconds(), _LONGEST)
    if past.ended_at is None or past.started_at is None or past.planned_at is None:
        first = every if initial_delay is None else min(initial_delay.total_seconds(), _LONGEST)
        return past.taken_up_at + first
    if schedule.kind == Kind.DELAY:
        due = past.ended_at + every
    else:
        soonest = past.started_at + _APART * every
        due = past.planned_at + every * max(1, math.ceil((soonest - past.planned_at) / every))
    return max(due, past.ended_at + back_off(past.failures).total_seconds()) if past.failures else due


def back_off(failures: int) -> dt.timedelta:
    """Return the back-off after this number of failures in a row: zero after none, 5 minutes at most."""
    if failures < 1:
        return dt.timedelta()
    doublings = min(failures - 1, _MOST_DOUBLINGS)
    return min(_MOST_BACK_OFF, _FIRST_BACK_OFF * (1 << doublings))


def paced_from(schedule: Schedule, *, started_at: float, ended_at: float) -> float:
    """Return the moment of a run from which the time to the next one counts."""
    return started_at if schedule.kind == Kind.RATE else ended_at


def ran_elsewhere(schedule: Schedule, own: Past, moment: float) -> bool:
    """
    True if another node ran an item after the last run in `own`, the past of the item on this node. In the store, the
    time to the item's next run counts from `moment`.

    The store gives the moment with the delay of its answers. Two runs of an item are most of a period apart, so half a
    period distinguishes the last run of this node from a later run of another node.
    """
    if own.started_at is None or own.ended_at is None:
        return True
    mine = paced_from(schedule, started_at=own.started_at, ended_at=own.ended_at)
    return moment > mine + schedule.every.total_seconds() / 2


def past_of_group(own: Iterable[Past], others: Iterable[Past]) -> Past:
    """
    Return the past of a group of items. `own` has one past for each of its items, and `others` has those of the other
    items on this node.

    None of the items runs sooner than its schedule allows: the latest run counts. A group without any run is due when
    the first of the other items is due. So a share that changes often still runs its new items.
    """
    own = list(own)
    runs = [past for past in own if past.ended_at is not None]
    if runs:
        last = max(runs, key=lambda past: past.started_at or 0.0)
        ended_at = max(past.ended_at or 0.0 for past in runs)
        return replace(last, ended_at=ended_at, failures=max(past.failures for past in runs))
    runs = [past for past in others if past.ended_at is not None]
    if runs:
        return min(runs, key=lambda past: past.ended_at or 0.0)
    return min(own, key=lambda past: past.taken_up_at)
