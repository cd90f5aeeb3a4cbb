"""
What a stuffing transaction holds before it chooses anything, and how it offers what it chose.

The fences, the jobs and their budgets, the ready lanes and their bins are locked by one chained statement;
whoever stuffs reads in later ones what they allow.
"""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.job import Phase, Scan
from jobs.queue.runnable import RUNNABLE
from jobs.throttling.bins import LaneSeen
from nodes.fences import FenceRefused
from nodes.lifecycle import CLUSTER_SCOPE

# Lanes that one pass looks at. Half of them are left to those that have been at the front before: a bin in which much
# waits must not queue again, behind a hundred thousand others, for each turn.
LANES_A_PASS: Final = 200


@dataclass(frozen=True, slots=True)
class GroupHeld:
    """A group as its owner knows it: the epoch that he was given is his fence."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Stuffed:
    """What one pass offered."""

    documents: int = 0
    batches: int = 0


# The fences, the runnable jobs of the group and their budgets, its ready lanes (of those that are ahead and of the
# others: by job priority, oldest `ready_at` first), their bins locked, then they.
# Locks: Node KEY SHARE, ThrottleGroup SHARE, Job SHARE by id, Budget by job, Bin by id, Lane by id; the
# last two skip what is locked. Each step reads the one before, which makes the order. A locked row is
# checked again after a lock wait, so each fence is judged as it stands when the lock is held; what the
# bins allow is read by the next statement.
_HOLD: Final[LiteralString] = f"""
WITH node AS MATERIALIZED (
    SELECT id FROM nodes_node
     WHERE id = %(manager)s AND status IN ('running', 'draining')
       FOR KEY SHARE
), held AS MATERIALIZED (
    SELECT id, node_scope, policy_id FROM jobs_throttlegroup
     WHERE id = %(group)s AND owner_id = (SELECT id FROM node) AND epoch = %(epoch)s AND state = 'owned'
       FOR SHARE
), runnable AS MATERIALIZED (
    SELECT job.id, job.run_no, job.priority, job.phase, job.hop_limits <> '{{}}' AND (job.kind = 'continuous' OR job.phase = 'shutting_down' AND NOT job.minimal) AS takes_out, job.scan
      FROM jobs_job AS job
     WHERE job.id IN (SELECT job_id FROM jobs_seed WHERE group_id = (SELECT id FROM held))
       AND {RUNNABLE} AND job.phase = ANY(%(phases)s)
     ORDER BY job.id
       FOR SHARE
), budget AS MATERIALIZED (
    SELECT job_id, most - admitted AS left_over FROM jobs_budget
     WHERE job_id IN (SELECT id FROM runnable WHERE phase = 'active')
     ORDER BY job_id
       FOR NO KEY UPDATE
), seeds AS MATERIALIZED (
    SELECT seed.id, seed.job_id, runnable.priority, needed.tag
      FROM runnable JOIN jobs_seed AS seed ON seed.job_id = runnable.id AND seed.group_id = (SELECT id FROM held)
     -- The workers of a one-shot have no tags, and nobody to leave anything to.
     CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT node_scope FROM held) = %(cluster)s THEN seed.tag ELSE '' END AS tag) AS needed
     WHERE (SELECT count(*) FROM budget) >= 0
       -- Of a tag no more is offered than the workers that have it could hold: it would stand in everybody's way.
       AND (needed.tag = '' OR (SELECT coalesce(sum(capacity), 0) FROM nodes_node AS tagged
                               WHERE tagged.scope = (SELECT node_scope FROM held) AND tagged.kind = 'worker'
                                 AND tagged.status = 'running' AND needed.tag = ANY(tagged.tags))
                           > (SELECT coalesce(sum(documents), 0) FROM jobs_batch AS offered
                               WHERE offered.node_scope = (SELECT node_scope FROM held) AND offered.state = 'available'
                                 AND offered.tag = needed.tag))
), ahead AS MATERIALIZED (
    SELECT lane.id, lane.bin_id, seeds.job_id, seeds.tag
      FROM seeds CROSS JOIN LATERAL (
           SELECT id, bin_id, ready_at FROM jobs_lane
            WHERE seed_id = seeds.id AND is_ahead AND ready_at <= %(now)s
            ORDER BY ready_at LIMIT {LANES_A_PASS // 2}) AS lane
     ORDER BY seeds.priority, lane.ready_at LIMIT {LANES_A_PASS // 2}
), ready AS MATERIALIZED (
    SELECT * FROM ahead
     UNION ALL
    (SELECT lane.id, lane.bin_id, seeds.job_id, seeds.tag
       FROM seeds CROSS JOIN LATERAL (
            SELECT id, bin_id, ready_at FROM jobs_lane
             WHERE seed_id = seeds.id AND NOT is_ahead AND ready_at <= %(now)s
             ORDER BY ready_at LIMIT {LANES_A_PASS}) AS lane
      ORDER BY seeds.priority, lane.ready_at LIMIT {LANES_A_PASS} - (SELECT count(*) FROM ahead))
), wanted AS MATERIALIZED (
    -- A bin without its parent would be of no use.
    SELECT id, parent_id FROM jobs_bin WHERE id IN (SELECT bin_id FROM ready)
), bin AS MATERIALIZED (
    SELECT id FROM jobs_bin WHERE id IN (SELECT id FROM wanted UNION SELECT parent_id FROM wanted WHERE parent_id IS NOT NULL)
     ORDER BY id
       FOR NO KEY UPDATE SKIP LOCKED
), locked AS MATERIALIZED (
    SELECT lane.id, lane.bin_id, lane.served_at, lane.is_ahead
      FROM jobs_lane AS lane
     WHERE lane.id IN (SELECT id FROM ready)
       AND lane.bin_id IN (SELECT wanted.id FROM wanted JOIN bin USING (id)
                            WHERE parent_id IS NULL OR parent_id IN (SELECT id FROM bin))
     ORDER BY lane.id
       FOR NO KEY UPDATE SKIP LOCKED
)
SELECT (SELECT count(*) FROM node) AS nodes, (SELECT node_scope FROM held) AS scope,
       (SELECT policy_id FROM held) AS policy,
       (SELECT coalesce(json_agg(id), '[]') FROM bin) AS bins,
       (SELECT coalesce(json_agg(runnable), '[]') FROM runnable) AS jobs,
       (SELECT coalesce(json_agg(budget), '[]') FROM budget) AS budgets,
       (SELECT coalesce(json_agg(json_build_array(locked.id, locked.bin_id, ready.job_id, locked.served_at, ready.tag, locked.is_ahead)), '[]')
          FROM locked JOIN ready USING (id)) AS lanes,
       (SELECT json_object_agg(needed.tag, needed.workers)
          FROM (SELECT wanted.tag, json_agg(worker.id) AS workers
                  FROM (SELECT DISTINCT tag FROM ready WHERE tag <> '') AS wanted
                  JOIN nodes_node AS worker
                    ON worker.scope = (SELECT node_scope FROM held) AND worker.kind = 'worker'
                   AND worker.status = 'running' AND wanted.tag = ANY(worker.tags)
                 GROUP BY wanted.tag) AS needed) AS tagged
"""

# The batches of an offer, with ids that were drawn before: an id is its documents' claim token.
OFFER: Final[LiteralString] = """
INSERT INTO jobs_batch (id, group_id, node_scope, manager_id, worker_id, preferred, kind, tag, state, documents, created_at)
SELECT id, %(group)s, %(scope)s, %(manager)s, worker, preferred, %(kind)s, tag, 'available', documents, %(now)s
  FROM unnest(%(offer_ids)s::bigint[], %(offer_workers)s::uuid[], %(offer_preferred)s::uuid[], %(offer_tags)s::text[],
              %(offer_documents)s::int[])
       AS offered(id, worker, preferred, tag, documents)
"""
DRAW_IDS: Final[LiteralString] = "SELECT nextval('jobs_batch_id_seq') AS id FROM generate_series(1, %(count)s)"


@dataclass(frozen=True, slots=True)
class JobHeld:
    id: int
    run_no: int
    priority: int
    phase: str
    # Whether what has come to stand outside its hop limits leaves the outputs now.
    takes_out: bool
    scan: Scan


@dataclass(frozen=True, slots=True)
class Held:
    """
    What a stuffing transaction holds: of a group whose seeds are all of one `policy`, or of none.

    `bins` are those of the lanes, and the addresses above them. `budgets` are what jobs with a limit may still admit.
    """

    group: GroupHeld
    policy: int | None
    manager: uuid.UUID
    scope: str
    jobs: dict[int, JobHeld]
    budgets: dict[int, int]
    bins: list[int]
    lanes: list[LaneSeen]


def hold(
    cursor: psycopg.Cursor[Any],
    *,
    manager: uuid.UUID,
    group: GroupHeld,
    phases: Sequence[Phase],
    now: dt.datetime,
) -> Held:
    """Take the fences, and lock what is ready of the group's jobs in these phases."""
    row = cursor.execute(
        _HOLD,
        {
            "manager": manager,
            "group": group.id,
            "epoch": group.epoch,
            "phases": list(phases),
            "cluster": CLUSTER_SCOPE,
            "now": now,
        },
    ).fetchone()
    assert row is not None
    if not row.nodes:
        raise FenceRefused("node", node=str(manager))
    if row.scope is None:
        raise FenceRefused("group", group=group.id, epoch=group.epoch, node=str(manager))
    jobs = {facts["id"]: JobHeld(**{**facts, "scan": Scan(facts["scan"])}) for facts in row.jobs}
    return Held(
        group=group,
        policy=row.policy,
        manager=manager,
        scope=row.scope,
        jobs=jobs,
        budgets={facts["job_id"]: facts["left_over"] for facts in row.budgets},
        bins=row.bins,
        lanes=[
            LaneSeen(
                lane,
                bin_id,
                job,
                jobs[job].priority,
                dt.datetime.fromisoformat(served) if served else None,
                tag=tag,
                workers=frozenset(uuid.UUID(worker) for worker in (row.tagged or {}).get(tag, ())) if tag else None,
                is_ahead=is_ahead,
            )
            for lane, bin_id, job, served, tag, is_ahead in row.lanes
        ],
    )
