"""
Arrivals: references from other partitions become documents of this partition, like references of its own documents.

The rows that logical replication brought are deleted in the same transaction, and counted: the end of a run compares
this count with the number that the source sent. A reference to a host that has moved to another partition is sent on,
because its source did not know the move yet.
"""

import datetime as dt
import uuid
from collections import Counter
from collections.abc import Callable, Sequence, Set
from dataclasses import replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.kind import BinKind
from jobs.queue.discover import find_lanes, open_lanes
from jobs.queue.flushing.flush import WRITE, lock_documents, merge_concurrent_inserts, runs_below_which_rows_change
from jobs.queue.flushing.history import History
from jobs.queue.flushing.outcomes import FlushPlan, JobFacts, Key, Named
from jobs.queue.flushing.redirects import store_carried
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.transaction import implicit_transaction
from jobs.queue.wake import wake_lanes
from nodes.membership.fences import TermHeld, hold_term

# Largest number of references in one transaction.
_AT_ONCE: Final = 500
# Largest number of transactions in one pass.
_TRANSACTIONS: Final = 4
# True if this partition has a waiting reference that it can apply or must forget.
ARRIVALS: Final[LiteralString] = """
SELECT FROM jobs_foreignreference AS arrived
  LEFT JOIN jobs_partitionedjob AS known ON known.number = arrived.job_number
  LEFT JOIN jobs_job AS job ON job.id = known.job_id
 WHERE arrived.target = %(here)s
   AND (job.run_no > arrived.run_no OR job.run_no = arrived.run_no AND job.phase IN ('active', 'inactive'))
"""
# About half of the references lead to documents that this partition knows already. These references change nothing, so
# their seeds are not read. As in a flush, the depth of a reference matters only if the job tracks depth.
_WAITING: Final[LiteralString] = """
WITH arrived AS MATERIALIZED (
    SELECT arrived.*, NOT arrived.tracks_depth AND EXISTS (
           SELECT FROM jobs_queueitem AS known
            WHERE known.hash = arrived.hash AND known.job_id = %(job)s AND known.run_no >= arrived.run_no) AS is_known
      FROM jobs_foreignreference AS arrived
     WHERE arrived.target = %(here)s AND arrived.job_number = %(number)s AND arrived.run_no = %(run)s
     ORDER BY arrived.source, arrived.number
     LIMIT %(most)s
)
SELECT source, number, bin, redirects, tracks_depth, depth, seed.id AS seed_id,
       CASE WHEN NOT is_known THEN hash END AS hash, CASE WHEN NOT is_known THEN identifier END AS identifier,
       CASE WHEN NOT is_known THEN found_on END AS found_on
  FROM arrived
  LEFT JOIN LATERAL (SELECT id FROM jobs_seed
                      WHERE NOT arrived.is_known AND job_id = %(job)s AND removed_at IS NULL
                      ORDER BY md5(urls[1])::uuid <> arrived.seed, id LIMIT 1) AS seed ON true
 ORDER BY source, number
"""
# A job cannot end its run at the same time: the end waits until all references are applied. Locks: Job SHARE.
_HOLD_RUN: Final[LiteralString] = (
    "SELECT FROM jobs_job WHERE id = %(job)s AND run_no = %(run)s AND phase = 'active' FOR SHARE"
)
_SEND_ON: Final[LiteralString] = """
INSERT INTO jobs_foreignreference
       (source, target, job_number, run_no, hash, identifier, bin, seed, depth, redirects, tracks_depth, found_on, edges)
SELECT %(here)s, moved.target, arrived.job_number, arrived.run_no, arrived.hash, arrived.identifier, arrived.bin, arrived.seed,
       arrived.depth, arrived.redirects, arrived.tracks_depth, arrived.found_on, arrived.edges
  FROM unnest(%(sources)s::text[], %(numbers)s::bigint[], %(targets)s::text[]) AS moved(source, number, target)
  JOIN jobs_foreignreference AS arrived ON arrived.source = moved.source AND arrived.number = moved.number
"""
_DELETE: Final[LiteralString] = """
DELETE FROM jobs_foreignreference
 USING unnest(%(sources)s::text[], %(numbers)s::bigint[]) AS applied(source, number)
 WHERE jobs_foreignreference.source = applied.source AND jobs_foreignreference.number = applied.number
"""
_COUNT: Final[LiteralString] = """
INSERT INTO jobs_appliedreferences AS known (job_number, run_no, source, amount)
SELECT %(number)s, %(run)s, source, amount FROM unnest(%(sources)s::text[], %(amounts)s::bigint[]) AS given(source, amount)
ON CONFLICT (job_number, run_no, source) DO UPDATE SET amount = known.amount + excluded.amount
"""


