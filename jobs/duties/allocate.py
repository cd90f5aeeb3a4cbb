"""
Ownership of throttle groups: the main manager gives each group to one live manager.

A starting seed joins the group of its policy if this scope has one, so one manager has all seeds of a policy. This duty
writes the decisions of `nodes.decisions.allocate` about groups and managers, under the term.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from typing import Any, Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.groups import RUNNING, begin_moves, give, read_cluster_view, unsent_batches, write_weights
from jobs.queue import release
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import notify
from jobs.state import channels
from nodes.decisions.allocate import Give, allocate
from nodes.decisions.hand_over import Release, TakeBack
from nodes.membership.fences import hold_term
from nodes.settings.node_settings import NODE_TIMEOUT
from nodes.settings.running import current

# Largest number of jobs, and of seeds, that one pass examines.
_AT_ONCE: Final = 1000
# Running jobs that may have a seed in the wrong group, after a change that no pass has examined yet.
_MARKED: Final[LiteralString] = f"""
SELECT id, ungrouped FROM jobs_job
 WHERE ungrouped > 0 AND node_scope = %(scope)s AND phase IN {RUNNING}
 ORDER BY id LIMIT {_AT_ONCE}
"""
# Locks: Job by id. A job that changed after its examination stays marked, and is examined again.
_UNMARK: Final[LiteralString] = """
WITH examined AS MATERIALIZED (
    SELECT job.id
      FROM jobs_job AS job JOIN unnest(%(jobs)s::bigint[], %(seen)s::int[]) AS marked(id, seen) ON job.id = marked.id
     WHERE job.ungrouped = marked.seen
     ORDER BY job.id
       FOR NO KEY UPDATE OF job
)
UPDATE jobs_job AS job SET ungrouped = 0 FROM examined WHERE job.id = examined.id
"""
# Running seeds that are not in the group of their policy, or in no group of this scope: they start, or their policy was
# changed.
_MISPLACED: Final[LiteralString] = f"""
SELECT seed.id, seed.policy_id, seed.group_id
  FROM jobs_job AS job JOIN jobs_seed AS seed ON seed.job_id = job.id
  LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
 WHERE job.id = ANY(%(jobs)s) AND job.node_scope = %(scope)s AND job.phase IN {RUNNING}
   AND (held.node_scope IS DISTINCT FROM %(scope)s OR held.policy_id IS DISTINCT FROM seed.policy_id
        OR seed.policy_id IS NULL AND held.seed_id IS DISTINCT FROM seed.id)
 ORDER BY seed.id LIMIT {_AT_ONCE}
"""
_OPEN_GROUPS: Final[LiteralString] = """
INSERT INTO jobs_throttlegroup (policy_id, seed_id, node_scope, epoch, state, weight)
SELECT DISTINCT policy_id, CASE WHEN policy_id IS NULL THEN seed_id END, %(scope)s, 0, 'free', 1.0
  FROM unnest(%(seeds)s::bigint[], %(policies)s::bigint[]) AS misplaced(seed_id, policy_id)
ON CONFLICT DO NOTHING
"""
# The groups that these seeds leave. Stuffing holds the lock of its group, so after this statement no process stuffs
# these seeds as part of their old group.
# Locks: ThrottleGroup by id.
_LOCK_LEFT: Final[LiteralString] = """
SELECT id FROM jobs_throttlegroup WHERE id = ANY(%(left)s) ORDER BY id FOR NO KEY UPDATE
"""
_JOIN_GROUPS: Final[LiteralString] = """
UPDATE jobs_seed SET group_id = held.id
  FROM unnest(%(seeds)s::bigint[], %(policies)s::bigint[]) AS misplaced(seed_id, policy_id)
  JOIN jobs_throttlegroup AS held
    ON held.node_scope = %(scope)s
   AND (held.policy_id = misplaced.policy_id OR misplaced.policy_id IS NULL AND held.seed_id = misplaced.seed_id)
 WHERE jobs_seed.id = misplaced.seed_id
