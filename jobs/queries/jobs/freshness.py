"""The freshness goals of a job against what it achieves, from the totals and plans of the main manager."""

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from django.db import connection

from jobs.connectors.repository.freshness_goals import read_goals
from jobs.models import GoalTotal, Job

# Hosts that are too slow on a page, the ones that lack most requests first.
_HOSTS_SHOWN: Final = 10
# Accuracy of shares that samples tell.
ACCURACY: Final = 0.005

_SLOW: Final = """
SELECT bin.id, bin.name, plan.host_needs, plan.allows
  FROM jobs_laneplan AS plan JOIN jobs_lane AS lane ON lane.id = plan.lane_id JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 WHERE plan.job_id = %(job)s AND plan.lacks > 0 AND plan.goals = %(goals)s
 ORDER BY plan.lacks DESC LIMIT %(most)s
"""


@dataclass(frozen=True, slots=True)
class GoalLine:
    """
    A goal and its documents. `achieved` is the likely share that is fresh now, and `expected` the share that the planned
    looks lead to; None before they are measured. It `needs` looks per second, and `gets` as many as hosts allow.
    """

    number: int
    pattern: str
    share: float
    within: float
    documents: int = 0
    achieved: float | None = None
    expected: float | None = None
    needs: float | None = None
    gets: float | None = None

    @property
    def is_met(self) -> bool | None:
        """True if the goal is met now, within the accuracy of samples; None if that is unknown."""
        return None if self.achieved is None else self.achieved >= self.share - ACCURACY


@dataclass(frozen=True, slots=True)
class SlowHost:
    """A host that allows fewer requests per second than the goals of all jobs need there."""

    id: int
    name: str
    needs: float
    allows: float


@dataclass(frozen=True, slots=True)
class Freshness:
    """The goals of a job in their order, and the first hosts that are too slow for them."""

    goals: Sequence[GoalLine] = ()
    slow_hosts: Sequence[SlowHost] = ()
    measured_at: dt.datetime | None = None


def read_freshness(job_id: int) -> Freshness | None:
    """Return the goals of a job against what it achieves; None if it does not exist."""
    stored = Job.objects.filter(pk=job_id).values_list("freshness_goals", flat=True).first()
    if stored is None:
        return None
    goals = read_goals(stored)
    if goals is None:
        return Freshness()
    totals = {one.number: one for one in GoalTotal.objects.filter(job_id=job_id, goals=goals.version)}
    lines = [
        _line(number, goal["pattern"], goal["percent"] / 100, goal["within"], totals.get(number))
        for number, goal in enumerate(stored)
    ]
    with connection.cursor() as cursor:
        cursor.execute(_SLOW, {"job": job_id, "goals": goals.version, "most": _HOSTS_SHOWN})
        # A host has a lane for each seed.
        slow = {id_: SlowHost(id_, name, needs, allows) for id_, name, needs, allows in cursor.fetchall()}
    measured_at = max((one.measured_at for one in totals.values()), default=None)
    return Freshness(lines, list(slow.values()), measured_at)


def _line(number: int, pattern: str, share: float, within: float, total: GoalTotal | None) -> GoalLine:
    documents = 0 if total is None else round(total.documents)
    if total is None or not documents:
        return GoalLine(number, pattern, share, within)
    return GoalLine(
        number,
        pattern,
        share,
        within,
        documents=documents,
        achieved=min(total.fresh / total.documents, 1.0),
        expected=min(total.expected / total.documents, 1.0),
        needs=max(total.needs, 0.0),
        gets=max(total.gets, 0.0),
    )
