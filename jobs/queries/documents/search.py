"""
Search: the documents that match a query, best first, with the matching places.

A query is as in web search boxes: words that must all occur, "a phrase", `or`, and a minus before words that must not
occur. The query runs in several forms: with the exact words on every document and, for each language that PostgreSQL
knows, with stems on the documents in that language. A document matches if one of the forms of the query matches. So
`-dogs` excludes documents with forms of the word *dogs* only by the rules of each document's own language.

Only documents that the reader may see match (docs/access.md), so a page is full, and a count counts only what the
reader may see. If many documents match the words, the query first finds the accesses that admit the reader's tokens:
they are few, because many documents share one access. If few documents match, the query reads all of them, and then the
access of each.

Results are hostile text. Highlights are returned as segments, never as markup: the page escapes them like any other
text.
"""

import datetime as dt
import json
import re
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString, NamedTuple

from django.db import OperationalError, connection, transaction
from psycopg.errors import QueryCanceled

from jobs.connectors.metadata import Metadata, read_stored
from jobs.connectors.output.search_words import CONFIGURATIONS, JOINERS
from nodes.errors import TooSlow

_LONGEST_QUERY: Final = 1000
_TIMEOUT: Final = dt.timedelta(seconds=5)

# Largest number of matches that are ranked. Ranking reads the vector of each matching document, so a word that occurs
# everywhere would cost as much as reading the whole index.
_RANKED_AT_MOST: Final = 5000

# Control characters, which no stored text has: a separator of joined words for the parser, and the begin and the end
# of a match.
_APART, _BEGIN, _END = "\x01", "\x02", "\x03"
_MARKS: Final = f"StartSel={_BEGIN}, StopSel={_END}"
_TITLE_OPTIONS: Final = f"{_MARKS}, HighlightAll=true"
_SNIPPET_OPTIONS: Final = f'{_MARKS}, MaxFragments=2, MinWords=10, MaxWords=30, FragmentDelimiter=" … "'

# Below this number of matches, the statement reads the matches first, and then the access of each.
_FEW_MATCHES: Final = 500
# The share of all documents that the planner expects for a word that is not among the frequent words of its statistics
# (DEFAULT_TS_MATCH_SEL of PostgreSQL). Such a word may be rare.
_SHARE_OF_UNKNOWN: Final = 0.005

# Accesses that admit a reader: for each level, the reader has a token that allows, and no token that denies.
_PASSES: Final[LiteralString] = "allow && %(tokens)s::text[] AND NOT deny && %(tokens)s::text[]"
_VISIBLE: Final[LiteralString] = f"""
SELECT digest FROM jobs_searchaccess WHERE {_PASSES} GROUP BY digest, of HAVING count(*) = of
"""
_OF_MATCHED: Final[LiteralString] = f"""
matched.access IS NULL
OR (SELECT count(*) = max(of) FROM jobs_searchaccess WHERE digest = matched.access AND {_PASSES})
"""

# Largest number of accesses that are constants of the statement; parsing more would take too long. From constants, the
# planner can estimate the number of their documents, and finds these by the index of accesses if they are few.
_MOST_CONSTANTS: Final = 200
_OF_FEW: Final[LiteralString] = "document.access IS NULL OR document.access = ANY(%(visible)s::uuid[])"
_OF_MANY: Final[LiteralString] = f"document.access IS NULL OR document.access IN ({_VISIBLE})"


# `form` are the forms of the query: with the exact words (language null), and with the stems of each language that
# changes them. Two forms may match one document; the exact one is shown then. Ties are broken by key, so that pages
# neither overlap nor leave a gap.
def _search(*, matches: LiteralString = "true", shown: LiteralString = "true") -> LiteralString:
    """
    Return the statement of a search. It takes one condition for documents that match, and one for documents on the
    page.
    """
    return f"""
WITH stemmed AS MATERIALIZED (
    SELECT named.language, configuration.oid::regconfig AS configuration,
           websearch_to_tsquery(configuration.oid::regconfig, %(query)s) AS query
      FROM unnest(%(languages)s::text[], %(configurations)s::text[]) AS named(language, configuration)
      JOIN pg_ts_config AS configuration
        ON configuration.cfgname = named.configuration AND configuration.cfgnamespace = 'pg_catalog'::regnamespace
), form AS MATERIALIZED (
    SELECT NULL AS language, 'simple'::regconfig AS configuration, websearch_to_tsquery('simple', %(query)s) AS query
     UNION ALL
    SELECT language, configuration, query FROM stemmed
     WHERE numnode(query) > 0 AND query <> websearch_to_tsquery('simple', %(query)s)
), matched AS MATERIALIZED (
    SELECT document.output_id, document.hash, form.language IS NOT NULL AS is_stemmed, form.configuration, form.query,
           ts_rank_cd(document.vector, form.query, 1)::float8 AS rank, document.access
      FROM form
      JOIN jobs_searchdocument AS document ON document.vector @@ form.query
       AND (form.language IS NULL OR form.language = split_part(document.language, '-', 1))
     WHERE {matches}
     LIMIT %(most)s
), found AS MATERIALIZED (
    SELECT DISTINCT ON (output_id, hash) output_id, hash, configuration, query,
           max(rank) OVER (PARTITION BY output_id, hash) AS rank
      FROM matched WHERE {shown} ORDER BY output_id, hash, is_stemmed
), page AS MATERIALIZED (
    SELECT * FROM found
     WHERE %(rank)s::float8 IS NULL
        OR (-rank, output_id, hash) > (-%(rank)s::float8, %(output)s::bigint, %(hash)s::uuid)
     ORDER BY -rank, output_id, hash LIMIT %(limit)s
)
SELECT counted.total, counted.matches, page.output_id, page.hash, page.rank, document.url, document.content_type,
       document.language, document.metadata, document.fetched_at,
       ts_headline(page.configuration,
                   regexp_replace(translate(left(document.title, 1000), %(reserved)s, ''), %(joiners)s, %(apart)s, 'g'),
                   page.query, %(title_options)s) AS title,
       ts_headline(page.configuration,
                   regexp_replace(translate(left(document.text, 100000), %(reserved)s, ''), %(joiners)s, %(apart)s, 'g'),
                   page.query, %(snippet_options)s) AS snippet
  FROM (SELECT (SELECT count(*) FROM found) AS total, (SELECT count(*) FROM matched) AS matches) AS counted
  LEFT JOIN (page JOIN jobs_searchdocument AS document ON document.output_id = page.output_id AND document.hash = page.hash)
    ON true
 ORDER BY -page.rank, page.output_id, page.hash
"""


