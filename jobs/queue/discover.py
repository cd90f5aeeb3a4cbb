"""
Discovery: references of documents and seeds become documents, or known documents come back into the run.

Bins and lanes are inserted first, in a separate transaction, because a document needs its lane. They are few, and
shared by jobs. Then one statement inserts new documents and revives known ones (`INSERT_OR_REVIVE`). The flush executes
it for references, in the transaction of the outcome that has these references. `jobs.queue.seeds` executes it for
seeds.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString, NamedTuple

import psycopg

from jobs.connectors.repository.kind import BinKind
from jobs.lifecycle.document import Stage
from jobs.queue.pace.addresses import set_address_parents
from jobs.queue.sql.columns import columns_of
from jobs.queue.sql.order import FRESH
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows

# Locks: the rows that it inserts, by name and by (seed, bin).
_OPEN_BINS: Final[LiteralString] = """
WITH made AS (
    INSERT INTO jobs_bin (namespace, name, "interval", is_known, usual_requests, usual_gap, stopped_at, stopped_by, stopped_why)
    SELECT DISTINCT %(namespace)s, named.name, 0, %(known)s, %(requests)s, %(gap)s::float,
           -- A stop of every port applies to a new port too.
           stop.stopped_at, coalesce(stop.stopped_by, ''), coalesce(stop.stopped_why, '')
      FROM unnest(%(names)s::text[]) AS named(name)
      LEFT JOIN LATERAL (
           SELECT stopped_at, stopped_by, stopped_why FROM jobs_bin
            WHERE named.name ~ ':[0-9]+$' AND namespace = %(namespace)s AND name = regexp_replace(named.name, ':[0-9]+$', '')
              AND stops_every_port
            LIMIT 1) AS stop ON true
     ORDER BY named.name
    ON CONFLICT (namespace, name) DO NOTHING
    RETURNING id
)
INSERT INTO jobs_binstate (bin_id) SELECT id FROM made
"""
_OPEN_LANES: Final[LiteralString] = """
WITH made AS (
    INSERT INTO jobs_lane (seed_id, bin_id)
    SELECT DISTINCT named.seed_id, bin.id
      FROM unnest(%(seeds)s::bigint[], %(names)s::text[]) AS named(seed_id, name)
      JOIN jobs_bin AS bin ON bin.namespace = %(namespace)s AND bin.name = named.name
     ORDER BY 1, 2
    ON CONFLICT (seed_id, bin_id) DO NOTHING
    RETURNING id, seed_id, bin_id
)
INSERT INTO jobs_lanestate (lane_id, seed_id, bin_id) SELECT id, seed_id, bin_id FROM made
"""
_LIMIT_BINS: Final[LiteralString] = """
INSERT INTO jobs_binlimit (bin_id, job_id, policy_id)
SELECT DISTINCT limited.id, seed.job_id, seed.policy_id
  FROM unnest(%(seeds)s::bigint[], %(names)s::text[]) AS named(seed_id, name)
  JOIN jobs_seed AS seed ON seed.id = named.seed_id AND seed.policy_id IS NOT NULL
  JOIN jobs_bin AS bin ON bin.namespace = %(namespace)s AND bin.name = named.name
 CROSS JOIN LATERAL (VALUES (bin.id), (bin.parent_id)) AS limited(id)
 WHERE limited.id IS NOT NULL
 ORDER BY 1, 2, 3
ON CONFLICT (bin_id, policy_id, job_id) DO NOTHING
"""
_FIND_LANES: Final[LiteralString] = """
SELECT lane.id, lane.seed_id, bin.id AS bin_id, bin.name, bin.address <> '' AS is_known
  FROM unnest(%(seeds)s::bigint[], %(names)s::text[]) AS named(seed_id, name)
  JOIN jobs_bin AS bin ON bin.namespace = %(namespace)s AND bin.name = named.name
  JOIN jobs_lane AS lane ON lane.seed_id = named.seed_id AND lane.bin_id = bin.id
