"""The robots.txt answers of origins: fetched by one worker, used by all until they expire."""

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
# Locks: the rows that it writes, by origin.
_WRITE: Final[LiteralString] = """
INSERT INTO jobs_robots (origin, answer, fetched_at, expires_at)
SELECT origin, answer, clock_timestamp(), clock_timestamp() + %(lifetime)s
  FROM unnest(%(origins)s::text[], %(answers)s::jsonb[]) AS fetched(origin, answer)
 ORDER BY origin
ON CONFLICT (origin) DO UPDATE
   SET answer = excluded.answer, fetched_at = excluded.fetched_at, expires_at = excluded.expires_at
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
    """Store fetched answers, for the other workers."""
    connection.execute(
        _WRITE,
        {
            "origins": list(answers),
            "answers": [Jsonb(dict(answer)) for answer in answers.values()],
            "lifetime": lifetime,
        },
    )