# A newly filled table has no statistics yet, so the planner would read the whole table, once for each form. To prevent
# this, `enable_seqscan` is off. Estimated costs are then so high that the server would compile the statement, so `jit`
# is off, too.
_FOR_THIS_SEARCH: Final[LiteralString] = """
SELECT set_config('statement_timeout', %s, true), set_config('enable_seqscan', 'off', true), set_config('jit', 'off', true),
       reltuples FROM pg_class WHERE oid = 'jobs_searchdocument'::regclass
"""


class BadQuery(ValueError):
    """An invalid query; its message is the reason. A retry does not help."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A piece of text. `is_match` is True for a word of the query."""

    text: str
    is_match: bool


@dataclass(frozen=True, slots=True)
class Hit:
    """
    A matching document. `hash` is 32 hex digits; `snippet` are the best matching places. `partition` is the other
    partition that has it. The id of its output is None if this partition has no output of that name.
    """

    output_id: int | None
    hash: str
    url: str
    title: tuple[Segment, ...]
    snippet: tuple[Segment, ...]
    content_type: str
    language: str
    fetched_at: dt.datetime
    rank: float
    metadata: Metadata = field(default_factory=dict)
    partition: str = ""


@dataclass(frozen=True, slots=True)
class SearchPage:
    """
    One page of results. `next` is the `after` of the page that follows.

    `total` counts all matching documents; with `has_more`, there are more than were counted and ranked.
    """

    hits: tuple[Hit, ...] = ()
    total: int = 0
    has_more: bool = False
    next: str | None = None


class _Found(NamedTuple):
    """The documents of a page, the number of all found documents, and the number of all matches of a form."""

    total: int
    matches: int
    rows: list[dict[str, Any]]


def search(
    query: str, *, tokens: Collection[str], limit: int, after: str | None = None, partition: str = ""
) -> SearchPage:
    """
    Return at most `limit` documents that match, best first; none for a query without a word.

    `tokens` are the tokens of the reader, each with its group (`scope_token`). Without tokens, only open documents
    match.

    A page begins after the rank of the last document of the page before. So a document that is added or removed
    meanwhile does not shift the pages. Documents of equal rank are sorted by their partition. `partition` is the name
    of the partition of this database.

    Raises:
        BadQuery: the query is too long, or `after` is not the `next` of a page.
        TooSlow: the database gave up.
    """
    if len(query) > _LONGEST_QUERY:
        raise BadQuery(f"The query has {len(query)} characters. Shorten it to at most {_LONGEST_QUERY}.")
    rank, output, key = _read_position(after, partition=partition) if after else (None, None, None)
    asked = _in_words_of_the_index(query)
    if not asked:
        return SearchPage()
    total, matches, rows = _ask(
        {
            "query": asked,
            "tokens": sorted(tokens),
            "languages": list(CONFIGURATIONS),
            "configurations": list(CONFIGURATIONS.values()),
            "most": _RANKED_AT_MOST,
            "rank": rank,
            "output": output,
            "hash": key,
            # One document more than the page shows: if it exists, another page follows.
            "limit": limit + 1,
            "joiners": JOINERS,
            "apart": rf"{_APART}\&{_APART}",
            "reserved": _APART + _BEGIN + _END,
            "title_options": _TITLE_OPTIONS,
            "snippet_options": _SNIPPET_OPTIONS,
        }
    )
    hits = tuple(_hit(row, partition) for row in rows[:limit])
    return SearchPage(
        hits=hits,
        total=total,
        has_more=matches == _RANKED_AT_MOST,
        next=position_of(hits[-1]) if len(rows) > limit else None,
    )


