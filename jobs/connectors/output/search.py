"""
The search output. It stores documents as rows in the same database as the queue, and searches find them after the
flush.

The flush writes text, title and address. The vector that a search reads is computed later (`jobs.duties.index`),
because its computation takes several times as long as the rest of a flush. The vector is null until then.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.metadata import Metadata
from jobs.connectors.output.base import Entry, Held
from jobs.connectors.output.buckets import ranges_of
from jobs.connectors.repository.access import Access


@dataclass(frozen=True, slots=True)
class SearchConfiguration:
    """The configuration of the search output, which has no fields."""


# Longest values that the columns can store (characters).
_LONGEST_CONTENT_TYPE: Final = 100
_LONGEST_LANGUAGE: Final = 35

# An access is stored once, and all documents with this access refer to its row. Its row never changes and is never
# deleted. Locks: SearchAccess by digest, below the IndexedDocument rows that the caller holds.
_STORE_ACCESS: Final[LiteralString] = """
INSERT INTO jobs_searchaccess (digest, place, of, level, allow, deny)
SELECT digest, place, of, level, allow, deny
  FROM jsonb_to_recordset(%(levels)s::jsonb)
       AS given(digest uuid, place smallint, of smallint, level text, allow text[], deny text[])
 ORDER BY digest, place
ON CONFLICT (digest, place) DO NOTHING
"""

# Locks: SearchDocument by hash, below the IndexedDocument rows that the caller holds.
_UPSERT: Final[LiteralString] = """
INSERT INTO jobs_searchdocument (output_id, hash, url, title, description, text, content_type, language, metadata,
                                 fetched_at, access, written_at, vector)
SELECT %(output)s, hash, url, title, description, text, content_type, language, metadata, fetched_at, access, statement_timestamp(),
       NULL
  FROM unnest(%(hashes)s::uuid[], %(urls)s::text[], %(titles)s::text[], %(descriptions)s::text[], %(texts)s::text[],
              %(content_types)s::text[], %(languages)s::text[], %(metadata)s::jsonb[], %(fetched_ats)s::timestamptz[], %(accesses)s::uuid[])
       AS entry(hash, url, title, description, text, content_type, language, metadata, fetched_at, access)
 ORDER BY hash
ON CONFLICT (output_id, hash) DO UPDATE
   SET url = excluded.url, title = excluded.title, description = excluded.description, text = excluded.text,
       content_type = excluded.content_type, language = excluded.language, metadata = excluded.metadata, fetched_at = excluded.fetched_at,
       access = excluded.access, written_at = excluded.written_at, vector = NULL
"""

# Locks: SearchDocument, of rows whose IndexedDocument the caller holds.
_DELETE: Final[LiteralString] = """
DELETE FROM jobs_searchdocument WHERE output_id = %(output)s AND hash = ANY(%(hashes)s::uuid[])
"""


# A restored text keeps its old `fetched_at`. So the time of its restoration counts if it is later.
_LIST: Final[LiteralString] = """
SELECT hash, greatest(fetched_at, written_at) FROM jobs_searchdocument
 WHERE output_id = %(output)s AND hash BETWEEN %(low)s::uuid AND %(high)s::uuid
"""
_LOOK: Final[LiteralString] = """
SELECT hash, greatest(fetched_at, written_at), url FROM jobs_searchdocument
 WHERE output_id = %(output)s AND hash = ANY(%(hashes)s::uuid[])
"""


class SearchOutput:
    holds: Final = True
    is_transactional: Final = True
    buckets_at_once: Final = 64

    def __init__(self, *, id: int, configuration: SearchConfiguration) -> None:  # noqa: A002 (the column's name)
        self.id = id

    def check(self) -> None:
        # Nothing to check: the output is in the database of the crawl, which works if a crawl runs.
        return

    def add_or_replace(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        added = [(entry, entry.content) for entry in entries if entry.content is not None]
        if not added:
            return
        accesses = {content.access: content.access.digest for _, content in added if not content.access.is_open}
        if accesses:
            cursor.execute(_STORE_ACCESS, {"levels": _levels_of(accesses)})
        cursor.execute(
            _UPSERT,
            {
                "output": self.id,
                "hashes": [entry.hash for entry, _ in added],
                "urls": [_storable(entry.url) for entry, _ in added],
                "titles": [_storable(content.title) for _, content in added],
                "descriptions": [_storable(content.description) for _, content in added],
                "texts": [_storable(content.text) for _, content in added],
                "content_types": [_storable(content.content_type)[:_LONGEST_CONTENT_TYPE] for _, content in added],
                "languages": [_language_tag(content.language) for _, content in added],
                "metadata": [_as_json(content.metadata) for _, content in added],
                "fetched_ats": [entry.fetched_at for entry, _ in added],
                "accesses": [accesses.get(content.access) for _, content in added],
            },
        )

    def remove(self, cursor: psycopg.Cursor[Any], entries: Sequence[Entry]) -> None:
        cursor.execute(_DELETE, {"output": self.id, "hashes": [entry.hash for entry in entries]})

    def job_complete(self) -> None:
        return

    def open_listing(self, cursor: psycopg.Cursor[Any], buckets: Collection[int]) -> "SearchListing":
        return SearchListing(self.id, cursor, buckets)


class SearchListing:
    """The rows of some buckets."""

    damaged: Final = 0

    def __init__(self, output: int, cursor: psycopg.Cursor[Any], buckets: Collection[int]) -> None:
        self._output, self._cursor, self._ranges = output, cursor, ranges_of(buckets)

    def __iter__(self) -> Iterator[Held]:
        for low, high in self._ranges:
            rows = self._cursor.execute(_LIST, {"output": self._output, "low": low, "high": high}).fetchall()
            for hash_, moment in rows:
                yield Held(hash_.hex, "", None, moment)

    def look(self, cursor: psycopg.Cursor[Any], hashes: Sequence[str]) -> Mapping[str, Held]:
        rows = cursor.execute(_LOOK, {"output": self._output, "hashes": list(hashes)}).fetchall()
        return {hash_.hex: Held(hash_.hex, url, None, moment) for hash_, moment, url in rows}

    def close(self) -> None:
        return


def _storable(text: str) -> str:
    """Return the text without characters that PostgreSQL cannot store: a page with them must not fail a flush."""
    if text.isascii():
        return text.replace("\0", "")
    return text.replace("\0", "").encode(errors="replace").decode()


def _as_json(metadata: Metadata) -> str | None:
    """Return metadata as a JSON text that PostgreSQL can store; None without values."""
    if not metadata:
        return None
    return json.dumps({_storable(name): list(map(_storable, values)) for name, values in metadata.items()})


def _language_tag(language: str) -> str:
    """
    Return the language tag of a source in lower case with hyphens, such as `de-at`, because the index compares this
    form.
    """
    return _storable(language).strip().replace("_", "-").lower()[:_LONGEST_LANGUAGE]


def _levels_of(accesses: Mapping[Access, str]) -> str:
    """Return the rows of these accesses, one for each protected level, as JSON."""
    rows = [
        {"digest": digest, "place": place, "of": len(access.levels), "level": name, **access_level.as_json()}
        for access, digest in accesses.items()
        for place, (name, access_level) in enumerate(access.levels)
    ]
    return json.dumps(rows)
