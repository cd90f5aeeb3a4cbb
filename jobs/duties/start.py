"""Startup: the main prepares a run, owners seed their seeds, and who seeds last makes the job active."""

import logging
from typing import Any, Final, LiteralString

from jobs.connectors.repository import registry
from jobs.connectors.repository.kind import Asked, Seeding, SeedingFailed
from jobs.duties.context import Pass
from jobs.lifecycle.job import Scan
from jobs.queue.discover import discover_seeds
from jobs.queue.hold import GroupHeld
from jobs.queue.rows import named_rows
from jobs.transitions import JobUnknown, TransitionRefused, make_transition

logger = logging.getLogger(__name__)

# Locks: Bin by id.
_FORGET_HOSTS: Final[LiteralString] = """
UPDATE jobs_bin SET is_known = false
  FROM (SELECT id FROM jobs_bin
         WHERE namespace = ANY(%(namespaces)s)
           AND id IN (SELECT lane.bin_id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
                       WHERE seed.job_id = %(job)s)
         ORDER BY id
           FOR NO KEY UPDATE) AS known
 WHERE jobs_bin.id = known.id
"""


def prepare_runs(at: Pass) -> int:
    """Give a new run number to each job that is ready; returns how many runs were prepared."""
    ready = at.connection.execute(
        """
        SELECT job.id, job.run_no FROM jobs_job AS job
         WHERE job.node_scope = %s AND job.phase = 'ready_for_startup' AND job.stop_request = 'none'
           AND NOT EXISTS (SELECT FROM jobs_seed AS seed LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
                            WHERE seed.job_id = job.id AND held.state IS DISTINCT FROM 'owned')
        """,
        (at.scope,),
    ).fetchall()
    for job_id, run_no in ready:
        # A run asks hosts anew what they allow: first one document of each, behind its robots.txt.
        at.connection.execute(_FORGET_HOSTS, {"job": job_id, "namespaces": registry.namespaces_that_ask_first()})
        # The web's seeds name only roots: whatever a full run does not reach is gone.
        _try(job_id, "prepare", at, facts={"run_no": run_no + 1, "scan": Scan.FULL})
    return len(ready)


def seed_seeds(at: Pass) -> int:
    """Put the seeds of starting jobs into their runs, for the groups of this manager; returns how many."""
    held = {group.id: group for group in at.groups}
    with named_rows(at.connection) as cursor:
        seeds = cursor.execute(
            """
            SELECT seed.id, seed.group_id, seed.urls, job.id AS job_id, job.specification,
                   CASE WHEN job.from_the_beginning THEN '' ELSE seed.seeding_version END AS last_version,
                   repository.connector, repository.configuration
              FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
              JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
             WHERE seed.group_id = ANY(%s) AND job.phase = 'starting_up' AND job.stop_request = 'none'
               AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no
            """,
            (list(held),),
        ).fetchall()
    seeded = sum(_seed(at, seed, group=held[seed.group_id]) for seed in seeds)
    _activate(at)
    return seeded


def _seed(at: Pass, seed: Any, *, group: GroupHeld) -> bool:
    """Let the source name what this seed begins with, and put that into the run; returns whether it could."""
    named = Seeding()
    asked = Asked(configuration=seed.configuration, specification=seed.specification, seeds=seed.urls)
    try:
        kind = registry.find(seed.connector)
        version = kind.seed(asked, named, last_version=seed.last_version)
    except (SeedingFailed, registry.UnknownConnector) as error:
        logger.warning("job %d cannot be seeded now: %s", seed.job_id, error)
        return False
    discover_seeds(
        at.connection,
        manager=at.me,
        group=group,
        job_id=seed.job_id,
        seed_id=seed.id,
        bins=kind.bins,
        references=list(named.references.values()),
        version=version,
        now=at.now,
    )
    return True


def _activate(at: Pass) -> None:
    """Make jobs active of which no seed is left to be seeded."""
    seeded = at.connection.execute(
        """
        SELECT job.id FROM jobs_job AS job
         WHERE job.node_scope = %s AND job.phase = 'starting_up' AND job.stop_request = 'none'
           AND NOT EXISTS (SELECT FROM jobs_seed AS seed
                            WHERE seed.job_id = job.id AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no)
        """,
        (at.scope,),
    ).fetchall()
    for (job_id,) in seeded:
        _try(job_id, "activate", at)


def _try(job_id: int, name: str, at: Pass, facts: dict[str, object] | None = None) -> None:
    """Make a transition; somebody may have made another in between, which then holds."""
    try:
        make_transition(
            job_id, name, made_by="manager", now=at.now, facts=facts, term=None if name == "activate" else at.term
        )
    except (TransitionRefused, JobUnknown):
        return
