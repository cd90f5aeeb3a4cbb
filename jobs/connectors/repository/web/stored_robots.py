"""
The robots.txt answers of origins: fetched by one worker, used by all until they expire.

An answer that differs from the stored one replaces it. The replaced answers of an origin are kept, up to a limit.
"""

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg.types.json import Jsonb

_READ: Final[LiteralString] = """
SELECT origin, answer, extract(epoch FROM expires_at - clock_timestamp())::float AS lives_for,
       extract(epoch FROM clock_timestamp() - fetched_at)::float AS age
  FROM jobs_robots WHERE origin = ANY(%(origins)s) AND expires_at > clock_timestamp()
"""
# Largest number of replaced answers that are kept for an origin.
KEPT: Final = 5
# If two workers replace the same answer, it is kept once.
# Locks: PastRobots by origin, then Robots by origin.
_WRITE: Final[LiteralString] = """
WITH fetched AS MATERIALIZED (
    SELECT origin, answer FROM unnest(%(origins)s::text[], %(answers)s::jsonb[]) AS fetched(origin, answer)
), replaced AS (
    INSERT INTO jobs_pastrobots (origin, last_read_at, replaced_at, answer)
    SELECT stored.origin, stored.fetched_at, clock_timestamp(), stored.answer
      FROM fetched JOIN jobs_robots AS stored ON stored.origin = fetched.origin AND stored.answer <> fetched.answer
     ORDER BY stored.origin
    ON CONFLICT (origin, last_read_at) DO NOTHING
 RETURNING origin
), written AS (
    INSERT INTO jobs_robots (origin, answer, fetched_at, expires_at)
    SELECT origin, answer, clock_timestamp(), clock_timestamp() + %(lifetime)s FROM fetched ORDER BY origin
    ON CONFLICT (origin) DO UPDATE
       SET answer = excluded.answer, fetched_at = excluded.fetched_at, expires_at = excluded.expires_at
)
SELECT origin FROM replaced ORDER BY origin
"""
# Locks: PastRobots by origin.
_TRIM: Final[LiteralString] = """
DELETE FROM jobs_pastrobots AS past
 USING unnest(%(origins)s::text[]) AS replaced(origin)
 WHERE past.origin = replaced.origin
   AND past.last_read_at < (SELECT kept.last_read_at FROM jobs_pastrobots AS kept WHERE kept.origin = replaced.origin
                             ORDER BY kept.last_read_at DESC OFFSET %(kept)s - 1 LIMIT 1)
"""


@dataclass(frozen=True, slots=True)
class StoredRobots:
    """An answer that was stored `age` seconds ago. It is valid for `lives_for` seconds more."""

    origin: str
    answer: Mapping[str, Any]
    lives_for: float
    age: float


def read_robots(connection: psycopg.Connection[Any], *, origins: Iterable[str]) -> list[StoredRobots]:
    """Return the valid stored answers of these origins."""
    rows = connection.execute(_READ, {"origins": list(origins)}).fetchall()
    return [StoredRobots(*row) for row in rows]


def write_robots(
    connection: psycopg.Connection[Any], *, answers: Mapping[str, Mapping[str, Any]], lifetime: dt.timedelta
) -> None:
    """Store fetched answers, for the other workers. Keep the answers that they replace."""
    rows = connection.execute(
        _WRITE,
        {
            "origins": list(answers),
            "answers": [Jsonb(dict(answer)) for answer in answers.values()],
            "lifetime": lifetime,
        },
    ).fetchall()
    if replaced := [origin for (origin,) in rows]:
        connection.execute(_TRIM, {"origins": replaced, "kept": KEPT})
