"""
Restoration of a run's removals: rows of the queue, links, records and texts, a chunk at a time, without a request.

An operator requests it (`Restoration`), and any worker or command executes it. Each chunk is one transaction that
deletes its tombstones, so a document is restored once, even if a process is killed. A document that was read again
meanwhile stays as it is.
"""

import datetime as dt
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.metadata import read_stored
from jobs.connectors.output.base import Entry, Output, OutputError, Recalls
from jobs.connectors.output.registry import StoredOutput
from jobs.connectors.repository import registry
from jobs.connectors.repository.access import Access
from jobs.connectors.repository.base import Content, Ending, hash_of, part_address
from jobs.connectors.repository.missing import MISSING_BINS
from jobs.connectors.schema import BadSpecification
from jobs.lifecycle.document import Stage
from jobs.lifecycle.job import Kind, Phase
from jobs.models import Outcome
from jobs.partitions.this_partition import placement_of_hosts
from jobs.queue.discover import open_lanes
from jobs.queue.flushing.recrawl import Intervals
from jobs.queue.flushing.refusals import forget_refusals
from jobs.queue.removing.tombstones import PART_LEFT, REFUSED
from jobs.queue.sql.retrying import retried
from jobs.queue.sql.rows import named_rows
from jobs.queue.wake import wake_job

# Number of documents in a chunk.
_AT_ONCE: Final = 500

