"""
Missing connectors: a job whose connector is not installed shows the reason and waits. It continues without an operator
once the connector is installed.

The same applies if the main manager cannot open a secret of a connection, as after a restore without the key. It also
applies if the path of a confined connection is outside the roots, as after a change of CRAWLCTL_OUTPUT_ROOT. No
document of these jobs is handed out meanwhile. Documents in flight end normally.

The deletion of a job needs only its outputs, so it continues even if the source is missing forever.
"""

from collections.abc import Mapping
from typing import Any, Final, LiteralString

from jobs.connectors.confined import (
    CONFINED_OUTPUT,
    CONFINED_REPOSITORIES,
    why_output_outside,
    why_repository_outside,
)
from jobs.connectors.output.registry import installed as outputs_installed
from jobs.connectors.output.registry import is_installed as output_is_installed
from jobs.connectors.repository.registry import find as find_repository
from jobs.connectors.repository.registry import is_installed as repository_is_installed
from jobs.connectors.transformation.pipeline import missing_kinds
from jobs.duties.context import Pass
from jobs.duties.moves import move, set_reason
from jobs.duties.partitioned_jobs import DELETED
from jobs.queue.sql.rows import named_rows
from nodes.database.sealing import MARK

# Jobs that run, and jobs that lacked a connector at the last check. Each of the two queries uses a separate index.
WATCHED_JOBS: Final[LiteralString] = """
SELECT id FROM jobs_job WHERE node_scope = %(scope)s AND phase <> 'inactive'
 UNION ALL
SELECT id FROM jobs_job WHERE node_scope = %(scope)s AND phase = 'inactive' AND NOT connectors_ready
"""
# The configuration is read only if the connection has a secret or a path: most have neither.
_SEALED: Final[LiteralString] = f"position('{MARK}' IN {{}}::text) > 0"
_CONFINED: Final[LiteralString] = "{0}.is_confined AND {0}.connector IN ({1})"
_REPOSITORY_CONFINED: Final[LiteralString] = _CONFINED.format(
    "repository", ", ".join(f"'{name}'" for name in CONFINED_REPOSITORIES)
)
_OUTPUT_CONFINED: Final[LiteralString] = _CONFINED.format("output", f"'{CONFINED_OUTPUT}'")
_THEIR_CONNECTORS: Final[LiteralString] = f"""
SELECT job.id, job.phase, job.connectors_ready, repository.connector AS repository, array_agg(output.connector) AS outputs,
       repository.name AS connection, job.pipeline,
       CASE WHEN {_SEALED.format("repository.configuration")} THEN repository.configuration ELSE '{{}}' END AS configuration,
       CASE WHEN {_SEALED.format("job.specification")} THEN job.specification ELSE '{{}}' END AS specification,
       coalesce(json_agg(json_build_array(output.connector, output.name, output.configuration))
                FILTER (WHERE {_SEALED.format("output.configuration")}), '[]') AS sealed_outputs,
       CASE WHEN {_REPOSITORY_CONFINED} THEN repository.configuration END AS confined_repository,
       coalesce(json_agg(json_build_array(output.connector, output.name, output.configuration))
                FILTER (WHERE {_OUTPUT_CONFINED}), '[]') AS confined_outputs
  FROM jobs_job AS job
  JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
  JOIN jobs_job_outputs AS link ON link.job_id = job.id
  JOIN jobs_outputconnection AS output ON output.id = link.outputconnection_id
 WHERE job.id IN ({WATCHED_JOBS})
 GROUP BY job.id, repository.id
"""
_CLOSED: Final = (
    "the secrets of {} cannot be opened: they were sealed with another CRAWLCTL_SECRET_KEY. "
    "Start the nodes with that key, or enter the secrets again"
)


def watch_connectors(at: Pass) -> int:
    """Update which jobs lack a connector or the key of a secret; return the number of changes."""
    with named_rows(at.connection) as cursor:
        jobs = cursor.execute(_THEIR_CONNECTORS, {"scope": at.scope}).fetchall()
    changed = 0
    for job in jobs:
        is_deleted = job.phase in DELETED
        missing = (
            missing_outputs(job.outputs)
            if is_deleted
            else missing_connectors(job.repository, job.outputs, job.pipeline)
        )
        reason = f"{' and '.join(missing)} is not installed"
        if not missing and (missing := _closed_connections(job, reads_source=not is_deleted)):
            reason = _CLOSED.format(" and ".join(missing))
        if not missing and (missing := _connections_outside(job, reads_source=not is_deleted)):
            reason = missing[0]
        if job.connectors_ready and missing:
            changed += move(at, job.id, "lose connector", reason=reason)
        elif not job.connectors_ready and not missing:
            changed += move(at, job.id, "find connector")
        elif missing:
            set_reason(job.id, reason)
    return changed


def missing_connectors(repository: str, outputs: list[str], pipeline: Mapping[str, Any] | None = None) -> list[str]:
    """Return a phrase for each of these connectors, and for each kind of stages, that is not installed."""
    missing = [] if repository_is_installed(repository) else [f"the connector {repository!r}"]
    missing += missing_outputs(outputs)
    return missing + [f"the kind of stages {name!r}" for name in (missing_kinds(pipeline) if pipeline else ())]


def missing_outputs(outputs: list[str]) -> list[str]:
    """Return a phrase for each of these connectors of outputs that is not installed."""
    return [f"the output {name!r}" for name in sorted(set(outputs)) if not output_is_installed(name)]


def _closed_connections(job: Any, *, reads_source: bool) -> list[str]:
    """
    Return a phrase for each part of the job with a secret that this process cannot open: its connections and its
    specification.
    """
    closed = []
    kind = find_repository(job.repository) if reads_source else None
    if kind is not None and kind.configuration.closed_secrets(job.configuration):
        closed.append(f"repository connection {job.connection}")
    if kind is not None and kind.specification.closed_secrets(job.specification):
        closed.append("the job's specification")
    kinds = outputs_installed()
    for connector, name, configuration in job.sealed_outputs:
        if kinds[connector].configuration.closed_secrets(configuration):
            closed.append(f"output connection {name}")
    return closed


def _connections_outside(job: Any, *, reads_source: bool) -> list[str]:
    """Return a phrase for each confined connection of the job whose path is outside the roots of this process."""
    found = []
    confined = job.confined_repository if reads_source else None
    if confined is not None and (why := why_repository_outside(job.repository, confined)):
        found.append(f"repository connection {job.connection} is not read: {why.rstrip('.')}")
    for connector, name, configuration in job.confined_outputs:
        if why := why_output_outside(connector, configuration):
            found.append(f"output connection {name} is not written: {why.rstrip('.')}")
    return found
