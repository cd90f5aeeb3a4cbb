"""Jobs that wait because no worker has room on its disks. This duty shows the wait as the reason of these jobs."""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from nodes.membership.fences import hold_term

# Workers without room report it with each heartbeat (`jobs/loops/disk.py`).
_LIVE_WORKERS: Final[LiteralString] = (
    "nodes_node AS worker WHERE worker.scope = %(scope)s AND worker.kind = 'worker' AND worker.status = 'running'"
)
_BEGINS: Final[LiteralString] = "Waiting for room on a disk: "

# Locks: Job. If another duty has set a reason, that reason stays.
_SET_REASON: Final[LiteralString] = f"""
WITH found AS (
    SELECT CASE WHEN bool_and(coalesce(worker.progress ->> 'disk', '') <> '')
                THEN %(begins)s || min(worker.name || ': ' || (worker.progress ->> 'disk')) ELSE '' END AS reason
      FROM {_LIVE_WORKERS}
)
UPDATE jobs_job AS job SET reason = coalesce(found.reason, '')
  FROM found
 WHERE job.node_scope = %(scope)s AND job.phase = 'active' AND job.reason <> coalesce(found.reason, '')
   AND (job.reason = '' OR starts_with(job.reason, %(begins)s))
"""

DISKS_ARE_FULL: Final[LiteralString] = f"""
EXISTS (SELECT FROM {_LIVE_WORKERS} AND coalesce(worker.progress ->> 'disk', '') <> '')
OR EXISTS (SELECT FROM jobs_job WHERE node_scope = %(scope)s AND phase = 'active' AND starts_with(reason, '{_BEGINS}'))
"""


def report_full_disks(at: Pass) -> int:
    """
    Set this reason of each running job if no worker has room on its disks, or clear it; return the number of changes.
    """
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        return at.connection.execute(_SET_REASON, {"scope": at.scope, "begins": _BEGINS}).rowcount
