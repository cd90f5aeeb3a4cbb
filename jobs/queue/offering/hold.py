"""
The locks and facts that a stuffing transaction has before it claims documents, and its offer of batches.

One chained statement locks the fences, the jobs and their budgets, the ready lanes and their bins. Later statements
read the documents that may be handed out under these locks.
"""

import datetime as dt
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.lifecycle.job import Phase, Scan
from jobs.queue.offering.cursors import JOIN_CURSORS, LaneCursors
from jobs.queue.sql.low_water import LOWEST_BATCH
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.sql.states import lock_states
from jobs.throttling.bins import LaneSeen
from nodes.lifecycle import CLUSTER_SCOPE
from nodes.membership.fences import MAY_WRITE, FenceRefused, refused_node
from nodes.membership.incarnation import remembered

# Number of lanes that one pass examines. Lanes that were at the cursor before (ahead) get half of this number, and
# other lanes the other half. Each kind also gets what the other kind does not use. So a bin with many documents does
# not wait for a hundred thousand other bins before each turn.
LANES_A_PASS: Final = 200
# Number of locked lanes from which on a pass has probably not examined all ready lanes.
_NEARLY_ALL: Final = LANES_A_PASS * 3 // 4


@dataclass(frozen=True, slots=True)
class GroupHeld:
    """A group as its owner knows it. The epoch of this ownership is the fence."""

    id: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Stuffed:
    """
    The offer of one pass. `preferred` are the workers for which batches are reserved, or which batches prefer.
    `open_batches` counts the batches that prefer no worker.
    """

    documents: int = 0
    batches: int = 0
    preferred: frozenset[uuid.UUID] = frozenset()
    open_batches: int = 0


# The rows that `_HOLD` locks: the bins of the ready lanes, their parents, and the lanes. A bin whose parent cannot be
# locked is left out.
_BINS: Final[LiteralString] = (
    "SELECT id, parent_id, 0 AS version FROM jobs_bin WHERE id = ANY(ARRAY(SELECT bin_id FROM ready))"
)
_PARENTS: Final[LiteralString] = "SELECT DISTINCT parent_id AS id, 0 AS version FROM bin WHERE parent_id IS NOT NULL"
_LANES: Final[LiteralString] = """
            SELECT id, version FROM ready
             WHERE bin_id IN (SELECT id FROM bin WHERE parent_id IS NULL OR parent_id IN (SELECT id FROM parent))"""
_LANE_HELD: Final[LiteralString] = "seen.id, held.version, held.bin_id, held.served_at, held.is_ahead, held.head"
# The fences, the runnable jobs of the group and their budgets, its ready lanes, their locked bins, then the locked
# lanes. Lanes that are ahead and others are sorted apart: by job priority, oldest `ready_at` first.
# Locks: Node KEY SHARE, ThrottleGroup SHARE, Job SHARE by id, Budget by job, Bin by id, Lane by id (the states of
# both); the last two skip locked rows.
#
# Each step reads the step before it, which fixes the order. PostgreSQL checks a row again after a lock wait, so each
# fence is judged as it is when its lock is held. The next statement reads what the bins allow.
_HOLD: Final[LiteralString] = f"""
WITH node AS MATERIALIZED (
    SELECT id FROM nodes_node
     WHERE id = %(manager)s AND {MAY_WRITE}
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
    SELECT seed.id, seed.job_id, runnable.priority, needed.tag,
           coalesce(cursors.ahead, '-infinity') AS cursor_ahead, coalesce(cursors.others, '-infinity') AS cursor_others
      FROM runnable JOIN jobs_seed AS seed ON seed.job_id = runnable.id AND seed.group_id = (SELECT id FROM held)
      {JOIN_CURSORS}
     -- The only worker of a one-shot command has no tags, and must take all batches.
     CROSS JOIN LATERAL (SELECT CASE WHEN (SELECT node_scope FROM held) = %(cluster)s THEN seed.tag ELSE '' END AS tag) AS needed
     WHERE (SELECT count(*) FROM budget) >= 0
       -- A tag gets no more offers than its workers could hold: a larger backlog would delay all other tags.
       AND (needed.tag = '' OR (SELECT coalesce(sum(capacity), 0) FROM nodes_node AS tagged
                               WHERE tagged.scope = (SELECT node_scope FROM held) AND tagged.kind = 'worker'
                                 AND tagged.status = 'running' AND needed.tag = ANY(tagged.tags))
                           > (SELECT coalesce(sum(documents), 0) FROM jobs_batch AS offered
                               WHERE offered.node_scope = (SELECT node_scope FROM held) AND offered.state = 'available'
                                 AND offered.tag = needed.tag AND offered.id >= {LOWEST_BATCH}))
), first_ahead AS MATERIALIZED (
    SELECT lane.*, seeds.id AS seed_id, seeds.job_id, seeds.priority, seeds.tag
      FROM seeds CROSS JOIN LATERAL (
           SELECT lane_id AS id, version, bin_id, ready_at FROM jobs_lanestate
            WHERE seed_id = seeds.id AND is_ahead AND ready_at >= seeds.cursor_ahead AND ready_at <= %(now)s
            ORDER BY ready_at LIMIT {LANES_A_PASS}) AS lane
), first_others AS MATERIALIZED (
    SELECT lane.*, seeds.id AS seed_id, seeds.job_id, seeds.priority, seeds.tag
      FROM seeds CROSS JOIN LATERAL (
           SELECT lane_id AS id, version, bin_id, ready_at FROM jobs_lanestate
            WHERE seed_id = seeds.id AND NOT is_ahead AND ready_at >= seeds.cursor_others AND ready_at <= %(now)s
            ORDER BY ready_at LIMIT {LANES_A_PASS}) AS lane
), others AS MATERIALIZED (
    SELECT * FROM first_others ORDER BY priority, ready_at
     LIMIT {LANES_A_PASS} - least({LANES_A_PASS // 2}, (SELECT count(*) FROM first_ahead))
), ready AS MATERIALIZED (
    SELECT * FROM others
     UNION ALL
    (SELECT * FROM first_ahead ORDER BY priority, ready_at LIMIT {LANES_A_PASS} - (SELECT count(*) FROM others))
), bin AS MATERIALIZED (
    {lock_states(of="bin", seen=_BINS, skipping=True)}
), parent AS MATERIALIZED (
    {lock_states(of="bin", seen=_PARENTS, skipping=True)}
), locked AS MATERIALIZED (
    {lock_states(of="lane", seen=_LANES, columns=_LANE_HELD, skipping=True)}
)
SELECT (SELECT count(*) FROM node) AS nodes, (SELECT node_scope FROM held) AS scope,
       (SELECT policy_id FROM held) AS policy,
       (SELECT coalesce(json_agg(id), '[]') FROM (SELECT id FROM bin UNION ALL SELECT id FROM parent) AS held_bins) AS bins,
       (SELECT coalesce(json_agg(runnable), '[]') FROM runnable) AS jobs,
       (SELECT coalesce(json_agg(budget), '[]') FROM budget) AS budgets,
       (SELECT coalesce(json_agg(json_build_array(locked.id, locked.bin_id, ready.job_id, locked.served_at, ready.tag, locked.is_ahead, locked.head, locked.version)), '[]')
          FROM locked JOIN ready USING (id)) AS lanes,
       (SELECT coalesce(json_agg(id), '[]') FROM seeds) AS seeds,
       (SELECT coalesce(json_object_agg(seed_id, first), '{{}}')
          FROM (SELECT seed_id, min(ready_at) AS first FROM first_ahead GROUP BY seed_id) AS seen) AS seen_ahead,
       (SELECT coalesce(json_object_agg(seed_id, first), '{{}}')
          FROM (SELECT seed_id, min(ready_at) AS first FROM first_others GROUP BY seed_id) AS seen) AS seen_others,
       (SELECT json_object_agg(needed.tag, needed.workers)
          FROM (SELECT wanted.tag, json_agg(worker.id) AS workers
                  FROM (SELECT DISTINCT tag FROM ready WHERE tag <> '') AS wanted
                  JOIN nodes_node AS worker
                    ON worker.scope = (SELECT node_scope FROM held) AND worker.kind = 'worker'
                   AND worker.status = 'running' AND wanted.tag = ANY(worker.tags)
                 GROUP BY wanted.tag) AS needed) AS tagged
"""