# A cheap test before the claim, since a restoration is rare.
_IS_THERE: Final[LiteralString] = "SELECT EXISTS (SELECT FROM jobs_restoration WHERE ended_at IS NULL)"
# Locks: Restoration, skipping one that another process works on.
_CLAIM: Final[LiteralString] = """
SELECT id, job_id, run_no, since, cause, output_id, restored FROM jobs_restoration
 WHERE ended_at IS NULL AND id <> ALL(%(apart_from)s)
 ORDER BY id LIMIT 1
   FOR NO KEY UPDATE SKIP LOCKED
"""
# Locks: Job.
_JOB: Final[LiteralString] = """
SELECT job.id, job.run_no, job.phase, job.kind, job.recrawl_after, job.expire_after, repository.connector,
       job.hop_limits <> '{}' OR job.carries AS reads_whole, clock_timestamp() AS now,
       EXISTS (SELECT FROM jobs_partitionedjob AS known WHERE known.job_id = job.id) AS is_partitioned,
       ARRAY(SELECT outputconnection_id FROM jobs_job_outputs AS link WHERE link.job_id = job.id) AS outputs
  FROM jobs_job AS job JOIN jobs_repositoryconnection AS repository ON repository.id = job.repository_id
 WHERE job.id = %(job)s AND job.phase NOT IN ('ready_for_delete', 'delete_starting_up', 'deleting', 'ready_for_delete_notify',
                                              'notifying_of_deletion')
   FOR SHARE OF job
"""
# All tombstones of the next documents. If a document was removed twice, its newest tombstone applies.
_NEXT: Final[LiteralString] = """
SELECT DISTINCT ON (stone.hash, stone.output_id, stone.part) stone.*,
       (SELECT jsonb_agg(jsonb_build_array(level, allow, deny) ORDER BY place) FROM jobs_searchaccess WHERE digest = stone.access)
       AS access_levels
  FROM jobs_tombstone AS stone
 WHERE stone.job_id = %(job)s AND stone.run_no = %(run)s AND (%(output)s::bigint IS NULL OR stone.output_id = %(output)s)
   AND stone.hash IN (SELECT hash FROM jobs_tombstone
                       WHERE job_id = %(job)s AND run_no = %(run)s AND (%(output)s::bigint IS NULL OR output_id = %(output)s)
                         AND (%(since)s::timestamptz IS NULL OR removed_at >= %(since)s) AND (%(cause)s = '' OR cause = %(cause)s)
                       ORDER BY hash LIMIT %(most)s)
 ORDER BY stone.hash, stone.output_id, stone.part, stone.removed_at DESC
"""
_LANES: Final[LiteralString] = "SELECT id FROM jobs_lane WHERE id = ANY(%(lanes)s)"
_SEEDS: Final[LiteralString] = "SELECT id FROM jobs_seed WHERE job_id = %(job)s ORDER BY id"
# Locks: QueueItem by hash.
_HOLD: Final[LiteralString] = """
SELECT item.hash FROM jobs_queueitem AS item
 WHERE item.job_id = %(job)s AND item.hash = ANY(%(hashes)s::uuid[])
 ORDER BY item.hash
   FOR NO KEY UPDATE
"""
# If a row exists, its document was removed by its source or by hop limits. The row stays in its run, and gets its links
# back. Locks: the rows that it inserts, by hash; the others are held.
_PUT_BACK: Final[LiteralString] = f"""
WITH stone AS MATERIALIZED (
    SELECT DISTINCT ON (stone.hash) stone.*, given.lane_id AS lane
      FROM unnest(%(hashes)s::uuid[], %(lanes)s::bigint[]) AS given(hash, lane_id)
      JOIN jobs_tombstone AS stone ON stone.hash = given.hash AND stone.job_id = %(job)s AND stone.run_no = %(run)s
           AND (%(output)s::bigint IS NULL OR stone.output_id = %(output)s)
     ORDER BY stone.hash, stone.part <> '', stone.removed_at DESC
), absent AS (
    INSERT INTO jobs_queueitem (hash, job_id, lane_id, identifier, stage, indexed_before, rescan, run_no, action, depth, redirects,
                                outcome, result_code, version, validators, fetched_at, changed_at, check_time)
    SELECT hash, %(job)s, lane, identifier, {Stage.DONE:d}, true, false, least(item_run, %(job_run)s), %(action)s, depth, redirects,
           CASE WHEN outcome = {Outcome.NONE:d} THEN {Ending.UNCHANGED:d} ELSE outcome END, result_code,
           CASE WHEN %(reads_whole)s THEN '' ELSE version END, CASE WHEN %(reads_whole)s THEN '' ELSE validators END,
           fetched_at, changed_at, %(check_time)s::timestamptz
      FROM stone ORDER BY hash
    ON CONFLICT (hash, job_id) DO NOTHING
    RETURNING hash, lane_id, run_no, outcome, result_code
), outside AS (
    SELECT item.hash, item.lane_id, item.run_no, item.outcome, item.result_code
      FROM stone JOIN jobs_queueitem AS item ON item.hash = stone.hash AND item.job_id = %(job)s
     WHERE item.stage = {Stage.HOPCOUNT_REMOVED:d} AND NOT item.indexed_before
), again AS (
    UPDATE jobs_queueitem AS item
       SET indexed_before = true, validators = '', version = CASE WHEN %(reads_whole)s THEN '' ELSE stone.version END,
           stage = CASE WHEN item.stage = {Stage.HOPCOUNT_REMOVED:d} THEN {Stage.DONE:d} ELSE item.stage END
      FROM stone
     WHERE item.hash = stone.hash AND item.job_id = %(job)s AND NOT item.indexed_before
    RETURNING item.hash
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT %(job)s, lane_id, run_no, 'stage', {Stage.DONE:d}, outcome, result_code, count(*)
      FROM (SELECT * FROM absent UNION ALL SELECT * FROM outside) AS put GROUP BY lane_id, run_no, outcome, result_code
     UNION ALL
    SELECT %(job)s, lane_id, run_no, 'stage', {Stage.HOPCOUNT_REMOVED:d}, 0, '', -count(*) FROM outside GROUP BY lane_id, run_no
), linked AS (
    INSERT INTO jobs_outlinks AS links (hash, job_id, targets, is_redirect)
    SELECT hash, %(job)s, targets, is_redirect FROM stone
     WHERE targets IS NOT NULL AND hash IN (SELECT hash FROM absent UNION ALL SELECT hash FROM again)
    ON CONFLICT (hash, job_id) DO UPDATE SET targets = excluded.targets, is_redirect = excluded.is_redirect, lost = NULL
     WHERE links.targets = '{{}}'
)
SELECT hash FROM absent UNION ALL SELECT hash FROM again
"""
# Locks: the rows that it inserts, by (output, hash). A document that an output has again is newer, and stays.
_RECORD: Final[LiteralString] = """
INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at, parent, part)
SELECT output_id, hash, version, %(now)s, parent, part
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[], %(versions)s::text[], %(parents)s::uuid[], %(parts)s::text[])
       AS added(output_id, hash, version, parent, part)
 WHERE parent IS NULL OR EXISTS (SELECT FROM jobs_indexeddocument AS held
                                  WHERE held.output_id = added.output_id AND held.hash = added.parent)
 ORDER BY output_id, hash
ON CONFLICT (output_id, hash) DO NOTHING
RETURNING output_id, hash
"""
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_tombstone
 WHERE job_id = %(job)s AND run_no = %(run)s AND hash = ANY(%(hashes)s::uuid[])
   AND (%(output)s::bigint IS NULL OR output_id = %(output)s)