"""
# Offers of seeds that are in another group now: these offers have the pace of the previous policy.
_OFFERED_BEFORE: Final[LiteralString] = """
SELECT DISTINCT batch.id
  FROM jobs_batch AS batch JOIN jobs_turn AS turn ON turn.batch_id = batch.id
  JOIN jobs_lane AS lane ON lane.id = turn.lane_id
 WHERE batch.node_scope = %(scope)s AND batch.state = 'available' AND batch.group_id = ANY(%(left)s)
   AND lane.seed_id = ANY(%(seeds)s)
"""

# The owners of groups, each once. Each step of the recursion looks up the next owner in the index. (With a
# join or EXISTS, the server may read all groups and all nodes.)
_OWNERS: Final[LiteralString] = """
WITH RECURSIVE owner AS (
    (SELECT owner_id FROM jobs_throttlegroup WHERE owner_id IS NOT NULL ORDER BY owner_id LIMIT 1)
     UNION ALL
    SELECT (SELECT held.owner_id FROM jobs_throttlegroup AS held
             WHERE held.owner_id > owner.owner_id ORDER BY held.owner_id LIMIT 1)
      FROM owner WHERE owner.owner_id IS NOT NULL
)
SELECT owner_id AS id, (SELECT status FROM nodes_node WHERE id = owner_id) AS status FROM owner WHERE owner_id IS NOT NULL
"""
_OWNERS_LEAVE: Final[LiteralString] = f"""
EXISTS (SELECT FROM ({_OWNERS}) AS owner
         WHERE owner.status <> 'running'
           AND coalesce((SELECT true FROM jobs_throttlegroup AS held
                          WHERE held.owner_id = owner.id AND held.node_scope = %(scope)s
                            AND (held.state = 'owned' OR owner.status IN ('stopped', 'failed')) LIMIT 1), false))
"""
# True if a group must be examined: it has no owner, its owner leaves or has ended, or it is being handed over. Also
# true if a manager owns no group while another manager has several.
GROUPS_TO_GIVE: Final[LiteralString] = f"""
EXISTS ({_MARKED})
OR EXISTS (SELECT FROM jobs_throttlegroup WHERE node_scope = %(scope)s AND state <> 'owned')
OR EXISTS (SELECT FROM jobs_throttlegroup WHERE node_scope = %(scope)s AND owner_id IS NULL AND state = 'owned')
OR {_OWNERS_LEAVE}
OR (EXISTS (SELECT FROM nodes_node AS node
             WHERE node.scope = %(scope)s AND node.kind = 'manager' AND node.status = 'running'
               AND NOT EXISTS (SELECT FROM jobs_throttlegroup AS held
                                WHERE held.owner_id = node.id OR held.destination_id = node.id))
    AND EXISTS (SELECT FROM jobs_throttlegroup WHERE node_scope = %(scope)s GROUP BY owner_id HAVING count(*) > 1))
"""

# Groups without a running seed.
# Locks: ThrottleGroup by id. A seed that starts at this moment does not find the locked group, so it gets a new group.
_LOCK_IDLE: Final[LiteralString] = f"""
SELECT held.id FROM jobs_throttlegroup AS held
 WHERE held.node_scope = %(scope)s
   AND NOT EXISTS (SELECT FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
                    WHERE seed.group_id = held.id AND job.node_scope = %(scope)s AND job.phase IN {RUNNING})
 ORDER BY held.id
   FOR UPDATE OF held
