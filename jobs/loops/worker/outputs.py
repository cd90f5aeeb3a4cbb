"""
The effects of documents on the outputs of their jobs: writes to the outputs, and their records.

`IndexedDocument` records which version of a document each output has. Jobs may share an output. A document that one job
no longer finds stays there as long as another job keeps it. So a transaction locks the row of a document before it
decides whether another job keeps the document. A transaction locks all the rows that it needs in the order of (output,
hash), after the rows of the queue. The other jobs that keep a document are read in a later statement, because a
statement takes its snapshot before it waits for a lock.

Unchanged documents are not written here. The worker found such a document unchanged because every output had exactly
its version, and no other job can remove the document while this job keeps it.
"""

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.output.base import Entry
from jobs.connectors.repository.base import Ending, Parts
from jobs.loops.worker.opened_outputs import OpenedOutputs
from jobs.models.document import DOUBTED
from jobs.queue.flushing.flush import OutputWriter
from jobs.queue.flushing.history import Departure
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.flushing.parts import (
    Changes,
    Given,
    Key,
    change_parts,
    columns_of_keys,
    forget_documents,
    forget_parts,
)
from jobs.queue.flushing.refusals import refusals_of, replace_refusals
from jobs.queue.removing import tombstones
from jobs.queue.removing.tombstones import PART_LEFT
from jobs.queue.take import Claimed
from jobs.settings.table import KEEP_REMOVED
from nodes.settings.running import current

# Locks: IndexedDocument by (output, hash), existing rows.
_HOLD: Final[LiteralString] = """
SELECT held.output_id, held.hash
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS wanted(output_id, hash)
  JOIN jobs_indexeddocument AS held ON held.output_id = wanted.output_id AND held.hash = wanted.hash
 ORDER BY held.output_id, held.hash
   FOR NO KEY UPDATE OF held
"""

# Documents that another job keeps in the same output, except documents that leave it in this transaction.
_KEPT: Final[LiteralString] = """
SELECT DISTINCT wanted.output_id, wanted.hash
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS wanted(output_id, hash)
  JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.indexed_before
  JOIN jobs_job_outputs AS link ON link.job_id = item.job_id AND link.outputconnection_id = wanted.output_id
 WHERE NOT EXISTS (SELECT FROM jobs_pipelinerefusal AS refusal
                    WHERE refusal.job_id = item.job_id AND refusal.hash = item.hash AND refusal.output_id = wanted.output_id)
   AND (item.hash, item.job_id, wanted.output_id)
       NOT IN (SELECT * FROM unnest(%(leaving_hashes)s::uuid[], %(leaving_jobs)s::bigint[], %(leaving_outputs)s::bigint[]))
"""

# Documents that an output may have according to their job, although they are in no record: their claim was lost with
# its worker. Later changes of the document do not matter.
_PERHAPS_HELD: Final[LiteralString] = """
SELECT item.hash, item.job_id
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS leaving(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = leaving.hash AND item.job_id = leaving.job_id
 WHERE item.indexed_before
"""

# Returns the documents that have parts in an output.
# Locks: IndexedDocument by (output, hash).
_RECORD: Final[LiteralString] = """
WITH added AS MATERIALIZED (
    SELECT output_id, hash, version, read_version
      FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[], %(versions)s::text[], %(reads)s::text[])
           AS added(output_id, hash, version, read_version)
), recorded AS (
    INSERT INTO jobs_indexeddocument (output_id, hash, version, read_version, indexed_at)
    SELECT output_id, hash, version, read_version, %(now)s FROM added
     ORDER BY output_id, hash
    ON CONFLICT (output_id, hash) DO UPDATE
       SET version = excluded.version, read_version = excluded.read_version, indexed_at = excluded.indexed_at
)
SELECT held.output_id, held.hash
  FROM added AS held
 CROSS JOIN LATERAL (SELECT FROM jobs_indexeddocument AS part
                      WHERE part.parent = held.hash AND part.output_id = held.output_id LIMIT 1) AS any_part
"""

