"""
References to documents of other partitions: the flush writes them into the table that replication copies there.

A reference is not sent again if the same run has sent it before with the same or a smaller depth. `jobs_foreignlink`
keeps the sent documents. If two flushes have references to one document, one flush waits for the row of the other. A
redirect is sent for each document that redirects, with the redirects that lead to that document
(`jobs.queue.flushing.redirects`).
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString, NamedTuple

import psycopg

from jobs.connectors.repository.base import Reference
from jobs.queue.flushing.outcomes import JobFacts, Partitioned, Result
from jobs.queue.flushing.redirects import CARRIED, store
from jobs.queue.flushing.stored_links import StoredLinks
from jobs.queue.sql.columns import columns_of


class _Given(NamedTuple):
    """A reference that was read with its document, and so has the identifier of its target."""

    hash: str
    job_id: int
    seed_id: int
    target: str
    identifier: str
    bin: str
    run_no: int
    depth: int
    redirects: int
    found_on: str


class _Stored(NamedTuple):
    """A reference of a document that was not read now. `jobs_foreignlink` has the identifier of its target."""

    hash: str
    job_id: int
    run_no: int
    depth: int
    redirects: int
    found_on: str


# Locks: ForeignLink by hash, after all documents of the flush.
_SEND: Final[LiteralString] = f"""
WITH given AS (
    SELECT hash, job_id, seed_id, target, identifier, bin, run_no, depth, redirects, found_on
      FROM unnest(%(given_hashes)s::uuid[], %(given_jobs)s::bigint[], %(given_seeds)s::bigint[], %(given_targets)s::text[],
                  %(given_identifiers)s::text[], %(given_bins)s::text[], %(given_runs)s::int[], %(given_depths)s::int[],
                  %(given_redirects)s::int[], %(given_found_on)s::uuid[])
           AS named(hash, job_id, seed_id, target, identifier, bin, run_no, depth, redirects, found_on)
     UNION ALL
    SELECT link.hash, link.job_id, link.seed_id, link.target, link.identifier, link.bin, stored.run_no, stored.depth,
           stored.redirects, stored.found_on
      FROM unnest(%(stored_hashes)s::uuid[], %(stored_jobs)s::bigint[], %(stored_runs)s::int[], %(stored_depths)s::int[],
                  %(stored_redirects)s::int[], %(stored_found_on)s::uuid[])
           AS stored(hash, job_id, run_no, depth, redirects, found_on)
      JOIN jobs_foreignlink AS link ON link.hash = stored.hash AND link.job_id = stored.job_id
), nearest AS (
    SELECT DISTINCT ON (hash, job_id) * FROM given ORDER BY hash, job_id, depth, redirects
), carried AS (
    SELECT named.hash, named.job_id, array_agg(ARRAY[step.hash, step.target]) AS edges
      FROM (SELECT DISTINCT hash, job_id, run_no, found_on FROM given WHERE redirects > 0) AS named
     CROSS JOIN LATERAL ({CARRIED}) AS step
     GROUP BY named.hash, named.job_id
), named AS (
    INSERT INTO jobs_foreignlink AS link
           (hash, job_id, seed_id, target, identifier, bin, run_no, depth, redirects, found_on, edges)
    SELECT hash, job_id, seed_id, target, identifier, bin, run_no, depth, redirects, found_on, coalesce(carried.edges, '{{}}')
      FROM nearest LEFT JOIN carried USING (hash, job_id) ORDER BY hash, job_id
    ON CONFLICT (hash, job_id) DO UPDATE
       SET seed_id = excluded.seed_id, target = excluded.target, run_no = excluded.run_no, redirects = excluded.redirects,
           depth = CASE WHEN link.run_no = excluded.run_no THEN least(link.depth, excluded.depth) ELSE excluded.depth END,
           found_on = excluded.found_on, edges = excluded.edges
     WHERE link.run_no < excluded.run_no OR link.depth > excluded.depth OR link.target <> excluded.target
        OR (excluded.edges <> '{{}}' AND excluded.edges <> link.edges)
    RETURNING *
)
INSERT INTO jobs_foreignreference
       (source, target, job_number, run_no, hash, identifier, bin, seed, depth, redirects, tracks_depth, found_on,
        edges)
