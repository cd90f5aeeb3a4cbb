"""
Discovery: references of documents and seeds become documents, or known documents come back into the run.

Bins and lanes are inserted first, in a transaction of their own: they are few, all jobs share them, and a document
needs its lane. References are written by the flush, in the same transaction as the outcome that named them. Seeds are
written by `discover_seeds`.
"""

import datetime as dt
import uuid
from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Reference
from jobs.connectors.repository.kind import BinKind
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Scan
from jobs.queue.flushing import hop_limits, hops
from jobs.queue.flushing.hops import HopGraph
from jobs.queue.offering.hold import GroupHeld
from jobs.queue.pace.addresses import put_below_addresses
from jobs.queue.sql.order import FRESH
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.runnable import RUNNABLE
from jobs.queue.wake import wake_lanes
from nodes.membership.fences import MAY_WRITE, FenceRefused
from nodes.membership.incarnation import remembered

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
    pairs = sorted(set(wanted))
    facts = {
        "namespace": bins.namespace,
        "known": not bins.asks_first,
        "requests": bins.requests,
        "gap": bins.gap,
        "seeds": [seed for seed, _ in pairs],
        "names": [name for _, name in pairs],
    }
    with connection.transaction(), named_rows(connection) as cursor:
        for statement in (_OPEN_BINS, _OPEN_LANES, _LIMIT_BINS):
            cursor.execute(statement, facts)
        rows = cursor.execute(_FIND_LANES, facts).fetchall()
        if known := {row.bin_id for row in rows if row.is_known}:
            put_below_addresses(cursor, bins=sorted(known))
        return {(row.seed_id, row.name): row.id for row in rows}


# Seeds are written once a run. One statement inserts new ones as pending and revives known ones. It skips a seed that
# another seed's discovery is processing.
# Locks: Node KEY SHARE, ThrottleGroup SHARE, Job SHARE; then the job's hop counts if it has limits, and QueueItem by
# hash.
_HOLD: Final[LiteralString] = f"""
WITH node AS MATERIALIZED (
    SELECT id FROM nodes_node WHERE id = %(manager)s AND {MAY_WRITE} FOR KEY SHARE
), held AS MATERIALIZED (
    SELECT id FROM jobs_throttlegroup
     WHERE id = %(group)s AND owner_id = (SELECT id FROM node) AND epoch = %(epoch)s AND state = 'owned'
       FOR SHARE
)
SELECT job.run_no, job.scan, job.hop_limits, job.hop_mode FROM jobs_job AS job
 WHERE job.id = %(job)s AND EXISTS (SELECT FROM held)
   AND (job.phase = 'starting_up' AND job.stop_request = 'none' OR job.phase = 'active' AND job.seeding AND {RUNNABLE})
   FOR SHARE
"""
_EXISTING: Final[LiteralString] = """
SELECT hash, lane_id, stage, run_no, outcome, result_code FROM jobs_queueitem
 WHERE job_id = %(job)s AND hash = ANY(%(hashes)s::uuid[])
 ORDER BY hash
   FOR NO KEY UPDATE
"""
_PLANT: Final[LiteralString] = f"""
INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, seq, action, depth)
SELECT hash, %(job)s, lane_id, identifier, {Stage.PENDING:d}, false, false, %(run)s, {FRESH}, 0, 0
  FROM unnest(%(hashes)s::uuid[], %(lanes)s::bigint[], %(identifiers)s::text[]) AS named(hash, lane_id, identifier)
 ORDER BY hash
ON CONFLICT (hash, job_id) DO UPDATE
   SET stage = {Stage.PENDING:d}, run_no = %(run)s, seq = excluded.seq, check_time = NULL, depth = 0, redirects = 0,
       outcome = 0, result_code = '', failures = 0, failing_since = NULL
 WHERE jobs_queueitem.batch_id IS NULL
   AND (jobs_queueitem.run_no < %(run)s OR %(again)s AND jobs_queueitem.stage = {Stage.DONE:d})
"""
_COUNT: Final[LiteralString] = """
INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
SELECT %(job)s, lane_id, run_no, 'stage', stage, outcome, code, amount
  FROM unnest(%(lanes)s::bigint[], %(runs)s::int[], %(stages)s::int[], %(outcomes)s::int[], %(codes)s::text[],
              %(amounts)s::bigint[]) AS moved(lane_id, run_no, stage, outcome, code, amount)
"""


