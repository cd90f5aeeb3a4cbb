"""
The hosts of a job: the busiest ones, each with the verdict on the job's documents there, and the number of all its
hosts.
"""

import datetime as dt
import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.models import Outcome
from jobs.queries.hosts.lines import HostStatus, read_host_statuses
from jobs.queries.hosts.waiting import narrow
from jobs.queue.sql.low_water import LOWEST_DELTA, LOWEST_TURN
from jobs.verdicts.causes import Verdict
from jobs.verdicts.forecast import Queue
from jobs.verdicts.hosts import judge_host

# Number of the busiest hosts that are read, and largest number of hosts that are counted.
HOSTS_SHOWN: Final = 50
_HOSTS_COUNTED: Final = 1_000
# Number of hosts of each kind (see `_HOSTS`) among which the busiest are searched.
_EXAMINED: Final = 100
_SEEDS_EXAMINED: Final = 200

# Hosts with the most claimed or waiting documents have an open turn, or a lane that is ready first or went to sleep
# last. Some of each kind are found by an index, and only their counts are read. The counters have these, so no
# document is read.
_HOSTS: Final = f"""
WITH seeds AS MATERIALIZED (
    SELECT id FROM jobs_seed WHERE job_id = %(job)s ORDER BY id LIMIT {_SEEDS_EXAMINED}
), served AS (
    SELECT turn.bin_id FROM jobs_turn AS turn
      JOIN jobs_lane AS lane ON lane.id = turn.lane_id
      JOIN jobs_seed AS seed ON seed.id = lane.seed_id AND seed.job_id = %(job)s
     WHERE turn.closed_at IS NULL AND turn.id >= {LOWEST_TURN}
     ORDER BY turn.documents DESC, turn.id LIMIT {_EXAMINED}
), ready AS (
    SELECT lane.bin_id
      FROM seeds CROSS JOIN (VALUES (true), (false)) AS ahead(is_ahead)
     CROSS JOIN LATERAL (SELECT bin_id, ready_at FROM jobs_lanestate
                          WHERE seed_id = seeds.id AND is_ahead = ahead.is_ahead AND ready_at IS NOT NULL
                          ORDER BY ready_at LIMIT {_EXAMINED}) AS lane
     ORDER BY lane.ready_at LIMIT {_EXAMINED}
), asleep AS (
    SELECT lane.bin_id
      FROM seeds
     CROSS JOIN LATERAL (SELECT bin_id, served_at FROM jobs_lanestate
                          WHERE seed_id = seeds.id AND ready_at IS NULL
                          ORDER BY served_at DESC NULLS LAST LIMIT {_EXAMINED}) AS lane
     ORDER BY lane.served_at DESC NULLS LAST LIMIT {_EXAMINED}
), lanes AS MATERIALIZED (
    SELECT lane.id, lane.bin_id
      FROM (SELECT bin_id FROM served UNION SELECT bin_id FROM ready UNION SELECT bin_id FROM asleep) AS examined
      JOIN jobs_lane AS lane ON lane.bin_id = examined.bin_id
      JOIN jobs_seed AS seed ON seed.id = lane.seed_id AND seed.job_id = %(job)s
), counted AS (
    SELECT lanes.bin_id, counter.stage, counter.outcome, counter.amount
      FROM lanes CROSS JOIN LATERAL (
           SELECT stage, outcome, amount FROM jobs_counter
            WHERE job_id = %(job)s AND run_no = %(run)s AND lane_id = lanes.id AND measure = 'stage') AS counter
     UNION ALL
    SELECT lanes.bin_id, delta.stage, delta.outcome, delta.amount
      FROM jobs_counterdelta AS delta JOIN lanes ON lanes.id = delta.lane_id
     WHERE delta.job_id = %(job)s AND delta.run_no = %(run)s AND delta.id >= {LOWEST_DELTA} AND delta.measure = 'stage'
)
SELECT bin_id,
       coalesce(sum(amount) FILTER (WHERE stage = %(pending)s), 0)::bigint AS pending,
       coalesce(sum(amount) FILTER (WHERE stage = %(active)s), 0)::bigint AS active,
       coalesce(sum(amount) FILTER (WHERE stage = %(done)s), 0)::bigint AS done,
       coalesce(sum(amount) FILTER (WHERE stage = %(done)s AND outcome = %(failed)s), 0)::bigint AS failed
  FROM counted
 GROUP BY bin_id
 ORDER BY active DESC, pending DESC, done DESC, bin_id
 LIMIT {HOSTS_SHOWN}
"""
# At most this number of lanes is read (a host has one for each seed). Above the limit, it is enough to know that there
# are more.
_KNOWN_HOSTS: Final = f"""
SELECT count(*), count(DISTINCT bin_id)
  FROM (SELECT lane.bin_id FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
         WHERE seed.job_id = %(job)s LIMIT {_HOSTS_COUNTED + 1}) AS known
"""


class RunOfJob(Protocol):
    """The last run of a job. `id` and `run_no` are valid in the database of this thread."""

    @property
    def id(self) -> int: ...

    @property
    def run_no(self) -> int: ...

    @property
    def runs(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class HostLine:
    """One host, with the verdict on the documents of this job there, and the numbers of these documents by state."""

    host: HostStatus
    verdict: Verdict
    pending: int
    active: int
    done: int
    failed: int
    # Another partition that has the host; '' if this one has it.
    partition: str = ""

    @property
    def at_workers(self) -> int:
        """
        Return the number of documents of the job that workers have and have not begun. If jobs share the host, the
        number is an estimate: the job's part of all such documents at the host.
        """
        every = self.host.in_progress
        return math.ceil(self.host.known.waiting_at_workers * self.active / every) if every else 0


def read_hosts_of(job: RunOfJob, *, now: dt.datetime) -> list[HostLine]:
    """Read the busiest hosts of a job."""
    facts = {
        "job": job.id,
        "run": job.run_no,
        "pending": Stage.PENDING,
        "active": Stage.ACTIVE,
        "done": Stage.DONE,
        "failed": Outcome.FAILED,
    }
    with connection.cursor() as cursor:
        cursor.execute(_HOSTS, facts)
        counts = {bin_id: documents for bin_id, *documents in cursor.fetchall()}
    lines = read_host_statuses(list(counts), now=now)
    # If several jobs have documents at a host, a worker or a manager may be missing for this job only.
    shared = {
        line.id: line.known
        for line in lines
        if job.runs and (line.waiting, line.in_progress) != tuple(counts[line.id][:2])
    }
    own = narrow(shared, job_id=job.id)
    return [
        HostLine(line, judge_host(own[line.id], now=now) if line.id in own else line.verdict, *counts[line.id])
        for line in lines
    ]


def count_hosts(job: RunOfJob) -> tuple[int, bool]:
    """Return the number of hosts of a job, and True if there may be more."""
    with connection.cursor() as cursor:
        cursor.execute(_KNOWN_HOSTS, {"job": job.id})
        lanes, hosts = cursor.fetchone()
    return min(hosts, _HOSTS_COUNTED), lanes > _HOSTS_COUNTED


def queues_of(hosts: Iterable[HostLine]) -> list[Queue]:
    """Return the queues of a job at its hosts, with the rates that the hosts allow."""
    return [Queue(host.pending + host.active, host.host.allowed_starts_per_second) for host in hosts]
