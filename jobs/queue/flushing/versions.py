"""
Kept versions: the flush stores each answer of a document that differs from the last stored one.

The statement runs only for jobs that keep versions. Only two kinds of answers count: a document that was read, and a
document that its source no longer has. Failed attempts store nothing, so they do not replace a text.
"""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Final, LiteralString

import psycopg
from isal import isal_zlib

from jobs.connectors.repository.access import OPEN
from jobs.connectors.repository.base import Content, Ending, Outcome
from jobs.queue.flushing.outcomes import Result
from jobs.queue.sql.columns import columns_of

# Longest stored text and longest stored headers (characters).
MOST_TEXT: Final = 200_000
_MOST_HEADERS: Final = 16_000
# Headers that are never stored, in lower case.
_SECRET: Final = frozenset({"set-cookie", "set-cookie2"})

_COLUMNS: Final = (
    "version_hashes",
    "version_jobs",
    "version_runs",
    "version_codes",
    "version_headers",
    "version_texts",
    "version_lengths",
    "version_cut",
    "version_digests",
    "version_access",
    "version_kept",
)

# Locks: none. The flush holds the rows of the documents.
_KEEP: Final[LiteralString] = """
WITH changed AS MATERIALIZED (
    SELECT given.*, coalesce(newest.number, 0) + 1 AS number
      FROM unnest(%(version_hashes)s::uuid[], %(version_jobs)s::bigint[], %(version_runs)s::int[],
                  %(version_codes)s::text[], %(version_headers)s::text[], %(version_texts)s::bytea[],
                  %(version_lengths)s::int[], %(version_cut)s::bool[], %(version_digests)s::uuid[],
                  %(version_access)s::jsonb[], %(version_kept)s::int[])
           AS given(hash, job_id, run_no, code, headers, text, length, is_cut, digest, access, kept)
      LEFT JOIN LATERAL (
           SELECT version.number, version.code, version.digest FROM jobs_documentversion AS version
            WHERE version.hash = given.hash AND version.job_id = given.job_id
            ORDER BY version.number DESC LIMIT 1) AS newest ON true
     WHERE (newest.code, newest.digest) IS DISTINCT FROM (given.code, given.digest)
), dropped AS (
    DELETE FROM jobs_documentversion AS version USING changed
     WHERE version.hash = changed.hash AND version.job_id = changed.job_id
       AND version.number <= changed.number - changed.kept
)
INSERT INTO jobs_documentversion (hash, job_id, number, fetched_at, run_no, code, headers, text, length, is_cut, digest, access)
SELECT hash, job_id, number, %(now)s, run_no, code, headers, text, length, is_cut, digest, access FROM changed
"""


@dataclass(frozen=True, slots=True)
class _Text:
    """The text of an answer in its stored form. `length` counts the characters of the stored text."""

    compressed: bytes
    length: int
    is_cut: bool
    digest: str


def keep_versions(cursor: psycopg.Cursor[Any], results: Sequence[Result], *, now: dt.datetime) -> None:
    """Store the answers that differ from the newest stored version of their document, if its job keeps versions."""
    rows = [_row(result) for result in results if result.job.kept_versions and _is_answer(result.outcome)]
    if rows:
        cursor.execute(_KEEP, {**columns_of(rows, _COLUMNS), "now": now})


def _is_answer(outcome: Outcome) -> bool:
    return outcome.ending == Ending.INDEXED or outcome.removes


def _row(result: Result) -> tuple[Any, ...]:
    outcome = result.outcome
    content = _content_of(outcome)
    text = _stored(content.text if content else "")
    return (
        result.claimed.document.hash,
        result.job.id,
        result.job.run_no,
        outcome.code,
        _lines_of(outcome.headers),
        text.compressed,
        text.length,
        text.is_cut,
        text.digest,
        json.dumps((content.access if content else OPEN).as_json()),
        result.job.kept_versions,
    )


def _content_of(outcome: Outcome) -> Content | None:
    """Return the content as the source gives it, or as the first output gets it from a pipeline."""
    if outcome.content is not None:
        return outcome.content
    deliveries = (outcome.deliveries or {}).values()
    return next((delivery.content for delivery in deliveries if delivery.content is not None), None)


def _stored(text: str) -> _Text:
    digest = blake2b(text.encode(errors="replace"), digest_size=16).hexdigest()
    kept = text[:MOST_TEXT]
    compressed = isal_zlib.compress(kept.encode(errors="replace")) if kept else b""
    return _Text(compressed, len(kept), is_cut=len(kept) < len(text), digest=digest)


def _lines_of(headers: Mapping[str, str]) -> str:
    """Return headers as lines, without secrets and without characters that PostgreSQL cannot store."""
    lines = "\n".join(f"{name}: {value}" for name, value in headers.items() if name.lower() not in _SECRET)
    return lines[:_MOST_HEADERS].replace("\0", "?").encode(errors="replace").decode()
