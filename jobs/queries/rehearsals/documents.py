"""
The documents of a job for a rehearsal: their identifiers, their links, and the outputs that hold them.

A rehearsal reads every document of the job once, in a stream, and the links of the documents that stay. For each
document, it keeps a key of 16 bytes and the document's place in memory, and nothing else that grows with the job.
"""

import struct
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence, Set
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from heapq import nsmallest
from itertools import chain
from typing import Any, Final, LiteralString, Protocol

import psycopg

from jobs.connectors.repository.kind import Rules
from jobs.lifecycle.document import Stage
from jobs.queries.rehearsals.comparing import (
    EXAMPLES,
    Group,
    Known,
    Links,
    Place,
    Reached,
    Rejected,
    Sorted,
    find_arrivals,
    follow_links,
    sort_documents,
    within_limits,
)
from jobs.queries.rehearsals.reading_ahead import read_ahead
from jobs.queue.rejected import KEPT
from jobs.queue.sql.arrays import Keys, KeysDumper

# Number of documents in one answer of the database.
_AT_ONCE: Final = 20_000
# Number of documents in one statement. With many documents, the planner reads a table once, and not its index for each
# document.
_OF_A_STATEMENT: Final = 500_000
# Number of documents between two reports of progress. It is low, because a hostile pattern may need a third of a second
# for each document.
_REPORTED: Final = 20
# Number of bytes before the first element of an array as PostgreSQL sends it (one dimension), and the form of an
# element.
_HEAD: Final = 20
_ELEMENT: Final = struct.Struct("!4x16s")

# By default the planner expects that only the first tenth of a stream is read, and chooses a plan for these. A merge
# join would read the whole index in its order, which is slower than the table in its own order.
_FOR_A_WHOLE_STREAM: Final[LiteralString] = """
SELECT set_config('cursor_tuple_fraction', '1', true), set_config('jit', 'off', true),
       set_config('enable_mergejoin', 'off', true)
"""
_DOCUMENTS: Final[LiteralString] = """
SELECT uuid_send(item.hash), item.identifier, item.lane_id + %(shift)s::bigint, item.indexed_before, item.stage = %(beyond)s
  FROM jobs_seed AS seed
  JOIN jobs_lane AS lane ON lane.seed_id = seed.id
  JOIN jobs_queueitem AS item ON item.lane_id = lane.id
 WHERE seed.job_id = %(job)s
"""
_LINKS: Final[LiteralString] = """
SELECT array_send(link.targets), link.is_redirect
  FROM unnest(%(keys)s::uuid[]) AS reached(hash)
  JOIN jobs_outlinks AS link ON link.hash = reached.hash AND link.job_id = %(job)s
"""
_NAMED: Final[LiteralString] = """
SELECT item.identifier
  FROM unnest(%(keys)s::uuid[]) AS left_out(hash)
  JOIN jobs_queueitem AS item ON item.hash = left_out.hash AND item.job_id = %(job)s
"""
_SAMPLE: Final[LiteralString] = """
SELECT uuid_send(hash), identifier, uuid_send(found_on)
  FROM jobs_rejectedaddress WHERE job_id = %(job)s ORDER BY hash LIMIT %(most)s
"""
_ARE_SHARED: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_job_outputs WHERE outputconnection_id = ANY(%(outputs)s::bigint[]) AND job_id <> %(job)s)
"""
_HELD_ALONE: Final[LiteralString] = """
SELECT held.output_id, count(*)
  FROM unnest(%(keys)s::uuid[]) AS leaving(hash)
  JOIN jobs_indexeddocument AS held ON held.hash = leaving.hash AND held.output_id = ANY(%(outputs)s::bigint[])
 GROUP BY held.output_id
"""
# Documents that another job keeps in the same output stay there, by the conditions of a removal.
_HELD: Final[LiteralString] = """
SELECT held.output_id, count(*)
  FROM unnest(%(keys)s::uuid[]) AS leaving(hash)
  JOIN jobs_indexeddocument AS held ON held.hash = leaving.hash AND held.output_id = ANY(%(outputs)s::bigint[])
 WHERE NOT EXISTS (
       SELECT FROM jobs_queueitem AS item
         JOIN jobs_job_outputs AS link ON link.job_id = item.job_id AND link.outputconnection_id = held.output_id
        WHERE item.hash = leaving.hash AND item.job_id <> %(job)s AND item.indexed_before
          AND NOT EXISTS (SELECT FROM jobs_pipelinerefusal AS refusal
                           WHERE refusal.job_id = item.job_id AND refusal.hash = item.hash
                             AND refusal.output_id = held.output_id))
 GROUP BY held.output_id