# The batches of an offer. Their ids were drawn before, because the id of a batch is the claim token of its documents.
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
    """A locked job, as the stuffing transaction reads it."""

    id: int
    run_no: int
    priority: int
    phase: str
    # True if documents that left the hop limits now leave the outputs.
    takes_out: bool
    scan: Scan


@dataclass(frozen=True, slots=True)
class Held:
    """
    The locked rows of a stuffing transaction. All seeds of its group have the same `policy`, or no policy.

    `bins` are the bins of the lanes, and the addresses above them. `heads` has for each lane the lowest sequence number
    of its due documents. `budgets` has the number of documents that each job with a limit may still admit. `versions`
    has the versions of the states of lanes, and `bin_versions` those of the bins that were read.
    """

    group: GroupHeld
    policy: int | None
    manager: uuid.UUID
    scope: str
    jobs: dict[int, JobHeld]
    budgets: dict[int, int]
    bins: list[int]
    lanes: list[LaneSeen]
    heads: dict[int, int]
    versions: dict[int, int]
    bin_versions: dict[int, int] = field(default_factory=dict)


def hold(
    cursor: psycopg.Cursor[Any],
    *,
    manager: uuid.UUID,
    group: GroupHeld,
    phases: Sequence[Phase],
    cursors: LaneCursors | None = None,
    now: dt.datetime,
) -> Held:
    """Lock the fences and the ready lanes of the group's jobs in these phases; return the locked rows."""
    cursors = cursors or LaneCursors()
    row = cursor.execute(
        _HOLD,
        {
            "manager": manager,
            "group": group.id,
            "epoch": group.epoch,
            "phases": list(phases),
            "cluster": CLUSTER_SCOPE,
            **cursors.parameters([group.id]),
            "now": now,
            **remembered(manager),
        },
    ).fetchone()
    assert row is not None
    if not row.nodes:
        raise refused_node(cursor.connection, manager)
    if row.scope is None:
        raise FenceRefused("group", group=group.id, epoch=group.epoch, node=str(manager))
    cursors.note(group.id, row.seeds, ahead=row.seen_ahead, others=row.seen_others, now=now)
    cursors.is_cut_off = cursors.is_cut_off or len(row.lanes) >= _NEARLY_ALL
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
            for lane, bin_id, job, served, tag, is_ahead, _, _ in row.lanes
        ],
        heads={lane: head for lane, *_, head, _ in row.lanes},
        versions={lane: version for lane, *_, version in row.lanes},
    )
