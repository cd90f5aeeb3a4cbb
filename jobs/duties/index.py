"""
Search indexing: texts that the flush wrote become searchable, behind the crawl.

Words of the title have weight A, of address and description B, of the text D; `jobs.connectors.output.search_words` defines
words. A row stays locked while its vector is computed. So a flush that writes the same document again waits, and a
vector always belongs to the text of its row.

This process computes the vectors of most texts (`jobs.connectors.output.vectors`), in less than half of the processor
time that PostgreSQL needs. PostgreSQL computes the others. The process asks PostgreSQL once for the kind of each
character and the stem of each word, and caches the answers.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg.errors import ProgramLimitExceeded

from jobs.connectors.output.search_words import CONFIGURATIONS, JOINERS
from jobs.connectors.output.vectors import Cut, characters_of, cut, vector_of
from jobs.queue.sql.arrays import Vectors
from jobs.queue.sql.rows import named_rows

# Lengths to which a text is cut, one after the other, until its vector is small enough (characters). PostgreSQL refuses
# a vector of more than 1 MB, whose size depends on the number of different words. The last length fits in any case.
_CUTS: Final = (2_000_000, 500_000, 100_000, 25_000)
# Number of texts that one transaction processes if they need several attempts. The number is small, because the rows of
# these texts stay locked meanwhile.
_CUT_AT_ONCE: Final = 10

# Number of stems of one language that a process caches. Most sites have fewer words.
_STEMS_KEPT: Final = 50_000
# Largest number of indexed characters of a title, and of a description.
_SHORT: Final = 5_000

# Locks: SearchDocument, skipping locked rows.
_WAITING: Final[LiteralString] = """
SELECT output_id, hash, url, title, description, text, split_part(language, '-', 1) AS language,
       extract(epoch FROM clock_timestamp() - written_at)::float AS age
  FROM jobs_searchdocument
 WHERE vector IS NULL
 ORDER BY written_at LIMIT %(most)s
   FOR NO KEY UPDATE SKIP LOCKED
"""

# The exact words come first: positions end at 16,383, and phrase queries use the exact words. Locks: none. The caller
# holds the rows.
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
               regexp_replace(left(waiting.title, %(short)s), %(joiners)s, ' ', 'g') AS title,
               regexp_replace(waiting.url || ' ' || left(waiting.description, %(short)s), %(joiners)s, ' ', 'g') AS about,
               regexp_replace(left(waiting.text, %(cut)s), %(joiners)s, ' ', 'g') AS text
          FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[]) AS held(output_id, hash)
          JOIN jobs_searchdocument AS waiting ON waiting.output_id = held.output_id AND waiting.hash = held.hash
          LEFT JOIN known ON known.language = split_part(waiting.language, '-', 1)) AS cut
 WHERE document.output_id = cut.output_id AND document.hash = cut.hash
"""

# Locks: none. The caller holds the rows.
_PUT: Final[LiteralString] = """
UPDATE jobs_searchdocument AS document SET vector = written.vector
  FROM unnest(%(outputs)s::bigint[], %(hashes)s::uuid[], %(vectors)s::tsvector[]) AS written(output_id, hash, vector)
 WHERE document.output_id = written.output_id AND document.hash = written.hash
"""
# No row if the server does not have the language.
_STEMS: Final[LiteralString] = """
SELECT word, tsvector_to_array(to_tsvector(configuration.oid::regconfig, word)) AS stems
  FROM pg_ts_config AS configuration, unnest(%(words)s::text[]) AS word
 WHERE configuration.cfgname = %(configuration)s AND configuration.cfgnamespace = 'pg_catalog'::regnamespace
"""
# Probe the parser with each character alone, at the end of a word, within words, and behind numbers. A combining mark
# is neither a letter nor a blank: it continues a word, but cannot begin one. A capital of an ASCII letter (the Kelvin
# sign) makes a word of another type, which may have another stem. PostgreSQL parses texts with such characters.
_CHARACTERS: Final[LiteralString] = """
WITH tried AS (
    SELECT character, format('%%1$s a%%1$s a%%1$sb %%1$s1e5b 1%%1$s 1e%%1$s 1e5%%1$s', character) AS probe,
           array_to_string(tsvector_to_array(to_tsvector('simple', character)), '') AS small
      FROM unnest(%(characters)s::text[]) AS character
), parsed AS (
    SELECT *, ARRAY(SELECT token FROM ts_parse('default', probe) WHERE tokid <> 12) AS tokens FROM tried
)
SELECT character,
       CASE WHEN tokens = ARRAY['a', 'a', 'b', '1e5', 'b', '1', '1e', '1e5'] THEN ' '
            WHEN tokens = ARRAY[character, 'a' || character, 'a' || character || 'b', character || '1e5b',
                                '1' || character, '1e' || character, '1e5', character]
                 AND ascii(small) > 127
                 AND to_tsvector('simple', probe) = to_tsvector('simple', replace(probe, character, small))
            THEN small END AS small
  FROM parsed
"""


