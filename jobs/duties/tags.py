"""
Jobs whose seeds need workers with a tag. If no running worker has the tag, the job shows that reason with its status.
"""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from nodes.lifecycle import CLUSTER_SCOPE

# Locks: Job. If another duty has set a reason, that reason stays.
_SET_REASON: Final[LiteralString] = """
WITH lacking AS (
    SELECT seed.job_id, min(seed.tag) AS tag
      FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
     WHERE seed.tag <> '' AND seed.removed_at IS NULL AND job.node_scope = %(scope)s AND job.phase = 'active'
       AND NOT EXISTS (SELECT FROM nodes_node AS worker
                        WHERE worker.scope = job.node_scope AND worker.kind = 'worker' AND worker.status = 'running'
                          AND seed.tag = ANY(worker.tags))
     GROUP BY seed.job_id
)
UPDATE jobs_job AS job SET reason = coalesce(%(begins)s || lacking.tag || %(ends)s, '')
  FROM jobs_job AS same LEFT JOIN lacking ON lacking.job_id = same.id
 WHERE job.id = same.id AND job.node_scope = %(scope)s AND job.phase = 'active'
   AND (job.reason = '' AND lacking.tag IS NOT NULL
        OR starts_with(job.reason, %(begins)s) AND job.reason <> coalesce(%(begins)s || lacking.tag || %(ends)s, ''))
"""
_BEGINS: Final = "No worker has the tag “"
_ENDS: Final = "” that some of its seeds need: start one with it (runworker --tag)."

TAGS_ARE_NEEDED: Final[LiteralString] = """
EXISTS (SELECT FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
         WHERE seed.tag <> '' AND job.node_scope = %(scope)s AND job.phase = 'active')
"""


def report_missing_tags(at: Pass) -> int:
    """
    Set or clear this reason of each running job, by the tags of the workers; return the number of changed reasons.
    """
    if at.scope != CLUSTER_SCOPE:
        # The workers of a one-shot command take batches with any tag.
        return 0
    return at.connection.execute(_SET_REASON, {"scope": at.scope, "begins": _BEGINS, "ends": _ENDS}).rowcount