# Confirms documents for which a pipeline made the content that the output already has. The output gets no write. Locks:
# none. The caller holds the rows.
_CONFIRM: Final[LiteralString] = """
UPDATE jobs_indexeddocument AS held SET read_version = given.read_version
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[], %(versions)s::text[], %(reads)s::text[])
       AS given(output_id, hash, version, read_version)
  JOIN jobs_outputconnection AS output ON output.id = given.output_id
 WHERE held.output_id = given.output_id AND held.hash = given.hash AND held.version = given.version
   AND (output.trusted_from IS NULL OR held.indexed_at >= output.trusted_from) AND held.read_version <> %(doubted)s
RETURNING held.output_id, held.hash,
          EXISTS (SELECT FROM jobs_indexeddocument AS part
                   WHERE part.parent = held.hash AND part.output_id = held.output_id) AS has_parts
"""


@dataclass(frozen=True, slots=True)
class _Leaving:
    """A document without a text for any output of its job, or only for these `outputs`, because a stage refused it."""

    hash: str
    url: str
    job: JobFacts
    lane_id: int
    outputs: tuple[int, ...] | None = None

    @property
    def keys(self) -> list[Key]:
        return [(output, self.hash) for output in (self.job.outputs if self.outputs is None else self.outputs)]


class JobOutputs(OutputWriter):
    """
    Writes documents to the outputs of their jobs and removes them from there, inside the transaction of a flush or a
    removal.
    """

    def __init__(self, *, cause: str = "") -> None:
        """`cause` is the cause in tombstones, if an operator ordered the removals."""
        self._cause = cause
        self._opened = OpenedOutputs()

    def write(self, cursor: psycopg.Cursor[Any], *, results: Sequence[Result], now: dt.datetime) -> Sequence[Departure]:
        """
        Write the results of these documents; return the documents that left an output.

        A document that failed stays in its outputs unless its source reported its removal.

        Raises:
            OutputError: an output refused them; the transaction must be rolled back.
        """
        self._opened.notice_changes((result.claimed, result.job) for result in results)
        self._opened.notice_losses(cursor, (result.job for result in results))
        added: dict[Key, Entry] = {}
        parts: dict[Key, Parts] = {}
        leaving: list[_Leaving] = []
        self.unwritten = set()
        reads: dict[Key, str] = {}
        for result in results:
            document, outcome = result.claimed.document, result.outcome
            if outcome.deliveries is not None:
                made, refused = _divided(result, now=now)
                added.update(made)
                parts.update((key, outcome.deliveries[key[0]].parts) for key in made)
                reads.update(dict.fromkeys(made, outcome.version))
                leaving += refused
            elif outcome.ending == Ending.INDEXED and outcome.content is not None:
                entry = Entry(document.hash, document.identifier, outcome.content, outcome.version, now)
                added.update(((output, document.hash), entry) for output in result.job.outputs)
                if outcome.parts or parts:
                    parts.update(((output, document.hash), outcome.parts) for output in result.job.outputs)
                if reads:
                    # This content may replace the one that the pipeline of another job made of the same document in
                    # this flush.
                    reads = {key: version for key, version in reads.items() if added[key] is not entry}
            elif outcome.removes:
                leaving.append(_Leaving(document.hash, document.identifier, result.job, result.claimed.lane_id))
        jobs = {result.claimed.document.hash: result.job for result in results}
        departures = self._apply(cursor, added=added, leaving=leaving, reads=reads, parts=parts, jobs=jobs, now=now)
        # Refusals are replaced last: until here, the earlier ones decide which other jobs keep a document.
        refusing = [result for result in results if result.job.has_refusals and result.outcome.ending.is_final]
        if refusing:
            read = [result for result in refusing if result.outcome.deliveries is not None or _is_decided(result)]
            replace_refusals(
                cursor,
                [(result.job.id, result.claimed.document.hash) for result in read],
                [refusal for result in read for refusal in refusals_of(result)],
                now=now,
            )
        return departures

    def remove(
        self,
        cursor: psycopg.Cursor[Any],
        *,
        claims: Sequence[Claimed],
        jobs: Mapping[int, JobFacts],
        now: dt.datetime,
    ) -> Sequence[Departure]:
        """
        Remove documents from the outputs of their jobs; return the documents that left an output.

        Raises:
            OutputError: an output refused the removal; the transaction must be rolled back.
        """
        self._opened.notice_changes((claim, jobs[claim.job_id]) for claim in claims)
        leaving = [
            _Leaving(claim.document.hash, claim.document.identifier, jobs[claim.job_id], claim.lane_id)
            for claim in claims
        ]
        departures = self._apply(cursor, added={}, leaving=leaving, now=now)
        refusing = [(document.job.id, document.hash) for document in leaving if document.job.has_refusals]
        if refusing:
            replace_refusals(cursor, refusing, (), now=now)
        return departures

    def _apply(
        self,
        cursor: psycopg.Cursor[Any],
        *,
        added: dict[Key, Entry],
        leaving: list[_Leaving],
        now: dt.datetime,
        reads: Mapping[Key, str] = MappingProxyType({}),
        parts: Mapping[Key, Parts] = MappingProxyType({}),
        jobs: Mapping[str, JobFacts] = MappingProxyType({}),
    ) -> Sequence[Departure]:
        # A document that this flush adds stays.
        candidates = {key for document in leaving for key in document.keys} - added.keys()
        if not added and not candidates:
            return ()
        self._opened.open(cursor, {output for output, _ in added.keys() | candidates})
        gone: set[Key] = set()
        corrected: set[Key] = set()
        held: set[Key] = set()
        if candidates or reads:
            held = _keys(cursor.execute(_HOLD, columns_of_keys(added.keys() | candidates)))
        all_parts = {key: Given(added[key].url, named) for key, named in parts.items() if named}
        if reads:
            facts = {"reads": [reads[key] for key in sorted(reads)]}
            versions = [added[key].version for key in sorted(reads)]
            confirmed = cursor.execute(
                _CONFIRM, {**columns_of_keys(reads), **facts, "versions": versions, "doubted": DOUBTED}
            ).fetchall()
            self.unwritten = _keys(confirmed)
            for key in _keys(row for row in confirmed if row.has_parts):
                all_parts.setdefault(key, Given(added[key].url))
        written = {key: entry for key, entry in added.items() if key not in self.unwritten}
        if candidates:
            free = candidates - _kept(cursor, candidates, leaving)
            gone = free & held
            corrected = self._possibly_logged(cursor, free - held, leaving)
            self._store_tombstones(cursor, leaving, held=held & candidates, gone=gone, now=now)
        if written:
            versions = [written[key].version for key in sorted(written)]
            read_versions = [reads.get(key, "") for key in sorted(written)]
            facts = {**columns_of_keys(written), "versions": versions, "reads": read_versions}
            for key in _keys(cursor.execute(_RECORD, {**facts, "now": now})):
                all_parts.setdefault(key, Given(added[key].url))
        urls = {document.hash: document.url for document in leaving}
        removed = {key: Entry(key[1], urls[key[1]], None, "", now) for key in gone | corrected}
        if gone:
            removed |= forget_documents(cursor, gone, urls, now=now)
        if all_parts:
            changes = change_parts(cursor, all_parts, now=now)
            written |= changes.added
            removed |= _forget_lost_parts(cursor, changes, jobs, now=now)
        self._record(cursor, added=written, removed=removed)
        return [
            Departure(document.job.id, document.lane_id, output, document.hash, document.url)
            for document in leaving
            for output, key in document.keys
            if (output, key) in gone
        ]

    def files(self) -> list[Path]:
        """Return the files of this machine that the outputs in use write."""
        return self._opened.files()

    def _store_tombstones(
        self, cursor: psycopg.Cursor[Any], leaving: list[_Leaving], *, held: set[Key], gone: set[Key], now: dt.datetime
    ) -> None:
        """Keep removed texts for the days of the setting, also if another job keeps the document in the output."""
        if not held or not current()[KEEP_REMOVED]:
            return
        tombstones.store(
            cursor,
            [
                tombstones.Removed(
                    document.job.id,
                    document.job.run_no,
                    key[0],
                    key[1],
                    key in gone,
                    self._cause or (tombstones.REFUSED if document.outputs is not None else ""),
                )
                for document in leaving
                for key in document.keys
                if key in held
            ],
            now=now,
        )

    def _possibly_logged(self, cursor: psycopg.Cursor[Any], absent: set[Key], leaving: list[_Leaving]) -> set[Key]:
        """
        Return documents without a record that a log may still contain: its writer died between the line and the
        commit.
        """
        logged = {key for key in absent if not self._opened[key[0]].is_transactional}
        documents = [document for document in leaving if not logged.isdisjoint(document.keys)]
        if not documents:
            return set()
        facts = {
            "hashes": [document.hash for document in documents],
            "jobs": [document.job.id for document in documents],
        }
        perhaps = {row.hash.hex for row in cursor.execute(_PERHAPS_HELD, facts)}
        return {key for key in logged if key[1] in perhaps}

    def _record(self, cursor: psycopg.Cursor[Any], *, added: Mapping[Key, Entry], removed: Mapping[Key, Entry]) -> None:
        # Outputs that cannot be rolled back come last, because no other output can refuse after them.
        changed = sorted({output for output, _ in added.keys() | removed.keys()})
        for output in sorted((self._opened[key] for key in changed), key=lambda output: not output.is_transactional):
            given = [entry for (target, _), entry in added.items() if target == output.id]
            taken = [entry for (target, _), entry in removed.items() if target == output.id]
            if given:
                output.add_or_replace(cursor, given)
            if taken:
                output.remove(cursor, taken)