"""
# Jobs with seeds in these groups. They are locked first, because a trigger marks the job of each changed seed. Locks:
# Job by id.
_LOCK_JOBS: Final[LiteralString] = """
SELECT FROM jobs_job WHERE id IN (SELECT job_id FROM jobs_seed WHERE group_id = ANY(%s)) ORDER BY id FOR NO KEY UPDATE
"""


def allocate_groups(at: Pass) -> int:
    """Assign running seeds to their groups, and groups without an owner to managers; return the number of changes."""
    joined = join_groups(at)
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        cluster_view = read_cluster_view(at.connection, scope=at.scope, now=at.now)
        actions = allocate(
            items=cluster_view.items,
            managers=cluster_view.managers,
            strategy=cluster_view.strategy,
            timeout=current()[NODE_TIMEOUT],
        )
        given = give(
            at.connection,
            [action for action in actions if isinstance(action, Give | TakeBack)],
            cluster_view=cluster_view,
            scope=at.scope,
        )
        begun = begin_moves(
            at.connection,
            [action for action in actions if isinstance(action, Release)],
            cluster_view=cluster_view,
            scope=at.scope,
            now=at.now,
        )
    _withdraw(at, unsent_batches(at.connection, groups=_taken_back(actions, given), scope=at.scope))
    if given or begun:
        notify(at.connection, channels.GROUPS, at.scope)
    return joined + len(given) + len(begun)


def retire_groups(at: Pass) -> int:
    """Store the weights of the groups, and delete groups without a running seed; return 0."""
    with at.connection.transaction(), named_rows(at.connection) as cursor:
        hold_term(at.connection, at.held_term)
        idle = [row.id for row in cursor.execute(_LOCK_IDLE, {"scope": at.scope})]
        if idle:
            cursor.execute(_LOCK_JOBS, (idle,))
            cursor.execute("UPDATE jobs_seed SET group_id = NULL WHERE group_id = ANY(%s)", (idle,))
            cursor.execute("DELETE FROM jobs_throttlegroup WHERE id = ANY(%s)", (idle,))
        write_weights(at.connection, read_cluster_view(at.connection, scope=at.scope, now=at.now).items)
    return 0


def join_groups(at: Pass) -> int:
    """Assign running seeds to the groups of their policies; return the number of assigned seeds."""
    with named_rows(at.connection) as cursor:
        marked = cursor.execute(_MARKED, {"scope": at.scope}).fetchall()
    if not marked:
        return 0
    jobs = [job.id for job in marked]
    joined = _join(at, jobs)
    if joined < _AT_ONCE:
        # The transaction that assigns seeds locks them, and this one locks their jobs. An edit locks a job before its
        # seeds, so one transaction for both could cause a deadlock.
        with at.connection.transaction():
            hold_term(at.connection, at.held_term)
            at.connection.execute(_UNMARK, {"jobs": jobs, "seen": [job.ungrouped for job in marked]})
    return joined


def _join(at: Pass, jobs: list[int]) -> int:
    with at.connection.transaction(), named_rows(at.connection) as cursor:
        hold_term(at.connection, at.held_term)
        misplaced = cursor.execute(_MISPLACED, {"jobs": jobs, "scope": at.scope}).fetchall()
        if not misplaced:
            return 0
        facts: dict[str, Any] = {
            "seeds": [seed.id for seed in misplaced],
            "policies": [seed.policy_id for seed in misplaced],
            "left": sorted({seed.group_id for seed in misplaced if seed.group_id is not None}),
            "scope": at.scope,
        }
        cursor.execute(_LOCK_LEFT, facts)
        cursor.execute(_OPEN_GROUPS, facts)
        cursor.execute(_JOIN_GROUPS, facts)
        offered = [row.id for row in cursor.execute(_OFFERED_BEFORE, facts)]
    _withdraw(at, offered)
    return len(misplaced)


def _withdraw(at: Pass, batches: list[int]) -> None:
    if batches:
        release.withdraw(at.connection, batches=batches, now=at.now, term=at.held_term)


def _taken_back(actions: Iterable[Give | Release | TakeBack], given: AbstractSet[int]) -> list[int]:
    return [action.item for action in actions if isinstance(action, TakeBack) and action.item in given]