"""
# The documents that the output already has again. Used to restore an operator's removal from an output, which changed
# no rows of the queue.
_HELD_AGAIN: Final[LiteralString] = """
SELECT hash FROM jobs_indexeddocument WHERE output_id = %(output)s AND hash = ANY(%(hashes)s::uuid[])
"""
_OUTPUTS: Final[LiteralString] = (
    "SELECT id, connector, configuration, is_confined FROM jobs_outputconnection WHERE id = ANY(%(outputs)s)"
)
_GO_ON: Final[LiteralString] = """
UPDATE jobs_restoration SET restored = restored + %(restored)s, unread = unread + %(unread)s, refused = '' WHERE id = %(id)s
"""
_END: Final[LiteralString] = """
UPDATE jobs_restoration SET ended_at = clock_timestamp(), refused = %(why)s WHERE id = %(id)s
"""
_REFUSED: Final[LiteralString] = "UPDATE jobs_restoration SET refused = %(why)s WHERE id = %(id)s"


@dataclass(frozen=True, slots=True)
class Restored:
    """
    The result of one chunk. `restoration` is None if no restoration is requested. `refused` is the reason why the
    restoration cannot continue now.
    """

    restoration: int | None = None
    documents: int = 0
    refused: str = ""


@retried
def restore_some(
    connection: psycopg.Connection[Any],
    *,
    opens: Callable[[StoredOutput], Output],
    apart_from: frozenset[int] = frozenset(),
) -> Restored:
    """
    Restore the next documents of a restoration that an operator requested, except for the restorations in `apart_from`.
    """
    row = connection.execute(_IS_THERE).fetchone()
    if row is None or not row[0]:
        return Restored()
    wanted: Any = None
    try:
        with connection.transaction(), named_rows(connection) as cursor:
            wanted = cursor.execute(_CLAIM, {"apart_from": list(apart_from)}).fetchone()
            if wanted is None:
                return Restored()
            return _restore(connection, cursor, wanted, opens)
    except (OutputError, BadSpecification) as refused:
        connection.execute(_REFUSED, {"id": wanted.id, "why": str(refused)})
        return Restored(wanted.id, refused=str(refused))


def _restore(
    connection: psycopg.Connection[Any],
    cursor: psycopg.Cursor[Any],
    wanted: Any,
    opens: Callable[[StoredOutput], Output],
) -> Restored:
    job: Any = cursor.execute(_JOB, {"job": wanted.job_id}).fetchone()
    if job is None:
        cursor.execute(_END, {"id": wanted.id, "why": f"There is no job {wanted.job_id}, or it is being deleted."})
        return Restored(wanted.id)
    if job.phase == Phase.SHUTTING_DOWN:
        # The running removal would remove the restored documents again.
        return Restored(wanted.id, refused="The job is removing documents. The restoration starts when that has ended.")
    of_run = {"job": job.id, "run": wanted.run_no, "output": wanted.output_id, "now": job.now}
    tombstones = cursor.execute(
        _NEXT, {**of_run, "since": wanted.since, "cause": wanted.cause, "most": _AT_ONCE}
    ).fetchall()
    if not tombstones:
        cursor.execute(_END, {"id": wanted.id, "why": ""})
        if job.phase == Phase.ACTIVE:
            wake_job(connection, job_id=job.id, now=job.now)
        return Restored(wanted.id)
    every = list({tombstone.hash for tombstone in tombstones})
    placement = placement_of_hosts(connection) if job.is_partitioned else None
    if placement is not None:
        # A document of a host that has moved to another partition is not restored here. The other partition finds it
        # again when it crawls.
        tombstones = [tombstone for tombstone in tombstones if placement.foreign(tombstone.bin_name) is None]
    # A part that its document lost gets no lane, because a part has no row in the queue.
    lanes = _lanes_of(connection, cursor, job, [stone for stone in tombstones if stone.cause != PART_LEFT])
    hashes = list(lanes)
    cursor.execute(_HOLD, {**of_run, "hashes": hashes})
    put_back = {
        row.hash
        for row in cursor.execute(
            _PUT_BACK,
            {
                **of_run,
                "hashes": hashes,
                "lanes": list(lanes.values()),
                "job_run": job.run_no,
                "reads_whole": job.reads_whole,
                **_next_look(job),
            },
        )
    }
    if wanted.output_id is not None:
        put_back = set(hashes) - {row.hash for row in cursor.execute(_HELD_AGAIN, {**of_run, "hashes": hashes})}
    # A document that a stage refused for one output may still be in other outputs of its job, and has a row in the
    # queue. So it counts as put back.
    refused = [tombstone for tombstone in tombstones if tombstone.cause == REFUSED]
    if refused:
        put_back |= {tombstone.hash for tombstone in refused}
        given = {"outputs": [tombstone.output_id for tombstone in refused], "hashes": [one.hash for one in refused]}
        forget_refusals(cursor, job.id, given)
    left = [
        tombstone
        for tombstone in tombstones
        if (tombstone.hash in put_back or tombstone.cause == PART_LEFT)
        and tombstone.left_output
        and tombstone.output_id in job.outputs
    ]
    written = _write(cursor, left, opens, now=job.now)
    cursor.execute(_FORGET, {**of_run, "hashes": every})
    unread = len({tombstone.hash for tombstone in left} & put_back - written)
    cursor.execute(_GO_ON, {"id": wanted.id, "restored": len(put_back) - unread, "unread": unread})
    return Restored(wanted.id, len(put_back))


def _next_look(job: Any) -> dict[str, object]:
    """Return the time and kind of the next action for a restored document of a continuous job."""
    intervals = Intervals(job.recrawl_after, None, job.expire_after) if job.kind == Kind.CONTINUOUS else Intervals()
    check_time, action = intervals.next_look(now=job.now, changed_at=job.now)
    return {"check_time": check_time, "action": int(action)}


def _lanes_of(
    connection: psycopg.Connection[Any], cursor: psycopg.Cursor[Any], job: Any, tombstones: Sequence[Any]
) -> dict[uuid.UUID, int]:
    """Return the lane of each document, in the order of hashes. The lanes of a deleted job are created again."""
    there = {row.id for row in cursor.execute(_LANES, {"lanes": [tombstone.lane_id for tombstone in tombstones]})}
    lost = [tombstone for tombstone in tombstones if tombstone.lane_id not in there]
    made: dict[tuple[int, str], int] = {}
    seeds = [row.id for row in cursor.execute(_SEEDS, {"job": job.id})] if lost else []
    if lost:
        kind = registry.installed().get(job.connector)
        wanted = {
            (tombstone.seed_id if tombstone.seed_id in seeds else seeds[0], tombstone.bin_name) for tombstone in lost
        }
        made = open_lanes(connection, bins=kind.bins if kind else MISSING_BINS, wanted=wanted)
    lanes = {}
    for tombstone in tombstones:
        if tombstone.lane_id in there:
            lanes[tombstone.hash] = tombstone.lane_id
        else:
            lanes[tombstone.hash] = made[
                tombstone.seed_id if tombstone.seed_id in seeds else seeds[0], tombstone.bin_name
            ]
    return lanes


def _write(
    cursor: psycopg.Cursor[Any], tombstones: Sequence[Any], opens: Callable[[StoredOutput], Output], *, now: dt.datetime
) -> set[uuid.UUID]:
    """
    Give each output its removed texts; return the documents whose outputs all have their texts now.

    An output gets a part only if it has the document.
    """
    texts = {_key_of(tombstone): tombstone for tombstone in tombstones if _has_text(tombstone)}
    stored = cursor.execute(_OUTPUTS, {"outputs": list({tombstone.output_id for tombstone in tombstones})}).fetchall()
    # Outputs that cannot be rolled back come last, as in a flush.
    outputs = sorted(map(opens, stored), key=lambda output: not output.is_transactional)
    given = {
        output.id: _entries(output, [tombstone for tombstone in tombstones if tombstone.output_id == output.id], texts)
        for output in outputs
    }
    recorded = _record(cursor, [(output, entry, stone) for output in given for entry, stone in given[output]], now=now)
    for output in outputs:
        entries = [entry for entry, _ in given[output.id] if (output.id, entry.hash) in recorded]
        if entries:
            output.add_or_replace(cursor, entries)
    found = {(output, entry.hash) for output, entries in given.items() for entry, _ in entries}
    missing = {stone.hash for stone in tombstones if (stone.output_id, _key_of(stone)) not in found}
    return {tombstone.hash for tombstone in tombstones} - missing


def _key_of(tombstone: Any) -> str:
    """Return the hash of a removed document or part."""
    hash_: str = tombstone.hash.hex
    return hash_of(_address_of(tombstone)) if tombstone.part else hash_


def _address_of(tombstone: Any) -> str:
    address: str = tombstone.identifier
    return part_address(address, tombstone.part) if tombstone.part else address


def _entries(output: Output, tombstones: Sequence[Any], texts: Mapping[str, Any]) -> list[tuple[Entry, Any]]:
    """Return the documents and parts that this output gets again, each with its tombstone."""
    by_key = {_key_of(tombstone): tombstone for tombstone in tombstones}
    # A log reads its own lines again, because the text of another output may differ from its lines.
    recalled = (
        output.recall({key: _address_of(tombstone) for key, tombstone in by_key.items()})
        if isinstance(output, Recalls)
        else ()
    )
    entries = {entry.hash: entry for entry in recalled}
    for key, tombstone in by_key.items():
        if key not in entries and key in texts:
            entries[key] = _entry_of(key, tombstone, texts[key])
    return [(entry, by_key[key]) for key, entry in entries.items()]


def _has_text(tombstone: Any) -> bool:
    """True if a tombstone has a text, with its access if it is protected."""
    return tombstone.text is not None and (tombstone.access is None or bool(tombstone.access_levels))


def _entry_of(key: str, tombstone: Any, text: Any) -> Entry:
    address = _address_of(tombstone)
    content = Content(
        url=address,
        title=text.title,
        description=text.description,
        text=text.text,
        content_type=text.content_type,
        language=text.language,
        access=Access.from_levels(text.access_levels or ()),
        metadata=read_stored(text.metadata),
    )
    return Entry(key, address, content, tombstone.version, text.text_fetched_at)


def _record(
    cursor: psycopg.Cursor[Any], given: Sequence[tuple[int, Entry, Any]], *, now: dt.datetime
) -> set[tuple[int, str]]:
    """
    Record these entries, each with its output and tombstone; return the newly recorded entries by output and hash.
    """
    recorded: set[tuple[int, str]] = set()
    # Documents first: a part needs the record of its document.
    for are_parts in (False, True):
        rows = [row for row in given if bool(row[2].part) == are_parts]
        if not rows:
            continue
        facts = {
            "now": now,
            "outputs": [output for output, _, _ in rows],
            "hashes": [entry.hash for _, entry, _ in rows],
            "versions": [stone.version for _, _, stone in rows],
            "parents": [stone.hash if are_parts else None for _, _, stone in rows],
            "parts": [stone.part for _, _, stone in rows],
        }
        recorded |= {(row.output_id, row.hash.hex) for row in cursor.execute(_RECORD, facts)}
    return recorded
