"""
Search indexing: texts that the flush wrote become searchable, behind the crawl.

Words of the title weigh A, of address and description B, of the text D; how they are cut is said in
`jobs.connectors.output.words`. A row stays locked while its vector is computed, so a flush that
writes the same document anew waits for that and no vector is ever of an older text than its row.
"""

from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.errors import ProgramLimitExceeded

from jobs.connectors.output.words import CONFIGURATIONS, JOINERS
from jobs.queue.rows import named_rows

# PostgreSQL refuses a vector of more than 1 MB. What that is in characters depends on how many
# different words they make, so ever less is tried (characters); the last is below it in any case.
_CUTS: Final = (2_000_000, 500_000, 100_000, 25_000)
# Texts that need several attempts are seen to a few at a time: their rows are locked meanwhile.
_CUT_AT_ONCE: Final = 10

# Locks: SearchDocument, skipping what is locked.
_WAITING: Final[LiteralString] = """
SELECT output_id, hash FROM jobs_searchdocument
 WHERE vector IS NULL
 ORDER BY written_at LIMIT %(most)s
   FOR NO KEY UPDATE SKIP LOCKED
"""

# The exact words come first: positions end at 16,383, and phrases are asked of the exact words.
# Locks: nothing more, the rows are held.
_INDEX: Final[LiteralString] = """
WITH known AS MATERIALIZED (
    SELECT named.language, configuration.oid::regconfig AS configuration
      FROM unnest(%(languages)s::text[], %(configurations)s::text[]) AS named(language, configuration)
      JOIN pg_ts_config AS configuration
        ON configuration.cfgname = named.configuration AND configuration.cfgnamespace = 'pg_catalog'::regnamespace
)
UPDATE jobs_searchdocument AS document
   SET vector = setweight(to_tsvector('simple', cut.title), 'A') || setweight(to_tsvector('simple', cut.about), 'B')
             || setweight(to_tsvector('simple', cut.text), 'D')
             || CASE WHEN cut.configuration IS NULL THEN ''::tsvector
                     ELSE setweight(to_tsvector(cut.configuration, cut.title), 'A')
                       || setweight(to_tsvector(cut.configuration, cut.about), 'B')
                       || setweight(to_tsvector(cut.configuration, cut.text), 'D') END
  FROM (SELECT waiting.output_id, waiting.hash, known.configuration,
               regexp_replace(left(waiting.title, 5000), %(joiners)s, ' ', 'g') AS title,
               regexp_replace(waiting.url || ' ' || left(waiting.description, 5000), %(joiners)s, ' ', 'g') AS about,
               regexp_replace(left(waiting.text, %(cut)s), %(joiners)s, ' ', 'g') AS text
          FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS held(output_id, hash)
          JOIN jobs_searchdocument AS waiting ON waiting.output_id = held.output_id AND waiting.hash = held.hash
          LEFT JOIN known ON known.language = split_part(waiting.language, '-', 1)) AS cut
 WHERE document.output_id = cut.output_id AND document.hash = cut.hash
"""


def index_waiting_texts(connection: psycopg.Connection[Any], *, most: int = 100) -> int:
    """
    Make the texts that have waited longest searchable, at most so many; returns how many.

    Of a text that is too long for a vector, as much of its beginning is searchable as there is room for.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        waiting = cursor.execute(_WAITING, {"most": most}).fetchall()
        if not waiting:
            return 0
        if _fits(cursor, waiting, cut=_CUTS[0]):
            return len(waiting)
        few = waiting[:_CUT_AT_ONCE]
        for row in few:
            _ = any(_fits(cursor, [row], cut=cut) for cut in _CUTS)
        return len(few)


def _fits(cursor: psycopg.Cursor[Any], rows: Sequence[Any], *, cut: int) -> bool:
    """Index these rows with the first `cut` characters of their texts; False if that is too much."""
    try:
        with cursor.connection.transaction():
            cursor.execute(
                _INDEX,
                {
                    "outputs": [row.output_id for row in rows],
                    "hashes": [row.hash for row in rows],
                    "cut": cut,
                    "joiners": JOINERS,
                    "languages": list(CONFIGURATIONS),
                    "configurations": list(CONFIGURATIONS.values()),
                },
            )
    except ProgramLimitExceeded:
        return False
    return True