"""

# A function that is called often, with the number of documents that were read so far. If it raises, the rehearsal ends.
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Arrivals:
    """
    Addresses that would become documents of the job:

    - `found` are rejected addresses of the sample that the rules admit now.
    - `new_forms` are addresses that links have in place of the addresses of documents, and that no document has yet.
    - `within` are known addresses that come within the hop limits.

    If the sample is not whole, `likely` is the estimated number of all these addresses.
    """

    found: Group = field(default_factory=Group)
    new_forms: Group = field(default_factory=Group)
    within: Group = field(default_factory=Group)
    likely: int = 0
    sample: int = 0
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Compared:
    """
    The documents of a job under other rules.

    `documents` are known now. Documents leave for three reasons: `refused` by a rule, `unlinked` because no link leads
    to them any more, or `beyond` a hop limit. `at_the_end` counts documents at the greatest distance from the seeds
    that the rules allow. Their links are unknown. `leaving` counts the documents that leave each output, by its id.
    `before` and `lost` count documents by their places. `arriving` has the addresses of all arrivals of the sample.
    """

    documents: int
    refused: Mapping[str, Group]
    unlinked: Group
    beyond: Group
    arrivals: Arrivals
    at_the_end: int
    leaving: Mapping[int, int]
    before: Mapping[Place, int]
    lost: Mapping[Place, int]
    arriving: Sequence[str]

    @property
    def dropped(self) -> int:
        return sum(group.number for group in (*self.refused.values(), self.unlinked, self.beyond))


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedRules:
    """
    The rules to compare the documents of a job with. `seeds` are the hashes of its seeds.

    If the next run `removes_unreached`, a document leaves if no link leads to it, or only paths beyond the
    `hop_limits`. The rehearsal finds these documents if `can_be_followed`: then the stored links are enough. Documents
    that leave the job leave its `outputs`. All documents leave the outputs that are `taken_away`.
    """

    rules: Rules
    seeds: Set[str]
    removes_unreached: bool
    can_be_followed: bool = True
    hop_limits: Mapping[str, int] = field(default_factory=dict)
    outputs: Sequence[int] = ()
    taken_away: Sequence[int] = ()


def compare(reader: "Reading", changed: ChangedRules) -> Compared:
    """Return the documents of a job under other rules."""
    seeds = {bytes.fromhex(seed) for seed in changed.seeds}
    documents = sort_documents(reader.documents(), changed.rules)
    walk = Reached()
    too_far: Set[bytes] = frozenset()
    if changed.removes_unreached and changed.can_be_followed:
        possible, depth = documents.possible, changed.rules.max_depth
        walk = follow_links(seeds, documents, reader.links_of, max_depth=depth, among=possible)
        if changed.hop_limits:
            linked = possible - walk.left_out
            too_far = linked - within_limits(seeds, documents, reader.links_of, linked, changed.hop_limits)
    not_read = walk.left_out | too_far
    unlinked, beyond = (keys - documents.beyond - documents.new_forms.keys() for keys in (walk.left_out, too_far))
    within = reader.named(documents.beyond - not_read if changed.can_be_followed else ())
    arrivals = _arrivals(reader.sample(), changed.rules, documents, not_read, walk.at_the_end, within)
    left_out = unlinked | beyond
    leaving = reader.held([*documents.refused_keys, *left_out], changed.outputs)
    if changed.taken_away:
        leaving.update(reader.held([*documents.refused_keys, *documents.admitted], changed.taken_away))
    return Compared(
        documents=documents.documents,
        refused=documents.refused,
        unlinked=reader.group(unlinked),
        beyond=reader.group(beyond),
        arrivals=arrivals[0],
        at_the_end=len(walk.at_the_end),
        leaving=leaving,
        before=documents.all_places(),
        lost=documents.lost + documents.places_of(left_out),
        arriving=arrivals[1],
    )


def _arrivals(
    sample: "Sample",
    rules: Rules,
    documents: Sorted,
    not_read: Set[bytes],
    at_the_end: Set[bytes],
    within: Sequence[str],
) -> tuple[Arrivals, list[str]]:
    """Return the arrivals and their identifiers. Arrivals from the sample come first, in the order of hashes."""

    def leads_on(key: bytes) -> bool:
        key = documents.renamed.get(key, key)
        is_read = (key in documents.admitted or key in documents.new_forms) and key not in not_read
        return is_read and key not in at_the_end

    refused = frozenset(documents.refused_keys)
    new_forms = Group()
    arriving = sorted(documents.new_forms.keys() - not_read)
    for key in arriving:
        new_forms.add(documents.new_forms[key].identifier)
    coming = Group()
    for identifier in within:
        coming.add(identifier)
    found = find_arrivals(
        sample.rows,
        rules,
        known=lambda key: key in documents.admitted or key in refused or key in documents.new_forms,
        leads_on=leads_on,
    )
    group = Group()
    for one in found:
        group.add(one.identifier)
    read = len(sample.rows)
    every = read if sample.is_whole else estimate(sample.rows[-1].key, read)
    likely = (round(len(found) * every / read) if read else 0) + new_forms.number + coming.number
    forms = (documents.new_forms[key].identifier for key in arriving)
    identifiers = [*(one.identifier for one in found), *forms, *within]
    return Arrivals(group, new_forms, coming, likely, read, sample.is_whole), identifiers


def estimate(highest: bytes, number: int = KEPT) -> int:
    """
    Return the likely number of all addresses. A sample has the `number` addresses with the lowest hashes, and `highest`
    is the last of these hashes.
    """
    return ((number - 1) << 8 * len(highest)) // max(int.from_bytes(highest), 1)


@dataclass(frozen=True, slots=True)
class Sample:
    """
    Refused addresses in the order of their hashes. If the sample is not whole, further refused addresses with higher
    hashes exist.
    """

    rows: Sequence[Rejected]
    is_whole: bool


class Reading(Protocol):
    """The documents of a job, in one database or in several."""

    def documents(self) -> Iterator[Known]: ...

    def links_of(self, keys: Set[bytes]) -> Iterator[Links]: ...

    def named(self, keys: Collection[bytes]) -> list[str]: ...

    def group(self, keys: Set[bytes]) -> Group: ...

    def held(self, keys: Collection[bytes], outputs: Sequence[int]) -> Counter[int]: ...

    def sample(self) -> Sample: ...


class Reader:
    """
    The statements of a rehearsal in one database, in a transaction, which streams the documents.

    In another partition, `outputs` has the id of each output there, and `shift` is added to the ids of its lanes.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        job: int,
        note: Progress,
        *,
        outputs: Mapping[int, int] | None = None,
        shift: int = 0,
    ) -> None:
        self._connection, self._job, self._note = connection, job, note
        self._outputs, self._shift = outputs, shift
        self._read = 0
        # Not a cursor of Django, because that would send every parameter as a text.
        self._cursor = psycopg.Cursor(connection)
        self._cursor.adapters.register_dumper(Keys, KeysDumper)

    def documents(self) -> Iterator[Known]:
        """Yield the documents of the job."""
        self._cursor.execute(_FOR_A_WHOLE_STREAM)
        for rows in self._stream(_DOCUMENTS, {"beyond": Stage.HOPCOUNT_REMOVED, "shift": self._shift}):
            for start in range(0, len(rows), _REPORTED):
                some = rows[start : start + _REPORTED]
                yield from some
                self._read += len(some)
                self._note(self._read)

    def links_of(self, keys: Set[bytes]) -> Iterator[Links]:
        for rows in self._rows(_LINKS, keys):
            for is_redirect in (False, True):
                together = b"".join([targets[_HEAD:] for targets, redirects in rows if redirects == is_redirect])
                if together:
                    yield Links(chain.from_iterable(_ELEMENT.iter_unpack(together)), is_redirect)

    def named(self, keys: Collection[bytes]) -> list[str]:
        """Return the identifiers of documents, in their order."""
        return sorted(identifier for rows in self._rows(_NAMED, keys) for (identifier,) in rows)

    def group(self, keys: Set[bytes]) -> Group:
        """Return the group of these documents. Its examples are the first documents in the order of keys."""
        return Group(len(keys), list(self.named(nsmallest(EXAMPLES, keys))))

    def held(self, keys: Collection[bytes], outputs: Sequence[int]) -> Counter[int]:
        """Return the number of these documents that would leave each of these outputs, by its id."""
        found: Counter[int] = Counter()
        known = {output: output for output in outputs} if self._outputs is None else self._outputs
        there = {known[output]: output for output in outputs if output in known}
        if there:
            facts = {"job": self._job, "outputs": list(there)}
            is_shared = self._cursor.execute(_ARE_SHARED, facts, binary=True).fetchone() == (True,)
            for rows in self._rows(_HELD if is_shared else _HELD_ALONE, keys, outputs=list(there)):
                for output, number in rows:
                    found[there[output]] += number
        return found

    def sample(self) -> Sample:
        rows = self._cursor.execute(_SAMPLE, {"job": self._job, "most": KEPT}, binary=True).fetchall()
        return Sample([Rejected(*row) for row in rows], is_whole=len(rows) < KEPT)

    def _rows(self, statement: LiteralString, keys: Collection[bytes], **facts: Any) -> Iterator[Sequence[Any]]:
        """Yield the answers of a statement about these documents, some rows at a time."""
        ordered = list(keys)
        for start in range(0, len(ordered), _OF_A_STATEMENT):
            some = Keys(ordered[start : start + _OF_A_STATEMENT])
            for rows in self._stream(statement, {"keys": some, **facts}):
                yield rows
                self._note(self._read)

    def _stream(self, statement: LiteralString, facts: Mapping[str, Any]) -> Iterator[Sequence[Any]]:
        with psycopg.ServerCursor(self._connection, "rehearsed") as cursor:
            cursor.adapters.register_dumper(Keys, KeysDumper)
            cursor.execute(statement, {"job": self._job, **facts}, binary=True)
            with closing(read_ahead(iter(partial(cursor.fetchmany, _AT_ONCE), []))) as chunks:
                yield from chunks