@dataclass(frozen=True, slots=True)
class Indexed:
    """The number of texts that became searchable; the oldest one had waited for `behind` seconds."""

    texts: int = 0
    behind: float = 0.0


class Stems:
    """A cache of PostgreSQL's stems of words, by language."""

    def __init__(self) -> None:
        self._known: dict[str, dict[bytes, bytes]] = {}

    def of(self, cursor: psycopg.Cursor[Any], words: set[bytes], *, language: str) -> Mapping[bytes, bytes] | None:
        """
        Return the stem of each of these words ("" for a word without a stem), or None if the server does not know the
        language.
        """
        if language not in CONFIGURATIONS:
            return None
        known = self._known.setdefault(language, {})
        unknown = words.difference(known)
        if unknown:
            if len(known) > _STEMS_KEPT:
                known.clear()
                unknown = words
            facts = {"words": sorted(map(bytes.decode, unknown)), "configuration": CONFIGURATIONS[language]}
            known |= {row.word.encode(): "".join(row.stems).encode() for row in cursor.execute(_STEMS, facts)}
        return known if unknown <= known.keys() else None


class Characters:
    """A cache of characters that are not ASCII, as PostgreSQL's parser reads them."""

    def __init__(self) -> None:
        self._known: dict[str, str | None] = {}

    def of(self, cursor: psycopg.Cursor[Any], characters: set[str]) -> Mapping[str, str | None]:
        """
        Return for each of these characters: its lower-case form if it is a letter, a blank if it separates words, else
        None.
        """
        unknown = characters.difference(self._known)
        if unknown:
            rows = cursor.execute(_CHARACTERS, {"characters": sorted(unknown)})
            self._known |= {row.character: row.small for row in rows}
        return self._known


_STEMS_KNOWN: Final = Stems()
_CHARACTERS_KNOWN: Final = Characters()


def index_waiting_texts(connection: psycopg.Connection[Any], *, most: int = 100) -> Indexed:
    """
    Index at most `most` texts, the longest waiting first; return their number.

    If a text is too long for a vector, only its beginning is indexed.
    """
    with connection.transaction(), named_rows(connection) as cursor:
        waiting = cursor.execute(_WAITING, {"most": most}).fetchall()
        if not waiting:
            return Indexed()
        plain = [(row, document) for row, document in _cut(cursor, waiting) if document is not None]
        if plain:
            _put(cursor, plain)
        done = {(row.output_id, row.hash) for row, _ in plain}
        others = [row for row in waiting if (row.output_id, row.hash) not in done]
        if others and not _fits(cursor, others, cut_to=_CUTS[0]):
            others = others[:_CUT_AT_ONCE]
            for row in others:
                _ = any(_fits(cursor, [row], cut_to=cut_to) for cut_to in _CUTS)
        return Indexed(texts=len(plain) + len(others), behind=waiting[0].age)


def _cut(cursor: psycopg.Cursor[Any], rows: Sequence[Any]) -> Iterator[tuple[Any, Cut | None]]:
    """Yield each row with the words of its texts, or with None if only PostgreSQL can split these texts into words."""
    texts = [(row.title[:_SHORT], f"{row.url} {row.description[:_SHORT]}", row.text[: _CUTS[0] + 1]) for row in rows]
    special = [characters_of(of_row) for of_row in texts]
    known = _CHARACTERS_KNOWN.of(cursor, set().union(*special))
    for row, of_row, characters in zip(rows, texts, special, strict=True):
        is_whole = len(row.text) <= _CUTS[0]
        small = {character: known[character] for character in characters}
        yield row, cut(zip(of_row, "ABD", strict=True), characters=small) if is_whole else None


def _put(cursor: psycopg.Cursor[Any], rows: Sequence[tuple[Any, Cut]]) -> None:
    """Write the vectors of these rows, whose words are known."""
    words: dict[str, set[bytes]] = {}
    for row, document in rows:
        words.setdefault(row.language, set()).update(document.words)
    stems = {language: _STEMS_KNOWN.of(cursor, found, language=language) for language, found in words.items()}
    cursor.execute(
        _PUT,
        {
            "outputs": [row.output_id for row, _ in rows],
            "hashes": [row.hash for row, _ in rows],
            "vectors": Vectors(vector_of(document, stems=stems[row.language]) for row, document in rows),
        },
    )


def _fits(cursor: psycopg.Cursor[Any], rows: Sequence[Any], *, cut_to: int) -> bool:
    """Index the first `cut_to` characters of these rows' texts; return False if the vector is too large."""
    try:
        with cursor.connection.transaction():
            cursor.execute(
                _INDEX,
                {
                    "outputs": [row.output_id for row in rows],
                    "hashes": [row.hash for row in rows],
                    "cut": cut_to,
                    "short": _SHORT,
                    "joiners": JOINERS,
                    "languages": list(CONFIGURATIONS),
                    "configurations": list(CONFIGURATIONS.values()),
                },
            )
    except ProgramLimitExceeded:
        return False
    return True