def _divided(result: Result, *, now: dt.datetime) -> tuple[dict[Key, Entry], list[_Leaving]]:
    """
    Return the contents that a pipeline made for the outputs, and, if stages refuse the document for some outputs, its
    removal from these outputs.
    """
    document, deliveries = result.claimed.document, result.outcome.deliveries or {}
    made: dict[Key, Entry] = {}
    leaves: list[int] = []
    for output in result.job.outputs:
        delivery = deliveries.get(output)
        if delivery is None or delivery.failed:
            continue
        if delivery.content is None:
            leaves.append(output)
        else:
            made[output, document.hash] = Entry(
                document.hash, document.identifier, delivery.content, delivery.version, now
            )
    if not leaves:
        return made, []
    return made, [_Leaving(document.hash, document.identifier, result.job, result.claimed.lane_id, tuple(leaves))]


def _kept(cursor: psycopg.Cursor[Any], candidates: set[Key], leaving: list[_Leaving]) -> set[Key]:
    going = [(document.job.id, output, hash_) for document in leaving for output, hash_ in document.keys]
    facts: dict[str, list[Any]] = {
        "leaving_hashes": [hash_ for _, _, hash_ in going],
        "leaving_jobs": [job for job, _, _ in going],
        "leaving_outputs": [output for _, output, _ in going],
    }
    return _keys(cursor.execute(_KEPT, {**columns_of_keys(candidates), **facts}))


def _forget_lost_parts(
    cursor: psycopg.Cursor[Any], changes: Changes, jobs: Mapping[str, JobFacts], *, now: dt.datetime
) -> dict[Key, Entry]:
    """Forget the parts that their documents no longer have, and keep the texts of these parts. Return the parts."""
    if not changes.removed:
        return {}
    if current()[KEEP_REMOVED]:
        stones = [
            tombstones.Removed(
                (job := jobs[parent]).id, job.run_no, output, parent, leaves_output=True, cause=PART_LEFT, part=part
            )
            for (output, part), parent in changes.parents.items()
        ]
        tombstones.store(cursor, stones, now=now)
    forget_parts(cursor, changes.removed)
    return changes.removed


def _is_decided(result: Result) -> bool:
    """
    True if the source, and not a stage, decided which outputs have the document. Earlier refusals of stages are then
    deleted.
    """
    return result.outcome.removes or result.outcome.ending == Ending.INDEXED


def _keys(rows: Iterable[Any]) -> set[Key]:
    return {(row.output_id, row.hash.hex) for row in rows}
