"""
Tombstones of moved hosts: removed documents that another partition can restore from now on.

They are sent after the documents of a move. The partition reads its tombstones once, in the order of their index. It
sends the tombstones of hosts that it no longer has, in chunks.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg.types.json import Jsonb

# Number of tombstones that are examined together, and largest number in one chunk.
_AT_ONCE: Final = 5_000
_IN_A_CHUNK: Final = 200
# Size of the texts of a chunk (bytes) above which it has fewer tombstones.
_LARGEST: Final = 8 << 20
# Before all jobs.
FIRST: Final = (0, 0, "00000000-0000-0000-0000-000000000000")

# One look-up in the index for each known job, because tombstones of deleted jobs are not moved.
_WALK: Final[LiteralString] = """
SELECT stone.job_id, stone.run_no, stone.hash::text AS hash, min(stone.bin_name) AS host,
       sum(coalesce(pg_column_size(stone.text), 0))::bigint AS size
  FROM (SELECT job_id, run_no, hash, bin_name, text FROM jobs_tombstone
         WHERE (job_id, run_no, hash) > (%(job)s, %(run)s, %(hash)s::uuid)
           AND job_id IN (SELECT job_id FROM jobs_partitionedjob)
         ORDER BY job_id, run_no, hash LIMIT %(most)s) AS stone
 GROUP BY stone.job_id, stone.run_no, stone.hash
 ORDER BY stone.job_id, stone.run_no, stone.hash
"""
_CHOSEN: Final[LiteralString] = """
chosen AS MATERIALIZED (
    SELECT stone.* FROM unnest(%(jobs)s::bigint[], %(runs)s::int[], %(hashes)s::uuid[]) AS given(job_id, run_no, hash)
      JOIN jobs_tombstone AS stone USING (job_id, run_no, hash)
)
"""
# Ids differ between partitions, as in the chunks of documents. The lane is opened again by a restoration.
_WRITE: Final[LiteralString] = f"""
WITH {_CHOSEN}
INSERT INTO jobs_partitionfact (source, target, key, body)
SELECT %(here)s, %(target)s, %(key)s, jsonb_build_object(
    'documents', '[]'::jsonb, 'targets', '[]'::jsonb, 'hosts', '[]'::jsonb, 'records', '[]'::jsonb, 'texts', '[]'::jsonb,
    'refusals', '[]'::jsonb,
    'tombstones', (
        SELECT jsonb_agg(jsonb_build_object('job', known.number, 'seed', coalesce(md5(seed.urls[1]), ''),
                                            'output', coalesce(output.name, ''), 'row', to_jsonb(chosen)))
          FROM chosen JOIN jobs_partitionedjob AS known USING (job_id)
          LEFT JOIN jobs_seed AS seed ON seed.id = chosen.seed_id
          LEFT JOIN jobs_outputconnection AS output ON output.id = chosen.output_id),
    'access', (
        SELECT coalesce(jsonb_agg(to_jsonb(access)), '[]') FROM jobs_searchaccess AS access
         WHERE access.digest IN (SELECT chosen.access FROM chosen)))
"""
_LEAVE: Final[LiteralString] = """
DELETE FROM jobs_tombstone AS stone
 USING unnest(%(jobs)s::bigint[], %(runs)s::int[], %(hashes)s::uuid[]) AS given(job_id, run_no, hash)
 WHERE stone.job_id = given.job_id AND stone.run_no = given.run_no AND stone.hash = given.hash
"""
# If a chunk arrives again, its tombstones exist already.
_STORE: Final[LiteralString] = """
INSERT INTO jobs_tombstone
SELECT stone.*
  FROM unnest(%(rows)s::jsonb[], %(jobs)s::bigint[], %(outputs)s::bigint[], %(seeds)s::bigint[])
       AS given(body, job_id, output_id, seed_id)
 CROSS JOIN LATERAL jsonb_populate_record(NULL::jobs_tombstone, given.body || jsonb_build_object(
       'job_id', given.job_id, 'output_id', given.output_id, 'seed_id', given.seed_id, 'lane_id', 0)) AS stone
 WHERE NOT EXISTS (SELECT FROM jobs_tombstone AS held
                    WHERE held.job_id = stone.job_id AND held.run_no = stone.run_no AND held.hash = stone.hash
                      AND held.output_id = stone.output_id AND held.part = stone.part AND held.removed_at = stone.removed_at)
"""
_SEEDS: Final[LiteralString] = "SELECT job_id, md5(urls[1]) AS seed, id FROM jobs_seed WHERE job_id = ANY(%(jobs)s)"

# A removed document: job, run and hash.
Key = tuple[int, int, str]


@dataclass(frozen=True, slots=True)
class Found:
    """Tombstones of hosts of another partition, up to the document `at`; None after the last one."""

    by_target: Mapping[str, Sequence[Key]]
    at: Key | None


def find_moved(cursor: psycopg.Cursor[Any], after: Key, foreign: Callable[[str], str | None]) -> Found:
    """Return the next removed documents of hosts that another partition has, as many as a chunk takes."""
    job, run, key = after
    facts = {"job": job, "run": run, "hash": key, "most": _AT_ONCE}
    rows = cursor.execute(_WALK, facts).fetchall()
    found: dict[str, list[Key]] = {}
    amount = size = 0
    at: Key = after
    for row in rows:
        target = foreign(row.host)
        if target is not None and amount and (amount == _IN_A_CHUNK or size + row.size > _LARGEST):
            return Found(found, at)
        at = (row.job_id, row.run_no, row.hash)
        if target is not None:
            found.setdefault(target, []).append(at)
            amount, size = amount + 1, size + row.size
    return Found(found, at if rows else None)


def send(cursor: psycopg.Cursor[Any], keys: Sequence[Key], *, here: str, target: str, key: str) -> None:
    """Write a chunk with these tombstones, and delete them here. The caller has the transaction."""
    jobs, runs = [job for job, _, _ in keys], [run for _, run, _ in keys]
    about: dict[str, Any] = {"jobs": jobs, "runs": runs, "hashes": [one for _, _, one in keys]}
    cursor.execute(_WRITE, {**about, "here": here, "target": target, "key": key})
    cursor.execute(_LEAVE, about)


def store(
    cursor: psycopg.Cursor[Any],
    stones: Sequence[Mapping[str, Any]],
    ids: Mapping[int, int],
    outputs: Mapping[str, int],
) -> None:
    """Store tombstones that arrived. Tombstones of jobs and outputs that this partition does not have are left out."""
    known = [one for one in stones if one["job"] in ids and one["output"] in outputs]
    jobs = [ids[one["job"]] for one in known]
    seeds = {(row.job_id, row.seed): row.id for row in cursor.execute(_SEEDS, {"jobs": jobs}).fetchall()}
    facts = {
        "rows": [Jsonb(one["row"]) for one in known],
        "jobs": jobs,
        "outputs": [outputs[one["output"]] for one in known],
        # A restoration takes another seed of the job instead of one that no longer exists.
        "seeds": [seeds.get((job, one["seed"]), 0) for job, one in zip(jobs, known, strict=True)],
    }
    cursor.execute(_STORE, facts)
