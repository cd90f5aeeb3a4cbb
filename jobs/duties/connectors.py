"""
Missing connectors: a job that needs one which is not installed shows that, waits, and goes on by itself.

Nothing of it is handed out meanwhile; what is in flight ends as it can.
"""

from typing import Final, LiteralString

from jobs.connectors.output.registry import is_installed as output_is_installed
from jobs.connectors.repository.registry import is_installed as repository_is_installed
from jobs.duties.context import Pass
from jobs.duties.moves import move, say_why
from jobs.queue.rows import named_rows

# Jobs that run, and those that lacked a connector when they were looked at last: each by an index of its own.
WATCHED_JOBS: Final[LiteralString] = """
SELECT id FROM jobs_job WHERE node_scope = %(scope)s AND phase <> 'inactive'
 UNION ALL
SELECT id FROM jobs_job WHERE node_scope = %(scope)s AND phase = 'inactive' AND NOT connectors_ready
"""
_THEIR_CONNECTORS: Final[LiteralString] = f"""
SELECT job.id, job.connectors_ready, repository.connector AS repository, array_agg(output.connector) AS outputs
  FROM jobs_job AS job
  JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
  JOIN jobs_job_outputs AS link ON link.job_id = job.id
  JOIN jobs_outputconnection AS output ON output.id = link.outputconnection_id
 WHERE job.id IN ({WATCHED_JOBS})
 GROUP BY job.id, repository.connector
"""


def watch_connectors(at: Pass) -> int:
    """Note which jobs miss a connector, and which have theirs again; returns how many changed."""
    with named_rows(at.connection) as cursor:
        jobs = cursor.execute(_THEIR_CONNECTORS, {"scope": at.scope}).fetchall()
    changed = 0
    for job in jobs:
        missing = missing_connectors(job.repository, job.outputs)
        reason = f"{' and '.join(missing)} is not installed"
        if job.connectors_ready and missing:
            changed += move(at, job.id, "lose connector", reason=reason)
        elif not job.connectors_ready and not missing:
            changed += move(at, job.id, "find connector")
        elif missing:
            say_why(job.id, reason)
    return changed


def missing_connectors(repository: str, outputs: list[str]) -> list[str]:
    """The connectors among these that are not installed, in words."""
    missing = [] if repository_is_installed(repository) else [f"the connector {repository!r}"]
    return missing + [f"the output {name!r}" for name in sorted(set(outputs)) if not output_is_installed(name)]