def apply_arrivals(
    connection: psycopg.Connection[Any],
    *,
    term: TermHeld,
    here: str,
    number: int,
    job_id: int,
    run_no: int,
    bins: BinKind,
    now: dt.datetime,
    foreign: Callable[[str], str | None] = lambda _host: None,
) -> int:
    """
    Apply references that arrived for a run of an active job, at most as many as a pass has time for; return the number
    of applied ones.

    `foreign` returns the other partition that a host has moved to; None for a host of this partition.

    Raises:
        FenceRefused: the term is no longer the main manager's.
    """
    facts = {"here": here, "number": number, "job": job_id, "run": run_no, "most": _AT_ONCE}
    applied = 0
    for _ in range(_TRANSACTIONS):
        with named_rows(connection) as cursor:
            arrived = cursor.execute(_WAITING, facts).fetchall()
        moved = [(row.source, row.number, target) for row in arrived if (target := foreign(row.bin)) is not None]
        more = _apply(connection, arrived, moved, term=term, bins=bins, facts=facts, now=now) if arrived else 0
        applied += more
        if more < _AT_ONCE:
            break
    return applied


@retried
def _apply(
    connection: psycopg.Connection[Any],
    arrived: Sequence[Any],
    moved: Sequence[tuple[str, int, str]],
    *,
    term: TermHeld,
    bins: BinKind,
    facts: dict[str, Any],
    now: dt.datetime,
) -> int:
    gone = {(source, number) for source, number, _ in moved}
    placed = [row for row in arrived if row.seed_id is not None and (row.source, row.number) not in gone]
    lanes = _lanes_of(connection, {(row.seed_id, row.bin) for row in placed}, bins=bins) if placed else {}
    with implicit_transaction(connection, binary=True) as cursor:
        hold_term(connection, term)
        if cursor.execute(_HOLD_RUN, facts).fetchone() is None:
            return 0
        references = _nearest(placed, lanes, job_id=facts["job"], run_no=facts["run"])
        woken = _discover(cursor, references, worker=term.main_id, now=now) if references else frozenset()
        _send_on(cursor, moved, facts)
        _settle(cursor, arrived, facts)
    wake_lanes(connection, woken, now=now)
    return len(arrived)


def _discover(
    cursor: psycopg.Cursor[Any], references: dict[Key, Named], *, worker: uuid.UUID, now: dt.datetime
) -> Set[int]:
    """Insert or change the documents to which these references lead; return the lanes with due documents."""
    found = lock_documents(cursor, runs_below_which_rows_change(references), worker=worker)
    plan = FlushPlan(now=now)
    for key, named in references.items():
        if key not in found.unchanging:
            plan.reference(key, named, found.rows.get(key), ended=None)
    nothing_more = History(now=now, is_kept=False).parameters()
    inserted = {(row.hash.hex, row.job_id) for row in cursor.execute(WRITE, plan.parameters() | nothing_more)}
    beaten = [new for new in plan.new if (new.hash, new.job_id) not in inserted]
    if beaten:
        merge_concurrent_inserts(cursor, beaten=beaten, references=references, worker=worker, now=now)
    return plan.woken


def _lanes_of(
    connection: psycopg.Connection[Any], wanted: set[tuple[int, str]], *, bins: BinKind
) -> dict[tuple[int, str], int]:
    """Return the lanes of these (seed, bin name) pairs. Most lanes exist already, and are only read."""
    lanes = find_lanes(connection, bins=bins, wanted=wanted)
    absent = wanted - lanes.keys()
    return lanes | open_lanes(connection, bins=bins, wanted=absent) if absent else lanes


def _nearest(
    arrived: Sequence[Any], lanes: dict[tuple[int, str], int], *, job_id: int, run_no: int
) -> dict[Key, Named]:
    """Return the references by document, each with its least depth."""
    plain = JobFacts(
        id=job_id, run_no=run_no, repository=0, tracks_depth=False, max_depth=None, has_budget=False, outputs=()
    )
    jobs = {False: plain, True: replace(plain, tracks_depth=True)}
    references: dict[Key, Named] = {}
    for row in arrived:
        key = (row.hash.hex, job_id)
        known = references.get(key)
        if known is not None and known.depth <= row.depth:
            continue
        references[key] = Named(
            jobs[row.tracks_depth],
            row.identifier,
            lanes[row.seed_id, row.bin],
            row.depth,
            row.redirects,
            is_target=False,
            source=row.found_on.hex,
        )
    return references


def _send_on(cursor: psycopg.Cursor[Any], moved: Sequence[tuple[str, int, str]], facts: dict[str, Any]) -> None:
    """Send references on to the partitions that have their hosts now."""
    if moved:
        sources, numbers, targets = zip(*moved, strict=True)
        rows = {"sources": list(sources), "numbers": list(numbers), "targets": list(targets)}
        cursor.execute(_SEND_ON, {**facts, **rows})


def _settle(cursor: psycopg.Cursor[Any], arrived: Sequence[Any], facts: dict[str, Any]) -> None:
    """
    Store the redirects of the applied rows, delete these rows, and add them to the number of applied references of each
    source partition.
    """
    by_source = Counter(row.source for row in arrived)
    applied = {"sources": [row.source for row in arrived], "numbers": [row.number for row in arrived]}
    if any(row.redirects for row in arrived):
        store_carried(cursor, {**facts, **applied})
    cursor.execute(_DELETE, applied)
    cursor.execute(_COUNT, {**facts, "sources": list(by_source), "amounts": list(by_source.values())})
