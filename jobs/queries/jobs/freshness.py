"""The freshness goals of a job with the achieved shares, from the totals and plans of the main manager."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final

from django.db import connection

from jobs.connectors.repository.freshness_goals import read_goals
from jobs.models import GoalTotal, Job
from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, local_job, read_everywhere

# Number of hosts that a page lists among the hosts that are too slow. The hosts that lack the most requests come first.
_HOSTS_SHOWN: Final = 10
# Largest number of jobs whose figures in other partitions are cached for open pages.
_JOBS_CACHED: Final = 64
# Accuracy of a share that is estimated from samples.
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
    A goal and its documents. `achieved` is the likely share of fresh documents now, and `expected` the share to which
    the planned looks lead; None before they are measured. `needs` is the number of looks per second that the goal
    needs, and `gets` the number that is planned for it.
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
    # Another partition that has the host; '' if this one has it.
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Freshness:
    """
    The goals of a job in their order, and the first hosts that are too slow for them.

    `silent` partitions did not answer, so the numbers of documents are lower limits.
    """

    goals: Sequence[GoalLine] = ()
    slow_hosts: Sequence[SlowHost] = ()
    measured_at: dt.datetime | None = None
    silent: Sequence[str] = ()


def read_freshness(job_id: int) -> Freshness | None:
    """Return the goals of a job with the achieved shares; None if it does not exist."""
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
        # A host has a lane for each seed, so the same host may occur several times.
        slow = {id_: SlowHost(id_, name, needs, allows) for id_, name, needs, allows in cursor.fetchall()}
    measured_at = max((one.measured_at for one in totals.values()), default=None)
    return Freshness(lines, list(slow.values()), measured_at)


def read_freshness_everywhere(job_id: int) -> Freshness | None:
    """Return the goals of a job with the achieved shares in all partitions; None if it does not exist."""
    own = read_freshness(job_id)
    if own is None or not own.goals:
        return own
    found = read_everywhere(lambda: None, lambda _name: _read_elsewhere(job_id))
    return _of_all(own, found)


def read_freshness_for_open_page(job_id: int) -> Freshness | None:
    """
    Return the goals in all partitions; None if the job does not exist. Figures of other partitions may be some seconds
    old.
    """
    own = read_freshness(job_id)
    cached = _cached_of(job_id).answers() if own is not None and own.goals else None
    return own if cached is None or own is None else _of_all(own, cached.found)


def _read_elsewhere(job_id: int) -> Freshness | None:
    local = local_job(job_id)
    return None if local is None else read_freshness(local)


@lru_cache(maxsize=_JOBS_CACHED)
def _cached_of(job_id: int) -> HeldAnswers[Freshness | None]:
    return HeldAnswers(lambda _name: _read_elsewhere(job_id))


def _of_all(own: Freshness, found: Merged[Freshness | None]) -> Freshness:
    others = {name: part for name, part in sorted(found.others.items()) if part is not None}
    return add_partitions(own, others, silent=[one.name for one in found.silent])


def add_partitions(own: Freshness, others: Mapping[str, Freshness], *, silent: Sequence[str] = ()) -> Freshness:
    """
    Return the figures of this partition and others together. A share is weighted by documents, and hosts that lack most
    requests come first.

    A partition that does not know a goal yet contributes no figures to this goal.
    """
    parts = [own, *others.values()]
    same = {(line.number, line.pattern, line.share, line.within): [line] for line in own.goals}
    for line in (line for part in others.values() for line in part.goals):
        same.get((line.number, line.pattern, line.share, line.within), []).append(line)
    slow = [replace(host, partition=name) for name, part in others.items() for host in part.slow_hosts]
    return Freshness(
        [_sum(lines) for lines in same.values()],
        sorted([*own.slow_hosts, *slow], key=lambda host: host.allows - host.needs)[:_HOSTS_SHOWN],
        max((part.measured_at for part in parts if part.measured_at is not None), default=None),
        silent,
    )


def _sum(lines: Sequence[GoalLine]) -> GoalLine:
    measured = [line for line in lines if line.documents]
    if len(measured) < 2:
        return measured[0] if measured else lines[0]
    documents = sum(line.documents for line in measured)
    return replace(
        lines[0],
        documents=documents,
        achieved=sum((line.achieved or 0.0) * line.documents for line in measured) / documents,
        expected=sum((line.expected or 0.0) * line.documents for line in measured) / documents,
        needs=sum(line.needs or 0.0 for line in measured),
        gets=sum(line.gets or 0.0 for line in measured),
    )


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
