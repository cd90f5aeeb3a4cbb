"""Startup: the main manager prepares a run, owners seed their seeds, and the last of them makes the job active."""

import logging
from collections.abc import Mapping
from functools import partial
from typing import Any, Final, LiteralString

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import Reference, RetryLimit
from jobs.connectors.repository.kind import (
    ReadsSeedsOtherwise,
    RepositoryKind,
    Ruled,
    Seeding,
    SeedingFailed,
    SourceSettings,
)
from jobs.duties.attempts import NO_FAILURES, failed_attempt
from jobs.duties.context import Pass
from jobs.duties.moves import move, move_as_owner
from jobs.duties.partitioned_runs import runs_elsewhere, share_jobs
from jobs.lifecycle.job import Kind, RunEnd, Scan
from jobs.lifecycle.scan import choose_scan
from jobs.models import Job, Seed
from jobs.partitions import this_partition
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.seeds import discover_seeds
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.wake import wake_job
from nodes.membership.fences import FenceRefused

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
# Jobs that can start: connectors are installed, no retry is pending, and each seed has an owner.
JOBS_TO_PREPARE: Final[LiteralString] = """
SELECT job.id, job.run_no, job.kind, job.minimal, job.from_the_beginning, job.failures, repository.connector
  FROM jobs_job AS job JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE job.node_scope = %(scope)s AND job.phase = 'ready_for_startup' AND job.stop_request = 'none'
   AND job.connectors_ready AND (job.retry_at IS NULL OR job.retry_at <= %(now)s)
   AND NOT EXISTS (SELECT FROM jobs_seed AS seed LEFT JOIN jobs_throttlegroup AS held ON held.id = seed.group_id
                    WHERE seed.job_id = job.id AND held.state IS DISTINCT FROM 'owned')
"""
_TO_SEED: Final[LiteralString] = f"""
SELECT seed.id, seed.group_id, seed.urls, job.id AS job_id, job.kind, job.phase, job.run_no, job.specification,
       job.failures, job.failing_since, repository.connector, repository.configuration, repository.is_confined,
       EXISTS (SELECT FROM jobs_partitionedjob AS partitioned WHERE partitioned.job_id = job.id) AS is_partitioned,
       CASE WHEN job.from_the_beginning THEN '' ELSE seed.seeding_version END AS last_version
  FROM jobs_seed AS seed JOIN jobs_job AS job ON job.id = seed.job_id
  JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE seed.group_id = ANY(%(groups)s) AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no
   AND (job.retry_at IS NULL OR job.retry_at <= %(now)s)
   AND (job.phase = 'starting_up' AND job.stop_request = 'none' OR job.phase = 'active' AND job.seeding AND {RUNNABLE})
"""
# True if a job is starting, or reads its seeds again, and has no pending retry.
SEEDING_JOBS: Final[LiteralString] = """
SELECT FROM jobs_job AS job
 WHERE job.node_scope = %(scope)s AND job.stop_request = 'none' AND (job.retry_at IS NULL OR job.retry_at <= %(now)s)
   AND (job.phase = 'starting_up' OR job.phase = 'active' AND job.seeding)
"""
_SEEDED: Final[LiteralString] = """
SELECT job.id, job.phase, job.scan, job.reseed_after FROM jobs_job AS job
 WHERE job.node_scope = %(scope)s AND job.stop_request = 'none'
   AND (job.phase = 'starting_up' OR job.phase = 'active' AND job.seeding)
   AND NOT EXISTS (SELECT FROM jobs_seed AS seed
                    WHERE seed.job_id = job.id AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no)
"""


def prepare_runs(at: Pass) -> int:
    """Give a run number and a scan to each job that is ready; return the number of prepared runs."""
    if not share_jobs(at):
        return 0
    with named_rows(at.connection) as cursor:
        ready = cursor.execute(JOBS_TO_PREPARE, {"scope": at.scope, "now": at.now}).fetchall()
    moved, elsewhere = 0, runs_elsewhere(at) if ready else {}
    for job in ready:
        # A run reads the robots.txt of each host again. So each host counts as unknown, and at first gets a single
        # document.
        at.connection.execute(_FORGET_HOSTS, {"job": job.id, "namespaces": registry.namespaces_that_ask_first()})
        moved += _prepare(at, job, after=max(job.run_no, elsewhere.get(job.id, 0)))
    return moved


def _prepare(at: Pass, job: Any, *, after: int) -> bool:
    if job.failures:
        # An earlier attempt to start failed. The run keeps its number and the seeds that were read, and continues.
        return move(at, job.id, "prepare")
    try:
        model = registry.find(job.connector).model
    except registry.UnknownConnector:
        # The connector is missing, and `watch_connectors` has not noticed this yet. So the run is not prepared now.
        return False
    scan = choose_scan(model, kind=Kind(job.kind), minimal=job.minimal, from_the_beginning=job.from_the_beginning)
    return move(at, job.id, "prepare", facts={"run_no": after + 1, "scan": scan})


