"""
Parts of documents in outputs, such as attachments and members of archives.

A part is a separate entry in an output. Its address is the address of its document, with the path of the part as the
fragment. The record of a part refers to its document. A transaction that holds the record of a document may change the
parts of this document, too. So a part needs neither a claim nor a fence, and leaves an output together with its
document.

Each statement about records of documents also finds their parts, so documents without parts need no additional
statement.
"""

import datetime as dt
import logging
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.output.base import Entry
from jobs.connectors.repository.base import MOST_PARTS, NO_PARTS, Parts, hash_of, part_address
from jobs.models.document import DOUBTED

logger = logging.getLogger(__name__)

# An output, and the hash of a document or of a part in it.
Key = tuple[int, str]

# Locks: IndexedDocument of parts. The caller holds the IndexedDocument rows of their documents.
_HELD: Final[LiteralString] = f"""
SELECT part.output_id, part.hash, part.parent, part.part,
       CASE WHEN (output.trusted_from IS NULL OR part.indexed_at >= output.trusted_from) AND part.read_version <> '{DOUBTED}'
            THEN part.version ELSE '' END AS version
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS document(output_id, hash)
  JOIN jobs_indexeddocument AS part ON part.parent = document.hash AND part.output_id = document.output_id
  JOIN jobs_outputconnection AS output ON output.id = part.output_id
 ORDER BY part.output_id, part.hash
   FOR NO KEY UPDATE OF part
"""
# Locks: IndexedDocument of parts by (output, hash). The caller holds the IndexedDocument rows of their documents.
_RECORD: Final[LiteralString] = """
INSERT INTO jobs_indexeddocument (output_id, hash, version, indexed_at, parent, part)
SELECT output_id, hash, version, %(now)s, parent, part
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[], %(versions)s::text[], %(parents)s::uuid[], %(parts)s::text[])
       AS added(output_id, hash, version, parent, part)
 ORDER BY output_id, hash
ON CONFLICT (output_id, hash) DO UPDATE
   SET version = excluded.version, read_version = '', indexed_at = excluded.indexed_at, parent = excluded.parent,
       part = excluded.part
"""
# Locks: none. The caller holds the rows.
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_indexeddocument AS held
 USING unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS gone(output_id, hash)
 WHERE held.output_id = gone.output_id AND held.hash = gone.hash
"""
# Locks: IndexedDocument of the parts. The caller holds the IndexedDocument rows of the documents.
_FORGET_DOCUMENTS: Final[LiteralString] = """
WITH gone AS MATERIALIZED (
    SELECT output_id, hash FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS gone(output_id, hash)
), documents AS (
    DELETE FROM jobs_indexeddocument AS held USING gone WHERE held.output_id = gone.output_id AND held.hash = gone.hash
)
DELETE FROM jobs_indexeddocument AS part USING gone WHERE part.parent = gone.hash AND part.output_id = gone.output_id
RETURNING part.output_id, part.hash, part.parent, part.part
"""


@dataclass(frozen=True, slots=True)
class Given:
    """The parts of a document for an output, and the document that they belong to."""

    url: str
    parts: Parts = NO_PARTS


@dataclass(slots=True)
class Changes:
    """The parts that outputs get, and the parts that leave them. `parents` are the documents of leaving parts."""

    added: dict[Key, Entry] = field(default_factory=dict)
    removed: dict[Key, Entry] = field(default_factory=dict)
    parents: dict[Key, str] = field(default_factory=dict)


def change_parts(cursor: psycopg.Cursor[Any], given: Mapping[Key, Given], *, now: dt.datetime) -> Changes:
    """
    Return the changes of the parts of these documents, and record the added parts. This transaction holds the records
    of the documents.

    The changes do not include parts that outputs keep, or parts that an output already has in this version.
    `forget_parts` deletes the records of parts that leave an output. New parts beyond the limit are left out.
    """
    changes = Changes()
    parents: dict[Key, str] = {}
    names: dict[Key, str] = {}
    held: defaultdict[Key, dict[Key, Any]] = defaultdict(dict)
    for row in cursor.execute(_HELD, columns_of_keys(given)):
        held[row.output_id, row.parent.hex][row.output_id, row.hash.hex] = row
    for (output, document), of_document in given.items():
        has, url = held[output, document], of_document.url
        named = {(output, hash_of(part_address(url, part.id))): part for part in of_document.parts.given}
        leaving = [key for key, row in has.items() if key not in named and not of_document.parts.keep(row.part)]
        room = MOST_PARTS - len(has) + len(leaving)
        for key, part in named.items():
            if part.content is None or (key in has and has[key].version == part.version != ""):
                continue
            if key not in has:
                if not room:
                    logger.warning("%s has more than %d parts; %s is left out", url, MOST_PARTS, part.id)
                    continue
                room -= 1
            changes.added[key] = Entry(key[1], part_address(url, part.id), part.content, part.version, now)
            parents[key], names[key] = document, part.id
        for key in leaving:
            changes.parents[key] = document
            changes.removed[key] = Entry(key[1], part_address(url, has[key].part), None, "", now)
    if changes.added:
        keys = sorted(changes.added)
        facts = {
            **columns_of_keys(keys),
            "versions": [changes.added[key].version for key in keys],
            "parents": [parents[key] for key in keys],
            "parts": [names[key] for key in keys],
            "now": now,
        }
        cursor.execute(_RECORD, facts)
    return changes


def forget_parts(cursor: psycopg.Cursor[Any], parts: Iterable[Key]) -> None:
    """Delete the records of parts that their documents no longer have."""
    cursor.execute(_FORGET, columns_of_keys(parts))


def forget_documents(
    cursor: psycopg.Cursor[Any], documents: Iterable[Key], urls: Mapping[str, str], *, now: dt.datetime
) -> dict[Key, Entry]:
    """Delete the records of documents and of their parts. Return the parts as entries to remove from the outputs."""
    rows: list[Any] = cursor.execute(_FORGET_DOCUMENTS, columns_of_keys(documents)).fetchall()
    removed = {}
    for row in rows:
        address = part_address(urls[row.parent.hex], row.part)
        removed[row.output_id, row.hash.hex] = Entry(row.hash.hex, address, None, "", now)
    return removed


def columns_of_keys(keys: Iterable[Key]) -> dict[str, list[Any]]:
    ordered = sorted(keys)
    return {"outputs": [output for output, _ in ordered], "hashes": [hash_ for _, hash_ in ordered]}
