"""
Redirects of jobs of several partitions: a table of edges, so that a flush finds loops that lead through other partitions.

The flush stores each redirect of its documents. A reference that is a redirect carries the redirects that lead to it,
and its arrival stores them, too.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.flushing.outcomes import Key

# Longest chain of redirects that is searched for a loop; longer chains end as TOO_MANY_REDIRECTS.
LONGEST_CHAIN: Final = 12
# Largest number of redirects that one reference carries. Many documents may lead to one, such as a login page.
_MOST_CARRIED: Final = 50
# Locks: RedirectEdge by hash, after all documents of the flush.
_STORE: Final[LiteralString] = """
INSERT INTO jobs_redirectedge AS edge (hash, job_id, target, run_no)
SELECT DISTINCT ON (hash, job_id) hash, job_id, target, run_no
  FROM unnest(%(sources)s::uuid[], %(jobs)s::bigint[], %(targets)s::uuid[], %(runs)s::int[])
       AS given(hash, job_id, target, run_no)
 ORDER BY hash, job_id
ON CONFLICT (hash, job_id) DO UPDATE SET target = excluded.target, run_no = excluded.run_no
"""
# The redirects that lead on from each target, step by step, in the run of their job.
_CHAINS: Final[LiteralString] = f"""
WITH RECURSIVE chain AS (
    SELECT start.hash, start.job_id, start.run_no, NULL::uuid AS source, 0 AS length
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[]) AS start(hash, job_id, run_no)
    UNION ALL
    SELECT edge.target, chain.job_id, chain.run_no, chain.hash, chain.length + 1
      FROM chain
      JOIN jobs_redirectedge AS edge ON edge.hash = chain.hash AND edge.job_id = chain.job_id AND edge.run_no = chain.run_no
     WHERE chain.length < {LONGEST_CHAIN}
)
SELECT DISTINCT source, job_id, hash AS target FROM chain WHERE source IS NOT NULL
"""
# The redirects that lead to `named.hash` from `named.found_on`, the nearest first.
# One document may be the target of thousands, and the limit ends the search.
CARRIED: Final[LiteralString] = f"""
WITH RECURSIVE back AS (
    SELECT edge.hash, edge.target, 1 AS length FROM jobs_redirectedge AS edge
     WHERE edge.hash = named.found_on AND edge.job_id = named.job_id AND edge.run_no = named.run_no
    UNION ALL
    SELECT edge.hash, edge.target, back.length + 1
      FROM back JOIN jobs_redirectedge AS edge
        ON edge.job_id = named.job_id AND edge.target = back.hash AND edge.run_no = named.run_no
     WHERE back.length < {LONGEST_CHAIN}
)
SELECT hash, target FROM back LIMIT {_MOST_CARRIED}
"""
# Locks: RedirectEdge by hash.
_STORE_CARRIED: Final[LiteralString] = """
INSERT INTO jobs_redirectedge AS edge (hash, job_id, target, run_no)
SELECT DISTINCT ON (carried.hash) carried.hash, %(job)s, carried.target, %(run)s
  FROM unnest(%(sources)s::text[], %(numbers)s::bigint[]) AS applied(source, number)
  JOIN jobs_foreignreference AS arrived ON arrived.source = applied.source AND arrived.number = applied.number
 CROSS JOIN LATERAL (SELECT arrived.edges[place][1] AS hash, arrived.edges[place][2] AS target
                       FROM generate_subscripts(arrived.edges, 1) AS place) AS carried
 ORDER BY carried.hash
ON CONFLICT (hash, job_id) DO UPDATE SET target = excluded.target, run_no = excluded.run_no
 WHERE edge.run_no < excluded.run_no
"""
# Redirects matter only during a run, so the redirects of inactive jobs are deleted.
FORGET_REDIRECTS: Final[LiteralString] = """
DELETE FROM jobs_redirectedge AS edge
 USING jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
 WHERE edge.job_id = job.id AND job.phase = 'inactive'
"""


def store(cursor: psycopg.Cursor[Any], edges: Sequence[tuple[str, int, str, int]]) -> None:
    """Store redirects, each as the hash of a document, its job, the hash of the target, and the run."""
    names = ("sources", "jobs", "targets", "runs")
    cursor.execute(_STORE, {name: [edge[place] for edge in edges] for place, name in enumerate(names)})


def store_carried(cursor: psycopg.Cursor[Any], facts: dict[str, Any]) -> None:
    """
    Store the redirects in arrived references of a `job` and `run`. `sources` and `numbers` identify the references.
    """
    cursor.execute(_STORE_CARRIED, facts)


def read_chains(cursor: psycopg.Cursor[Any], facts: dict[str, Any]) -> dict[Key, Key]:
    """
    Return the stored redirects that lead on from these documents. The lists `hashes`, `jobs` and `runs` have one value
    for each document.
    """
    rows = cursor.execute(_CHAINS, facts)
    return {(row.source.hex, row.job_id): (row.target.hex, row.job_id) for row in rows}
