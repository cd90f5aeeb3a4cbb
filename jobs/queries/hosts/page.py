"""The further content of a host's page: the lanes that wait for it, and its latest answers."""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.models import Bin, Charge
from jobs.queries.charges import read_charges
from jobs.queries.hosts.answers import Answers, read_answers
from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.queue.sql.low_water import LOWEST_DELTA
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.sql.states import read_states
from jobs.verdicts.causes import Cause

_LANES_SHOWN: Final = 20

# Lanes in the order in which the host serves them: by the priority of the job, then the lane that was served longest
# ago first.
_LANES: Final = f"""
SELECT lane.id, job.id, job.name, seed.urls[1], job.priority, lane.served_at, lane.ready_at, node.name, {RUNNABLE},
       seed.tag, sum(counted.amount) FILTER (WHERE counted.stage = {Stage.PENDING:d}),
       sum(counted.amount) FILTER (WHERE counted.stage = {Stage.ACTIVE:d})
  FROM (SELECT lane.id, lane.seed_id, state.served_at, state.ready_at
          FROM jobs_lane AS lane CROSS JOIN LATERAL {read_states("served_at, ready_at", of="lane", number="lane.id")} AS state
         WHERE lane.bin_id = %(bin)s ORDER BY state.ready_at NULLS LAST LIMIT 200) AS lane
  JOIN jobs_seed AS seed ON seed.id = lane.seed_id
  JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
  LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
  LEFT JOIN nodes_node AS node ON node.id = held.owner_id
 CROSS JOIN LATERAL (
       SELECT stage, amount FROM jobs_counter AS counter
        WHERE counter.job_id = job.id AND counter.run_no = job.run_no AND counter.lane_id = lane.id AND measure = 'stage'
        UNION ALL
       SELECT stage, amount FROM jobs_counterdelta AS delta
        WHERE delta.job_id = job.id AND delta.run_no = job.run_no AND delta.lane_id = lane.id AND delta.id >= {LOWEST_DELTA}
          AND measure = 'stage') AS counted
 WHERE counted.stage IN ({Stage.PENDING:d}, {Stage.ACTIVE:d})
 GROUP BY lane.id, job.id, seed.id, lane.served_at, lane.ready_at, node.name
HAVING sum(counted.amount) > 0
 ORDER BY {RUNNABLE} DESC, job.priority, lane.served_at NULLS FIRST, lane.id
 LIMIT %(shown)s
"""


@dataclass(frozen=True, slots=True)
class LaneLine:
    """
    Documents of one seed that wait for the host or are in progress there. `owner` is the manager that hands them out.
    """

    id: int
    job_id: int
    job_name: str
    seed: str
    priority: int
    served_at: dt.datetime | None
    ready_at: dt.datetime | None
    owner: str
    may_run: bool
    tag: str
    waiting: int
    in_progress: int


@dataclass(frozen=True, slots=True)
class HostPage:
    host: HostStatus
    # The seed whose turn is next comes first.
    lanes: Sequence[LaneLine]
    answers: Answers
    # The waiting time of the host's documents by cause, in document-seconds of the last minutes.
    charges: Mapping[Cause, float]


def read_host_page(bin_id: int, *, now: dt.datetime) -> HostPage | None:
    """Read the page of a host of a connector; None if it does not exist."""
    found = read_host_statuses([bin_id], now=now)
    if not found or found[0].namespace in {Bin.ADDRESS, Bin.POLICY}:
        return None
    (line,) = found
    charges = read_charges(Charge.Subject.HOST, bin_id, now=now)
    return HostPage(line, _read_lanes(bin_id), read_answers(line.id, line.name, now=now), charges)


def _read_lanes(bin_id: int) -> list[LaneLine]:
    rows = _rows(_LANES, {"bin": bin_id, "shown": _LANES_SHOWN})
    return [
        LaneLine(id_, job, name, seed or "", priority, served, ready, owner or "", runs, tag, waiting or 0, active or 0)
        for id_, job, name, seed, priority, served, ready, owner, runs, tag, waiting, active in rows
    ]


def _rows(query: str, facts: dict[str, Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, facts)
        found: list[tuple[Any, ...]] = cursor.fetchall()
        return found