SELECT %(here)s, named.target, job.number, named.run_no, named.hash, named.identifier, named.bin,
       md5(seed.urls[1])::uuid, named.depth, named.redirects, job.tracks_depth, named.found_on,
       named.edges
  FROM named
  JOIN unnest(%(jobs)s::bigint[], %(numbers)s::bigint[], %(tracking)s::bool[]) AS job(id, number, tracks_depth)
    ON job.id = named.job_id
  JOIN jobs_seed AS seed ON seed.id = named.seed_id
"""
_GIVEN: Final = ("hashes", "jobs", "seeds", "targets", "identifiers", "bins", "runs", "depths", "redirects", "found_on")
_STORED: Final = ("hashes", "jobs", "runs", "depths", "redirects", "found_on")


class ForeignReferences:
    """
    The references of one flush to documents of other partitions: `take` and `take_stored` collect them, and `write`
    stores them.
    """

    def __init__(self) -> None:
        self._given: list[_Given] = []
        self._stored: list[_Stored] = []
        self._jobs: dict[int, tuple[Partitioned, JobFacts]] = {}
        # Redirects as (source, job, target, run), including redirects to documents of this partition.
        self._redirects: list[tuple[str, int, str, int]] = []

    def take(self, result: Result, references: Sequence[Reference]) -> list[Reference]:
        """Keep the references to other partitions for `write`; return the references to documents of this partition."""
        job, document = result.job, result.outcome.document
        if job.partitioned is None:
            return list(references)
        own: list[Reference] = []
        for named in references:
            if named.is_redirect:
                self._redirects.append((document.hash, job.id, named.hash, job.run_no))
            target = job.partitioned.foreign(named.bin)
            if target is None:
                own.append(named)
                continue
            depth = document.depth + (not named.is_redirect)
            if job.max_depth is not None and depth > job.max_depth:
                continue
            self._jobs[job.id] = job.partitioned, job
            redirects = document.redirects + 1 if named.is_redirect else 0
            self._given.append(
                _Given(
                    named.hash, job.id, result.claimed.seed_id, target, named.identifier, named.bin, job.run_no, depth,
                    redirects, document.hash,
                )
            )  # fmt: skip
        return own

    def take_stored(self, links: StoredLinks, targets: Sequence[str]) -> None:
        """
        Keep the stored links of a document that was not read for `write`. Links to documents of this partition send
        nothing.
        """
        job, document = links.result.job, links.result.claimed.document
        depth = document.depth + (not links.is_redirect)
        if job.partitioned is None or (job.max_depth is not None and depth > job.max_depth):
            return
        self._jobs[job.id] = job.partitioned, job
        if links.is_redirect:
            self._redirects += [(document.hash, job.id, target, job.run_no) for target in targets]
        redirects = document.redirects + 1 if links.is_redirect else 0
        self._stored += [_Stored(target, job.id, job.run_no, depth, redirects, document.hash) for target in targets]

    def named(self) -> list[tuple[JobFacts, str, int]]:
        """Return (job, hash, depth) of the references that certainly have a row after the flush."""
        return [(self._jobs[one.job_id][1], one.hash, one.depth) for one in self._given]

    def write(self, cursor: psycopg.Cursor[Any]) -> None:
        """Write the references that were not sent before, and the redirects."""
        if self._redirects:
            store(cursor, self._redirects)
        if not (self._given or self._stored):
            return
        facts = columns_of(self._given, tuple(f"given_{name}" for name in _GIVEN))
        facts |= columns_of(self._stored, tuple(f"stored_{name}" for name in _STORED))
        jobs = list(self._jobs.items())
        facts |= {
            "jobs": [job_id for job_id, _ in jobs],
            "numbers": [partitioned.number for _, (partitioned, _) in jobs],
            "tracking": [job.tracks_depth for _, (_, job) in jobs],
        }
        cursor.execute(_SEND, {**facts, "here": jobs[0][1][0].here})
