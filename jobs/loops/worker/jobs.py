"""The jobs of a worker's documents: their connectors, outputs and facts for the flush."""

import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository import registry
from jobs.connectors.repository.access import NO_RULES, JobAccess
from jobs.connectors.repository.access_rules import read_rules
from jobs.connectors.repository.freshness_goals import Goals, read_goals
from jobs.connectors.repository.kind import (
    BinKind,
    Database,
    Guarding,
    RepositoryConnector,
    RepositoryKind,
    Runtime,
    Selective,
    SourceSettings,
)
from jobs.connectors.repository.missing import MISSING_BINS, MissingRuntime
from jobs.connectors.transformation.pipeline import read_pipeline
from jobs.connectors.transformation.running import Pipeline
from jobs.lifecycle.job import Scan
from jobs.partitions import this_partition
from jobs.partitions.slots import MAP, SlotMap
from jobs.queue.flushing.hops import rules_of
from jobs.queue.flushing.outcomes import JobFacts, Partitioned
from jobs.queue.flushing.recrawl import Intervals
from jobs.queue.sql.rows import named_rows
from jobs.queue.take import Claimed
from jobs.traps.quarantine import Quarantine, TrapGuard

logger = logging.getLogger(__name__)

_MOST_JOBS: Final = 200

# The newest version of a job, with the map of slots: a new map makes a new version of the job's seeds.
_READ: Final[LiteralString] = f"""
SELECT job.id, job.run_no, job.repository_id, job.specification, job.specification_version, job.revision,
       job.max_documents IS NOT NULL AS has_budget,
       CASE WHEN job.kind = 'continuous' THEN ARRAY[job.recrawl_after, job.recrawl_at_most, job.expire_after] END AS intervals,
       job.hop_limits, job.hop_mode, job.scan, job.archive, job.kept_versions, job.access_rules, job.pipeline,
       job.freshness_goals,
       partitioned.number, CASE WHEN partitioned.number IS NOT NULL THEN ({MAP}) END AS slots,
       repository.connector, repository.configuration, repository.is_confined, repository.name AS connection,
       coalesce((SELECT name FROM authorities_authoritygroup WHERE id = repository.authority_group_id), '') AS authority_group,
       coalesce(extract(epoch FROM clock_timestamp() - job.started_at), 0)::float AS running_for,
       coalesce((SELECT array_agg(url) FROM jobs_seed AS seed CROSS JOIN LATERAL unnest(seed.urls) AS url
                  WHERE seed.job_id = job.id AND seed.removed_at IS NULL), '{{}}') AS seeds,
       coalesce((SELECT jsonb_agg(jsonb_build_array(source, target)) FROM jobs_seedredirect AS seen
                  WHERE seen.job_id = job.id AND seen.is_followed), '[]') AS redirects,
       coalesce((SELECT array_agg(output.id ORDER BY output.id)
                   FROM jobs_job_outputs AS link JOIN jobs_outputconnection AS output ON output.id = link.outputconnection_id
                  WHERE link.job_id = job.id AND output.connector <> 'null'), '{{}}') AS outputs,
       ARRAY(SELECT link.outputconnection_id FROM jobs_job_outputs AS link WHERE link.job_id = job.id) AS all_outputs,
       (SELECT jsonb_agg(jsonb_build_array(host, template, proven, rule_state = 'waits')) FROM jobs_trapsuspect AS suspect
         WHERE suspect.job_id = job.id AND (suspect.decision = 'open' OR suspect.rule_state = 'waits')) AS suspects,
       job.pipeline <> '{{}}' OR EXISTS (SELECT FROM jobs_pipelinerefusal AS refusal WHERE refusal.job_id = job.id) AS has_refusals
  FROM jobs_job AS job JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
  LEFT JOIN jobs_partitionedjob AS partitioned ON partitioned.job_id = job.id
 WHERE job.id = %(job)s
"""


@dataclass(frozen=True, slots=True)
class JobAtWork:
    """A job with one version of its specification and of its seeds."""

    facts: JobFacts
    # The name of its repository connection.
    connection: str
    bins: BinKind
    runtime: Runtime
    connector: RepositoryConnector
    revision: int
    # Start of the run on the clock of this process. Facts about the source from before this moment are ignored.
    began_at: float
    access: JobAccess = NO_RULES
    # None if no stage is between the source and the outputs.
    pipeline: Pipeline | None = None

    @property
    def configuration(self) -> str:
        return self.facts.configuration


JobRow = Any


def read_job(connection: psycopg.Connection[Any], *, job_id: int) -> JobRow | None:
    """Return the facts about a job that the worker needs; None if it no longer exists."""
    with named_rows(connection) as cursor:
        return cursor.execute(_READ, {"job": job_id}).fetchone()


