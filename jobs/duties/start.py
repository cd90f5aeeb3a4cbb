"""Startup: the main prepares a run, owners seed their seeds, and who seeds last makes the job active."""

from typing import Final, LiteralString

from jobs.connectors.repository.base import Reference
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical, hash_of
from jobs.duties.context import Pass
from jobs.lifecycle.job import Scan
from jobs.queue.discover import discover_seeds
from jobs.queue.rows import named_rows
from jobs.transitions import JobUnknown, TransitionRefused, make_transition

# Locks: Bin by id.
_FORGET_HOSTS: Final[LiteralString] = """
UPDATE jobs_bin SET is_known = false
  FROM (SELECT id FROM jobs_bin
         WHERE id IN (SELECT lane.bin_id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id
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
        at.connection.execute(_FORGET_HOSTS, {"job": job_id})
        # The web's seeds name only roots: whatever a full run does not reach is gone.
        _try(job_id, "prepare", at, facts={"run_no": run_no + 1, "scan": Scan.FULL})
    return len(ready)


def seed_seeds(at: Pass) -> int:
    """Put the seeds of starting jobs into their runs, for the groups of this manager; returns how many."""
    held = {group.id: group for group in at.groups}
    with named_rows(at.connection) as cursor:
        seeds = cursor.execute(
            """
            SELECT seed.id, seed.group_id, seed.urls, job.id AS job_id FROM jobs_seed AS seed
              JOIN jobs_job AS job ON job.id = seed.job_id
             WHERE seed.group_id = ANY(%s) AND job.phase = 'starting_up' AND job.stop_request = 'none'
               AND seed.removed_at IS NULL AND seed.seeded_run < job.run_no
            """,
            (list(held),),
        ).fetchall()
    for seed in seeds:
        discover_seeds(
            at.connection,
            manager=at.me,
            group=held[seed.group_id],
            job_id=seed.job_id,
            seed_id=seed.id,
            namespace="web",
            references=_references(seed.urls),
            now=at.now,
        )
    _activate(at)
    return len(seeds)


def _references(urls: list[str]) -> list[Reference]:
    """The documents that stored seeds name. What cannot be read any more names nothing."""
    references = {}
    for typed in urls:
        try:
            url = canonical(typed)
        except BadUrl:
            continue
        references[url] = Reference(hash=hash_of(url), identifier=url, bin=bin_of(url), depth=0, redirects=0)
    return list(references.values())


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
