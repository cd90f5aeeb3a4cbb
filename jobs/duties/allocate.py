"""
Who owns which throttle group: the main gives each group to one live manager.

A starting seed whose policy is running in this scope joins that group, so all seeds of one policy are
on one manager by construction. A group whose manager is gone goes to the main.
"""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from jobs.queue.rows import named_rows
from nodes.fences import hold_term

# Seeds of starting jobs that have no group in this scope yet.
_SEEDS: Final[LiteralString] = """
SELECT seed.id, seed.policy_id
  FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
  LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
 WHERE job.node_scope = %(scope)s AND job.phase IN ('ready_for_startup', 'starting_up', 'active', 'shutting_down',
                                                    'ready_for_delete', 'delete_starting_up', 'deleting')
   AND held.node_scope IS DISTINCT FROM %(scope)s
 ORDER BY seed.id LIMIT 1000
"""
_OPEN_GROUP: Final[LiteralString] = """
INSERT INTO jobs_throttlegroup (policy_id, seed_id, node_scope, epoch, state, weight)
VALUES (%(policy)s, CASE WHEN %(policy)s::bigint IS NULL THEN %(seed)s::bigint END, %(scope)s, 0, 'free', 1)
ON CONFLICT DO NOTHING
"""
_JOIN_GROUP: Final[LiteralString] = """
UPDATE jobs_seed SET group_id = held.id
  FROM jobs_throttlegroup AS held
 WHERE jobs_seed.id = %(seed)s AND held.node_scope = %(scope)s
   AND ((held.policy_id = %(policy)s) OR (%(policy)s::bigint IS NULL AND held.seed_id = %(seed)s))
"""
# Groups that nobody owns, or whose owner is not at work any more.
_ORPHANS: Final[LiteralString] = """
SELECT held.id, held.owner_id FROM jobs_throttlegroup AS held
 WHERE held.node_scope = %(scope)s
   AND (held.state <> 'owned' OR held.owner_id IS NULL
        OR NOT EXISTS (SELECT FROM nodes_node AS node
                        WHERE node.id = held.owner_id AND node.status = 'running'))
 ORDER BY held.id
"""
# Locks: ThrottleGroup by id.
_LOCK_ORPHANS: Final[LiteralString] = f"{_ORPHANS} FOR NO KEY UPDATE OF held"
_HELD: Final[LiteralString] = """
SELECT node.id, count(held.id) AS groups
  FROM nodes_node AS node LEFT JOIN jobs_throttlegroup AS held ON held.owner_id = node.id AND held.state = 'owned'
 WHERE node.scope = %(scope)s AND node.kind = 'manager' AND node.status = 'running'
 GROUP BY node.id ORDER BY count(held.id), node.id
"""
_GIVE: Final[LiteralString] = """
UPDATE jobs_throttlegroup SET owner_id = %(owner)s, epoch = epoch + 1, state = 'owned' WHERE id = %(group)s
"""

GROUPS_TO_GIVE: Final[LiteralString] = f"EXISTS ({_SEEDS}) OR EXISTS ({_ORPHANS})"


def allocate_groups(at: Pass) -> int:
    """Give each group without a working owner to a manager; returns how many were given."""
    with at.connection.transaction(), named_rows(at.connection) as cursor:
        hold_term(at.connection, at.office)
        for seed in cursor.execute(_SEEDS, {"scope": at.scope}).fetchall():
            facts = {"seed": seed.id, "policy": seed.policy_id, "scope": at.scope}
            cursor.execute(_OPEN_GROUP, facts)
            cursor.execute(_JOIN_GROUP, facts)
        orphans = cursor.execute(_LOCK_ORPHANS, {"scope": at.scope}).fetchall()
        held = {row.id: row.groups for row in cursor.execute(_HELD, {"scope": at.scope})}
        for orphan in orphans:
            # A dead manager's groups come to the main at once; new ones to who has the fewest.
            owner = at.me if orphan.owner_id is not None or not held else min(held, key=lambda node: held[node])
            held[owner] = held.get(owner, 0) + 1
            cursor.execute(_GIVE, {"owner": owner, "group": orphan.id})
    return len(orphans)