class JobTable:
    """
    The newest known versions of this worker's jobs, by (job, run). The table has a largest size: the oldest entries are
    dropped first.

    An edit of a job's connection or seeds applies to documents that this worker has already claimed. The table also
    has the objects that all jobs with one kind of source share. Created and closed inside the running event loop.
    """

    def __init__(self) -> None:
        self._jobs: dict[tuple[int, int], JobAtWork] = {}
        self._runtimes: dict[str, Runtime] = {}

    def find(self, claimed: Claimed) -> JobAtWork | None:
        """
        Return the job of a claim; None if this worker knows no version of the job, or only a version older than the
        claim.
        """
        job = self._jobs.get((claimed.job_id, claimed.run_no))
        if job is None or job.facts.specification_version < claimed.specification_version:
            return None
        return job if job.revision >= claimed.revision else None

    def knows(self, job_id: int) -> bool:
        return any(known == job_id for known, _ in self._jobs)

    def add(self, row: JobRow) -> None:
        """Set up a job's connector from the row of `read_job`; if that fails, its documents are retried later."""
        source = SourceSettings(
            configuration=row.configuration,
            specification=row.specification,
            seeds=row.seeds,
            redirects=[(source, target) for source, target in row.redirects],
            is_confined=row.is_confined,
            keeps_archive=bool(row.archive),
        )
        bins = MISSING_BINS
        link_types: tuple[str, ...] = ()
        access = NO_RULES
        pipeline: Pipeline | None = None
        goals: Goals | None = None
        try:
            goals = read_goals(row.freshness_goals)
            access = read_rules(row.access_rules, group=row.authority_group)
            if row.pipeline:
                pipeline = Pipeline(read_pipeline(row.pipeline), outputs=row.all_outputs)
            kind = registry.find(row.connector)
            link_types = kind.link_types
            bins, runtime = kind.bins, self._runtime(kind)
            connector = runtime.open(source)
        except (registry.UnknownConnector, ValueError) as error:
            logger.error("this worker cannot process job %d: %s", row.id, error)  # noqa: TRY400 (its sentence says it all)
            runtime = MissingRuntime()
            connector = runtime.open(source)
        guard = connector.trap_guard if isinstance(connector, Guarding) else TrapGuard.OFF
        self._jobs[row.id, row.run_no] = JobAtWork(
            facts=JobFacts(
                id=row.id,
                run_no=row.run_no,
                repository=row.repository_id,
                tracks_depth=connector.max_depth is not None,
                max_depth=connector.max_depth,
                has_budget=row.has_budget,
                outputs=tuple(row.outputs),
                hops=rules_of(hop_limits=row.hop_limits, hop_mode=row.hop_mode),
                link_type=next(iter(link_types), "link"),
                is_full_scan=row.scan == Scan.FULL,
                intervals=None if row.intervals is None else Intervals(*row.intervals),
                goals=goals,
                specification_version=row.specification_version,
                admits=connector.admits if isinstance(connector, Selective) else None,
                archive=row.archive,
                kept_versions=row.kept_versions,
                partitioned=_partitioned(row),
                has_refusals=row.has_refusals,
                watches_traps=guard != TrapGuard.OFF,
                quarantine=_quarantine(row, guard),
            ),
            connection=row.connection,
            bins=bins,
            runtime=runtime,
            connector=connector,
            revision=row.revision,
            began_at=time.monotonic() - row.running_for,
            access=access,
            pipeline=pipeline,
        )
        while len(self._jobs) > _MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]

    async def prepare(self, claims: Iterable[Claimed], database: Database) -> None:
        """Give each kind of source the facts that other workers found out about these documents."""
        by_runtime: dict[int, tuple[Runtime, dict[str, float]]] = {}
        for claimed in claims:
            job = self.find(claimed)
            if job is not None:
                _, documents = by_runtime.setdefault(id(job.runtime), (job.runtime, {}))
                identifier = claimed.document.identifier
                documents[identifier] = max(job.began_at, documents.get(identifier, job.began_at))
        for runtime, documents in by_runtime.values():
            await runtime.prepare(documents, database)

    async def close(self) -> None:
        for runtime in self._runtimes.values():
            await runtime.close()

    def _runtime(self, kind: RepositoryKind) -> Runtime:
        """Return the object that all jobs with one kind of source share. The object is created at its first use."""
        if kind.name not in self._runtimes:
            self._runtimes[kind.name] = kind.runtime()
        return self._runtimes[kind.name]


def _quarantine(row: JobRow, guard: TrapGuard) -> Quarantine | None:
    """
    Return the suspects that hold documents back: open suspects if the trap guard holds back, and accepted suspects in
    any mode.
    """
    held = [
        (host, template, proven)
        for host, template, proven, waits in row.suspects or ()
        if waits or guard == TrapGuard.HOLD
    ]
    return Quarantine(held) if held else None


def _partitioned(row: JobRow) -> Partitioned | None:
    """
    Return the facts that the flush needs to send references to other partitions; None for a job of this database alone.
    """
    placement = this_partition.placement() if row.number is not None else None
    if row.number is None or placement is None:
        return None
    owners = SlotMap.from_json(row.slots, placement.names).owners
    return Partitioned(placement.here, row.number, replace(placement, owners=owners).foreign)
