"""Documents that wait for hosts or are in progress there, and whether a manager and a worker can process them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, LiteralString

from django.db import connection

from jobs.lifecycle.document import Stage
from jobs.queue.sql.low_water import LOWEST_DELTA
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.sql.states import read_states
from jobs.verdicts.hosts import Known

# Documents of active jobs that wait for these hosts, documents of held jobs, and whether a worker could have them.
# Counters give the state of each lane, so no document is read; each branch reads its own index.
_WAITING: Final[LiteralString] = f"""
WITH lanes AS MATERIALIZED (
    SELECT lane.id, lane.bin_id, state.ready_at, seed.job_id, job.run_no, held.state = 'owned' AS is_owned, {RUNNABLE} AS may_run,
           seed.tag, held.failing_since, held.failing_why,
           EXISTS (SELECT FROM nodes_node AS node
                    WHERE node.scope = job.node_scope AND node.kind = 'worker' AND node.status = 'running'
                      AND (seed.tag = '' OR seed.tag = ANY(node.tags))) AS is_served
      FROM jobs_lane AS lane
     CROSS JOIN LATERAL {read_states("ready_at", of="lane", number="lane.id")} AS state
      JOIN jobs_seed AS seed ON seed.id = lane.seed_id
      JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active'
      LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
     WHERE lane.bin_id = ANY(%(hosts)s) AND (%(job)s::bigint IS NULL OR seed.job_id = %(job)s)
       AND (%(lane)s::bigint IS NULL OR lane.id = %(lane)s)
), counted AS (
    SELECT bin_id, sum(amount) FILTER (WHERE stage = {Stage.PENDING:d})::bigint AS waiting,
           sum(amount) FILTER (WHERE stage = {Stage.PENDING:d} AND NOT may_run)::bigint AS held,
           sum(amount) FILTER (WHERE stage = {Stage.ACTIVE:d})::bigint AS in_progress
      FROM (SELECT lanes.bin_id, may_run, stage, amount
              FROM lanes JOIN jobs_counter AS counter
                ON counter.job_id = lanes.job_id AND counter.run_no = lanes.run_no AND counter.lane_id = lanes.id
             WHERE measure = 'stage' AND stage IN ({Stage.PENDING:d}, {Stage.ACTIVE:d})
             UNION ALL
            SELECT lanes.bin_id, may_run, stage, amount
              FROM jobs_counterdelta AS delta JOIN lanes
                ON delta.job_id = lanes.job_id AND delta.run_no = lanes.run_no AND delta.lane_id = lanes.id AND delta.id >= {LOWEST_DELTA}
             WHERE delta.job_id IN (SELECT job_id FROM lanes) AND measure = 'stage' AND stage IN ({Stage.PENDING:d}, {Stage.ACTIVE:d})) AS both_
     GROUP BY bin_id
)
SELECT bin_id, min(ready_at) FILTER (WHERE may_run) AS ready_at, bool_or(coalesce(is_owned, false)) AS is_owned,
       bool_or(is_served) AS is_served, coalesce(min(tag) FILTER (WHERE NOT is_served AND tag <> ''), '') AS missing_tag,
       CASE WHEN bool_and(failing_since IS NOT NULL) THEN min(failing_since) END AS group_failing_since,
       coalesce(min(failing_why), '') AS group_why,
       coalesce(max(counted.waiting), 0) AS waiting, coalesce(max(counted.held), 0) AS held,
       coalesce(max(counted.in_progress), 0) AS in_progress
  FROM lanes LEFT JOIN counted USING (bin_id)
 GROUP BY bin_id
"""
# The facts of a host without a lane of an active job's seed.
WITHOUT_LANES: Final[Mapping[str, Any]] = {
    "ready_at": None,
    "is_owned": False,
    "is_served": False,
    "missing_tag": "",
    "group_failing_since": None,
    "group_why": "",
    "waiting": 0,
    "held": 0,
    "in_progress": 0,
}


def read_waiting(
    cursor: Any, ids: Sequence[int], *, job_id: int | None = None, lane_id: int | None = None
) -> dict[int, Any]:
    """
    Return the facts of these hosts by id. Hosts without a lane of an active job's seed are left out.

    With a `job_id` or `lane_id` the facts are about documents of that job or lane only.
    """
    facts = {"hosts": list(ids), "job": job_id, "lane": lane_id}
    return {row.bin_id: row for row in cursor.execute(_WAITING, facts)}


# Facts that differ between the jobs at one host.
_OF_A_JOB: Final = ("ready_at", "is_owned", "is_served", "missing_tag", "group_failing_since", "group_why")


def narrow(known: Mapping[int, Known], *, job_id: int | None = None, lane_id: int | None = None) -> dict[int, Known]:
    """Return the facts of these hosts, by id, for the documents of one job or lane."""
    if not known:
        return {}
    connection.ensure_connection()
    with named_rows(connection.connection) as cursor:
        rows = read_waiting(cursor, list(known), job_id=job_id, lane_id=lane_id)
    return {
        id_: replace(one, **{name: getattr(rows[id_], name) for name in _OF_A_JOB}) if id_ in rows else one
        for id_, one in known.items()
    }
