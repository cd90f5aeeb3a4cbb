"""What a worker knows of the jobs whose documents it has: their connectors, outputs and facts for the flush."""

import time
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.registry import web_specification
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.fetch import Fetcher
from jobs.connectors.repository.web.robots import RobotsTable
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.queue.outcomes import JobFacts
from jobs.queue.rows import named_rows
from jobs.queue.take import Claimed

_MOST_JOBS: Final = 200

_READ: Final[LiteralString] = """
SELECT job.id, job.run_no, job.repository_id, job.specification, job.specification_version, job.max_documents IS NOT NULL AS has_budget,
       repository.connector, repository.configuration,
       coalesce(extract(epoch FROM clock_timestamp() - job.started_at), 0)::float AS running_for,
       coalesce((SELECT array_agg(url) FROM jobs_seed AS seed CROSS JOIN LATERAL unnest(seed.urls) AS url
                  WHERE seed.job_id = job.id AND seed.removed_at IS NULL), '{}') AS seeds,
       coalesce((SELECT array_agg(output.id ORDER BY output.id)
                   FROM jobs_job_outputs AS link JOIN jobs_outputconnection AS output ON output.id = link.outputconnection_id
                  WHERE link.job_id = job.id AND output.connector <> 'null'), '{}') AS outputs
  FROM jobs_job AS job JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE job.id = %(job)s
"""


@dataclass(frozen=True, slots=True)
class JobAtWork:
    """A job as of one version of its specification."""

    facts: JobFacts
    specification: WebSpecification
    connector: WebConnector
    configuration: str
    # When its run began, on this process' own clock: what hosts said of robots before is not believed.
    began_at: float


class Fetchers:
    """The two kinds of connections of a process: those that may reach private networks and those that may not."""

    def __init__(self, *, robots: RobotsTable) -> None:
        self.robots = robots
        self._fetchers: dict[bool, Fetcher] = {}

    def get(self, *, allow_private_networks: bool) -> Fetcher:
        """The fetcher of a kind, made at first use inside the running event loop."""
        if allow_private_networks not in self._fetchers:
            self._fetchers[allow_private_networks] = Fetcher(allow_private_networks=allow_private_networks)
        return self._fetchers[allow_private_networks]

    async def close(self) -> None:
        for fetcher in self._fetchers.values():
            await fetcher.close()


JobRow = Any


def read_job(connection: psycopg.Connection[Any], *, job_id: int) -> JobRow | None:
    """Read what the worker must know of a job; None when it is gone."""
    with named_rows(connection) as cursor:
        return cursor.execute(_READ, {"job": job_id}).fetchone()


class JobTable:
    """The jobs of this worker by (job, run, specification version); bounded, the oldest go first."""

    def __init__(self, fetchers: Fetchers) -> None:
        self._fetchers = fetchers
        self._jobs: dict[tuple[int, int, int], JobAtWork] = {}

    def find(self, claimed: Claimed) -> JobAtWork | None:
        return self._jobs.get((claimed.job_id, claimed.run_no, claimed.specification_version))

    def add(self, row: JobRow) -> None:
        """Set up a job's connector from what `read_job` brought."""
        specification = web_specification(row.configuration, row.specification, seeds=row.seeds)
        fetcher = self._fetchers.get(allow_private_networks=specification.allow_private_networks)
        self._jobs[row.id, row.run_no, row.specification_version] = JobAtWork(
            facts=JobFacts(
                id=row.id,
                run_no=row.run_no,
                repository=row.repository_id,
                tracks_depth=specification.max_depth is not None,
                max_depth=specification.max_depth,
                has_budget=row.has_budget,
                outputs=tuple(row.outputs),
            ),
            specification=specification,
            connector=WebConnector(specification, fetcher=fetcher, robots=self._fetchers.robots),
            configuration=str(row.specification_version),
            began_at=time.monotonic() - row.running_for,
        )
        while len(self._jobs) > _MOST_JOBS:
            del self._jobs[next(iter(self._jobs))]