@retried
def discover_seeds(
    connection: psycopg.Connection[Any],
    *,
    manager: uuid.UUID,
    group: GroupHeld,
    job_id: int,
    seed_id: int,
    urls: Sequence[str],
    bins: BinKind,
    references: list[Reference],
    version: str = "",
    again: bool = False,
    now: dt.datetime,
) -> int:
    """
    Insert the documents of a seed into the run of its job; return how many there are.

    With `again`, documents that the run has already done are read once more.

    `urls` are the addresses of the seed when its source was read: a seed that changed since then is read again.
    `version` is the source's name for this seeding.

    Raises:
        FenceRefused: the manager lost its node or its group, or the job no longer starts or reseeds.
    """
    named = {reference.hash: reference for reference in references}
    lanes = open_lanes(connection, bins=bins, wanted=[(seed_id, reference.bin) for reference in named.values()])
    lane_of = {key: lanes[seed_id, reference.bin] for key, reference in named.items()}
    with connection.transaction(), named_rows(connection) as cursor:
        held = cursor.execute(
            _HOLD,
            {
                "manager": manager,
                "group": group.id,
                "epoch": group.epoch,
                "job": job_id,
                **remembered(manager),
            },
        ).fetchone()
        if held is None:
            raise FenceRefused("group", group=group.id, epoch=group.epoch, job=job_id, node=manager)
        run = held.run_no
        rules = hops.rules_of(hop_limits=held.hop_limits, hop_mode=held.hop_mode)
        if rules is not None:
            hops.hold(cursor, [job_id])
        # Lanes before documents: the lock order.
        wake_lanes(cursor, lane_of.values(), now=now)
        rows = cursor.execute(_EXISTING, {"job": job_id, "hashes": list(named)}).fetchall()
        known = {row.hash.hex: row for row in rows}
        cursor.execute(
            _PLANT,
            {
                "job": job_id,
                "run": run,
                "again": again,
                "hashes": list(named),
                "lanes": [lane_of[key] for key in named],
                "identifiers": [reference.identifier for reference in named.values()],
            },
        )
        moved: list[tuple[int, int, int, int, str, int]] = []
        for key in named:
            row = known.get(key)
            if row is None:
                moved.append((lane_of[key], run, Stage.PENDING, 0, "", 1))
            elif (row.run_no < run and row.stage in {Stage.PENDING, Stage.DONE, Stage.HOPCOUNT_REMOVED}) or (
                again and row.stage == Stage.DONE
            ):
                done = row.stage == Stage.DONE
                moved.append(
                    (
                        row.lane_id,
                        row.run_no,
                        row.stage,
                        row.outcome if done else 0,
                        row.result_code if done else "",
                        -1,
                    )
                )
                moved.append((row.lane_id, run, Stage.PENDING, 0, "", 1))
        columns = ("lanes", "runs", "stages", "outcomes", "codes", "amounts")
        cursor.execute(
            _COUNT,
            {"job": job_id, **dict(zip(columns, map(list, zip(*moved, strict=True)), strict=True))}
            if moved
            else {"job": job_id, **{c: [] for c in columns}},
        )
        # A known document may be in another seed's lane.
        wake_lanes(cursor, (row.lane_id for row in rows), now=now)
        cursor.execute(
            "UPDATE jobs_seed SET seeded_run = %s, seeding_version = %s WHERE id = %s AND urls = %s",
            (run, version, seed_id, list(urls)),
        )
        if rules is not None:
            woken = hop_limits.plant_seeds(
                HopGraph(cursor, job_id, rules), named, run_no=run, is_full_scan=held.scan == Scan.FULL
            )
            wake_lanes(cursor, woken, now=now)
    return len(named)