def seed_seeds(at: Pass) -> int:
    """Seed starting and reseeding jobs with the seeds of this manager's groups; return the number of seeds."""
    held = {group.id: group for group in at.groups}
    with named_rows(at.connection) as cursor:
        seeds = cursor.execute(_TO_SEED, {"groups": list(held), "now": at.now}).fetchall()
    seeded = sum(_seed(at, seed, group=held[seed.group_id]) for seed in seeds)
    _end_seeding(at)
    return seeded


def _seed(at: Pass, seed: Any, *, group: GroupHeld) -> bool:
    """Read the documents of this seed from its source, and put them into the run; return True if that succeeded."""
    about = (seed.id, seed.run_no, *seed.urls)
    try:
        kind = registry.find(seed.connector)
        answer = at.sources.ask(about, partial(_ask, kind, seed))
    except SeedingFailed as failed:
        return _postpone(at, seed, str(failed), retry_after=failed.retry_after, limit=failed.limit)
    except registry.UnknownConnector as unknown:
        return _postpone(at, seed, str(unknown))
    except Exception as defect:
        logger.exception("defect of the connector %s while it was seeded", seed.connector)
        return _postpone(at, seed, f"The connector {seed.connector!r} has a defect ({type(defect).__name__}).")
    if answer is None:
        return False
    named, version, tracks_depth = answer
    if seed.is_partitioned and (placement := this_partition.placement_of_hosts(at.connection)) is not None:
        named = {key: one for key, one in named.items() if placement.foreign(one.bin) is None}
    try:
        discover_seeds(
            at.connection,
            manager=at.me,
            group=group,
            job_id=seed.job_id,
            seed_id=seed.id,
            urls=seed.urls,
            bins=kind.bins,
            references=list(named.values()),
            version=version,
            again=seed.kind == Kind.CONTINUOUS,
            tracks_depth=tracks_depth,
            now=at.now,
        )
    except FenceRefused as refused:
        # This manager may have lost the group, or the job was stopped. In both cases it must not read the seeds.
        if refused.fence != "group":
            raise
        return False
    return True


def _ask(kind: RepositoryKind, seed: Any) -> tuple[Mapping[str, Reference], str, bool]:
    """
    Return the documents that the source names, by hash; the version of this seeding; and True if the depth of a
    document matters.

    The depth matters if the rules of the job limit it, or if the source reads seeds in another way than other
    documents.
    """
    named = Seeding()
    source = SourceSettings(
        configuration=seed.configuration,
        specification=seed.specification,
        seeds=seed.urls,
        is_confined=seed.is_confined,
    )
    version = kind.seed(source, named, last_version=seed.last_version)
    is_limited = isinstance(kind, Ruled) and kind.rules(source).max_depth is not None
    return named.references, version, is_limited or isinstance(kind, ReadsSeedsOtherwise)


def _postpone(
    at: Pass, seed: Any, why: str, *, retry_after: float | None = None, limit: RetryLimit | None = None
) -> bool:
    """
    Schedule a retry, or give up after the last attempt; return False, because the seed was not read.

    A starting job becomes ready for startup again, or ends with an error after the last attempt. A running job
    continues with the earlier documents of its seeds.
    """
    logger.warning("job %d cannot be seeded now: %s", seed.job_id, why)
    later = failed_attempt(
        failures=seed.failures, failing_since=seed.failing_since, retry_after=retry_after, limit=limit, now=at.now
    )
    if seed.phase == "starting_up":
        if later is not None:
            move_as_owner(at, seed.job_id, "postpone", facts=later, reason=why)
        else:
            move_as_owner(at, seed.job_id, "give up", facts={"run_end": RunEnd.ERROR}, reason=why)
    elif later is not None:
        Job.objects.filter(pk=seed.job_id, seeding=True).update(**later, reason=why)
    else:
        Seed.objects.filter(pk=seed.id).update(seeded_run=seed.run_no)
        Job.objects.filter(pk=seed.job_id, seeding=True).update(**NO_FAILURES)
    return False


def _end_seeding(at: Pass) -> None:
    """Continue jobs whose seeds are all seeded."""
    with named_rows(at.connection) as cursor:
        seeded = cursor.execute(_SEEDED, {"scope": at.scope}).fetchall()
    for job in seeded:
        if job.phase == "active":
            move_as_owner(at, job.id, "end reseeding", facts=NO_FAILURES)
            continue
        if job.scan != Scan.FULL:
            # Known documents are due again, and no other step wakes their lanes.
            wake_job(at.connection, job_id=job.id, now=at.now)
        reseed_at = None if job.reseed_after is None else at.now + job.reseed_after
        move_as_owner(
            at, job.id, "activate", facts={**NO_FAILURES, "from_the_beginning": False, "reseed_at": reseed_at}
        )