"""


@retried
def open_lanes(
    connection: psycopg.Connection[Any], *, bins: BinKind, wanted: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """Insert missing bins and lanes for (seed, bin name) pairs; return the lane of each pair."""
    facts = _facts_of(bins, wanted)
    with connection.transaction(), named_rows(connection) as cursor:
        for statement in (_OPEN_BINS, _OPEN_LANES, _LIMIT_BINS):
            cursor.execute(statement, facts)
        rows = cursor.execute(_FIND_LANES, facts).fetchall()
        if known := {row.bin_id for row in rows if row.is_known}:
            set_address_parents(cursor, bins=sorted(known))
        return {(row.seed_id, row.name): row.id for row in rows}


def find_lanes(
    connection: psycopg.Connection[Any], *, bins: BinKind, wanted: Iterable[tuple[int, str]]
) -> dict[tuple[int, str], int]:
    """Return the lane of each of these (seed, bin name) pairs that has one."""
    with named_rows(connection) as cursor:
        rows = cursor.execute(_FIND_LANES, _facts_of(bins, wanted)).fetchall()
    return {(row.seed_id, row.name): row.id for row in rows}


def _facts_of(bins: BinKind, wanted: Iterable[tuple[int, str]]) -> dict[str, Any]:
    pairs = sorted(set(wanted))
    return {
        "namespace": bins.namespace,
        "known": not bins.asks_first,
        "requests": bins.requests,
        "gap": bins.gap,
        "seeds": [seed for seed, _ in pairs],
        "names": [name for _, name in pairs],
    }


class New(NamedTuple):
    """
    A document that becomes known. `found_on` is the document that names it, or the document itself if a seed names it.
    """

    hash: str
    job_id: int
    lane_id: int
    identifier: str
    run_no: int
    depth: int
    redirects: int
    stage: int
    found_on: str


class Again(NamedTuple):
    """
    The new values of a known document, whose row is locked.

    If `revived`, the document is due again immediately. If `unconditional`, it is read whatever its last version was.
    If `forgets`, it loses its earlier outcome.
    """

    hash: str
    job_id: int
    stage: int
    run_no: int
    depth: int
    redirects: int
    rescan: bool
    revived: bool
    unconditional: bool
    forgets: bool


_NEW_COLUMNS: Final = ("hashes", "jobs", "lanes", "identifiers", "runs", "depths", "redirects", "stages", "found_on")
_AGAIN_COLUMNS: Final = (
    "hashes",
    "jobs",
    "stages",
    "runs",
    "depths",
    "redirects",
    "rescans",
    "revived",
    "unconditional",
    "forgets",
)

# The first parts of a statement that gets the parameters of `discovered`. They insert new documents, and write known
# documents whose rows are locked. Locks: the inserted QueueItems, by hash. Rows that another transaction inserted
# meanwhile stay as they are; the caller compares the keys in `inserted`.
INSERT_OR_REVIVE: Final[LiteralString] = f"""
inserted AS (
    INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action,
                                depth, redirects, found_on)
    SELECT hash, job_id, lane_id, identifier, stage, false, false, run_no,
           CASE WHEN stage = {Stage.PENDING:d} THEN {FRESH} END, 0, depth, redirects, found_on
      FROM unnest(%(new_hashes)s::uuid[], %(new_jobs)s::bigint[], %(new_lanes)s::bigint[], %(new_identifiers)s::text[],
                  %(new_runs)s::int[], %(new_depths)s::int[], %(new_redirects)s::int[], %(new_stages)s::int[],
                  %(new_found_on)s::uuid[])
           AS named(hash, job_id, lane_id, identifier, run_no, depth, redirects, stage, found_on)
     ORDER BY hash, job_id
    ON CONFLICT (hash, job_id) DO NOTHING
    RETURNING hash, job_id, lane_id, run_no, stage
), named AS (
    UPDATE jobs_queueitem AS item
       SET stage = named.stage, run_no = named.run_no, depth = named.depth, redirects = named.redirects,
           rescan = named.rescan,
           seq = CASE WHEN named.revived THEN {FRESH} WHEN named.stage = {Stage.HOPCOUNT_REMOVED:d} THEN NULL ELSE item.seq END,
           check_time = CASE WHEN named.revived OR named.stage = {Stage.HOPCOUNT_REMOVED:d} THEN NULL ELSE item.check_time END,
           failures = CASE WHEN named.revived THEN 0 ELSE item.failures END,
           failing_since = CASE WHEN named.revived THEN NULL ELSE item.failing_since END,
           outcome = CASE WHEN named.forgets THEN 0 ELSE item.outcome END,
           result_code = CASE WHEN named.forgets THEN '' ELSE item.result_code END,
           validators = CASE WHEN named.unconditional THEN '' ELSE item.validators END
      FROM unnest(%(ref_hashes)s::uuid[], %(ref_jobs)s::bigint[], %(ref_stages)s::int[], %(ref_runs)s::int[],
                  %(ref_depths)s::int[], %(ref_redirects)s::int[], %(ref_rescans)s::bool[], %(ref_revived)s::bool[],
                  %(ref_unconditional)s::bool[], %(ref_forgets)s::bool[])
           AS named(hash, job_id, stage, run_no, depth, redirects, rescan, revived, unconditional, forgets)
     WHERE item.hash = named.hash AND item.job_id = named.job_id
)"""
# The counts of the inserted documents, for an insert of counter deltas.
COUNT_INSERTED: Final[LiteralString] = """
    SELECT job_id, lane_id, run_no, 'stage', stage, 0, '', count(*) FROM inserted GROUP BY job_id, lane_id, run_no, stage
"""


def discovered(new: Sequence[New], again: Sequence[Again]) -> dict[str, list[Any]]:
    """Return the parameters of `INSERT_OR_REVIVE`."""
    return columns_of(new, tuple(f"new_{name}" for name in _NEW_COLUMNS)) | columns_of(
        again, tuple(f"ref_{name}" for name in _AGAIN_COLUMNS)
    )