def _ask(facts: dict[str, Any]) -> _Found:
    try:
        with transaction.atomic(), connection.cursor() as cursor:
            milliseconds = str(round(_TIMEOUT.total_seconds() * 1000))
            cursor.execute(_FOR_THIS_SEARCH, [milliseconds])
            documents = cursor.fetchone()[-1]
            if facts["tokens"] and _expected_matches(cursor, facts["query"]) <= _SHARE_OF_UNKNOWN * max(documents, 1):
                found = _run(cursor, _search(shown=_OF_MATCHED), {**facts, "most": _FEW_MATCHES})
                # At the limit, matches are missing, and the reader may be allowed to see some of these.
                if found.matches < _FEW_MATCHES:
                    return found
            visible = _visible_to(cursor, facts["tokens"])
            condition = _OF_FEW if len(visible) <= _MOST_CONSTANTS else _OF_MANY
            return _run(cursor, _search(matches=condition), {**facts, "visible": visible})
    except OperationalError as error:
        if isinstance(error.__cause__, QueryCanceled):
            sentence = f"The search took more than {_TIMEOUT.total_seconds():g} seconds. Use more words, or rarer ones."
            raise TooSlow(sentence) from error
        raise


def _run(cursor: Any, statement: LiteralString, facts: dict[str, Any]) -> _Found:
    cursor.execute(statement, facts)
    names = [column.name for column in cursor.description]
    rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    # If the page has no document, the statement returns one row that has the counts only.
    return _Found(rows[0]["total"], rows[0]["matches"], [row for row in rows if row["hash"] is not None])


def _expected_matches(cursor: Any, query: str) -> int:
    """Return the number of documents with these exact words, as the planner estimates it from its statistics."""
    cursor.execute(
        "EXPLAIN (FORMAT JSON) SELECT FROM jobs_searchdocument WHERE vector @@ websearch_to_tsquery('simple', %s)",
        [query],
    )
    (plan,) = cursor.fetchone()
    found: Any = _parsed(plan)
    return int(found[0]["Plan"]["Plan Rows"])


def _visible_to(cursor: Any, tokens: list[str]) -> list[uuid.UUID]:
    """
    Return the accesses that a reader with these tokens may see: at most one more than a statement may have as
    constants.
    """
    if not tokens:
        return []
    cursor.execute(f"{_VISIBLE} LIMIT {_MOST_CONSTANTS + 1}", {"tokens": tokens})
    return [digest for (digest,) in cursor.fetchall()]


def _in_words_of_the_index(query: str) -> str:
    """Return the query with its words split as in the index: words that joining characters connect become a phrase."""
    readable = query.replace("\0", " ").encode(errors="replace").decode()
    phrases: list[str] = []
    for minus, phrase, word in _PHRASES.findall(readable):
        words = " ".join(re.sub(JOINERS, " ", phrase or word).split())
        if words:
            phrases.append(f'{minus}"{words}"' if phrase or " " in words else f"{minus}{words}")
    return " ".join(phrases)


_PHRASES: Final = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')


def _hit(row: dict[str, Any], partition: str) -> Hit:
    return Hit(
        output_id=row["output_id"],
        hash=row["hash"].hex,
        url=row["url"],
        title=_segments(row["title"]),
        snippet=_segments(row["snippet"]),
        content_type=row["content_type"],
        language=row["language"],
        fetched_at=row["fetched_at"],
        rank=row["rank"],
        metadata=read_stored(_parsed(row["metadata"])),
        partition=partition,
    )


def _parsed(stored: object) -> object:
    """Return the value of a JSON column, which Django's cursors return as a text."""
    return json.loads(stored) if isinstance(stored, str) else stored


def _segments(marked: str) -> tuple[Segment, ...]:
    segments: list[Segment] = []
    before, *matches = marked.replace(_APART, "").split(_BEGIN)
    segments.append(Segment(before, is_match=False))
    for match in matches:
        word, _, following = match.partition(_END)
        segments += (Segment(word, is_match=True), Segment(following, is_match=False))
    return tuple(segment for segment in segments if segment.text)


def position_of(hit: Hit) -> str:
    """Return the position behind this document. The id of its output is that in the partition of the document."""
    place = f":{hit.partition}" if hit.partition else ""
    return f"{hit.rank!r}:{hit.output_id}:{hit.hash}{place}"


def _read_position(after: str, *, partition: str) -> tuple[float, int, uuid.UUID]:
    """Return the position from which this partition continues a page that begins after the document of `after`."""
    match = re.fullmatch(
        r"(\d+(?:\.\d+)?(?:e-?\d{1,3})?):(\d{1,18}):([0-9a-f]{32})(?::([^:\s]{1,31}))?", after, re.ASCII
    )
    if match is None:
        raise BadQuery("Invalid page for this search. Start from the first page.")
    rank, last = float(match[1]), match[4] or ""
    if partition == last:
        return rank, int(match[2]), uuid.UUID(match[3])
    # Ids of outputs mean nothing in another partition: either all documents of this rank in that partition follow, or
    # none.
    return (rank, 0, uuid.UUID(int=0)) if partition > last else (rank, 2**63 - 1, uuid.UUID(int=2**128 - 1))
