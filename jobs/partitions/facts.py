"""
Facts that partitions send to each other. The newest fact of a source and a key counts.

A fact is a state, not a message: the receiver compares it with its own state and acts on the difference. So a fact
that arrives twice, or again after a restore, changes nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from jobs.partitions.placement import Placement

# Locks: no process waits for another one, because only the main manager of the partition sends facts.
_SEND: Final[LiteralString] = """
WITH sent AS (
    INSERT INTO jobs_partitionfact (source, target, key, body)
    SELECT %(source)s::text, %(target)s::text, %(key)s::text, %(body)s::jsonb
     WHERE %(body)s::jsonb IS DISTINCT FROM (SELECT body FROM jobs_partitionfact
                                       WHERE source = %(source)s AND target = %(target)s AND key = %(key)s
                                       ORDER BY number DESC LIMIT 1)
    RETURNING number
), forgotten AS (
    DELETE FROM jobs_partitionfact
     WHERE source = %(source)s AND target = %(target)s AND key = %(key)s AND number < (SELECT number FROM sent)
)
SELECT number FROM sent
"""
_RECEIVED: Final[LiteralString] = """
SELECT DISTINCT ON (source, key) source, key, body, number FROM jobs_partitionfact
 WHERE target = %(here)s AND source <> %(here)s AND key LIKE %(like)s
 ORDER BY source, key, number DESC
"""
# The newest facts of some kinds that this partition has received or sent.
_EXCHANGED: Final[LiteralString] = """
SELECT DISTINCT ON (source, target, key) source, target, key, body, number FROM jobs_partitionfact
 WHERE (source = %(here)s OR target = %(here)s) AND split_part(key, ':', 1) = ANY(%(kinds)s)
 ORDER BY source, target, key, number DESC
"""
# The newest received facts whose numbers this partition has not noted as stored.
_NOT_ADOPTED: Final[LiteralString] = f"""
SELECT source, key, body, number FROM ({_RECEIVED}) AS received
 WHERE jsonb_build_object('number', number, 'source', source) IS DISTINCT FROM (
       SELECT note.body FROM jobs_partitionfact AS note
        WHERE note.source = %(here)s AND note.target = %(here)s AND note.key = received.key
        ORDER BY note.number DESC LIMIT 1)
"""  # noqa: S608 (a constant of this module)
_FORGET_SUPERSEDED: Final[LiteralString] = """
DELETE FROM jobs_partitionfact AS fact
 WHERE target = %(here)s AND source <> %(here)s
   AND EXISTS (SELECT FROM jobs_partitionfact AS newer
                WHERE newer.source = fact.source AND newer.target = fact.target AND newer.key = fact.key
                  AND newer.number > fact.number)
"""
_LAST_SENT_OF_KINDS: Final[LiteralString] = """
SELECT DISTINCT ON (target, key) target, key, body FROM jobs_partitionfact
 WHERE source = %(here)s AND split_part(key, ':', 1) = ANY(%(kinds)s)
 ORDER BY target, key, number DESC
"""
_LAST_SENT: Final[LiteralString] = """
SELECT body FROM jobs_partitionfact
 WHERE source = %(source)s AND target = %(target)s AND key = %(key)s ORDER BY number DESC LIMIT 1
"""

_OWN: Final[LiteralString] = """
SELECT body FROM jobs_partitionfact WHERE source = target AND key = %(key)s ORDER BY number DESC LIMIT 1
"""


@dataclass(frozen=True, slots=True)
class Fact:
    """A fact that another partition sent: its source, its key, its content, and its number."""

    source: str
    key: str
    body: Mapping[str, Any]
    number: int


def send_fact(connection: psycopg.Connection[Any], here: str, target: str, key: str, body: Mapping[str, Any]) -> bool:
    """Send a fact to a partition, unless the last one was the same; return True if it is new."""
    facts = {"source": here, "target": target, "key": key, "body": Jsonb(body)}
    return connection.execute(_SEND, facts).fetchone() is not None


class FactSender:
    """
    Sends facts of some kinds (the keys before their first colon).

    The sender is given the facts that were sent `last`, or reads them once. So an unchanged fact needs no statement.
    """

    def __init__(
        self,
        connection: psycopg.Connection[Any],
        here: str,
        *kinds: str,
        last: Mapping[tuple[str, str], Mapping[str, Any]] | None = None,
    ) -> None:
        self._connection, self._here = connection, here
        if last is None:
            rows = connection.execute(_LAST_SENT_OF_KINDS, {"here": here, "kinds": list(kinds)}).fetchall()
            last = {(target, key): body for target, key, body in rows}
        self._last = dict(last)

    def last(self, target: str, key: str) -> Mapping[str, Any] | None:
        """Return the fact that was sent to a partition last; None without one."""
        return self._last.get((target, key))

    def send(self, target: str, key: str, body: Mapping[str, Any]) -> bool:
        """Send a fact to a partition, unless the last one was the same; return True if it is new."""
        if self._last.get((target, key)) == body:
            return False
        self._last[target, key] = body
        return send_fact(self._connection, self._here, target, key, body)

    def send_all(self, placement: Placement, key: str, body: Mapping[str, Any]) -> bool:
        """Send a fact to all other partitions; return True if it is new to at least one partition."""
        return sum(self.send(target, key, body) for target in placement.others) > 0


def sent_fact(connection: psycopg.Connection[Any], here: str, target: str, key: str) -> Mapping[str, Any] | None:
    """Return the fact that was sent to a partition last; None without one."""
    row = connection.execute(_LAST_SENT, {"source": here, "target": target, "key": key}).fetchone()
    return row[0] if row else None


def own_fact(connection: psycopg.Connection[Any], key: str) -> Mapping[str, Any] | None:
    """
    Return the fact with this key that the database noted for itself; None without one. The caller need not know the
    name of its partition.
    """
    row = connection.execute(_OWN, {"key": key}).fetchone()
    return row[0] if row else None


def received_facts(connection: psycopg.Connection[Any], here: str, *, kind: str) -> list[Fact]:
    """Return the newest facts of one kind (the key before its first colon) from all other partitions."""
    rows = connection.execute(_RECEIVED, {"here": here, "like": f"{kind}:%"}).fetchall()
    return [Fact(*row) for row in rows]


def read_facts(connection: psycopg.Connection[Any], here: str, *kinds: str) -> tuple[list[Fact], FactSender]:
    """
    Return the newest facts of these kinds from all other partitions, and a sender of facts of these kinds. It takes one
    statement.
    """
    rows = connection.execute(_EXCHANGED, {"here": here, "kinds": list(kinds)}).fetchall()
    last_sent = {(target, key): body for source, target, key, body, _ in rows if source == here}
    received = [Fact(source, key, body, number) for source, _, key, body, number in rows if source != here]
    return received, FactSender(connection, here, last=last_sent)


def forget_superseded(connection: psycopg.Connection[Any], here: str) -> int:
    """Delete received facts that newer ones replaced; return their number."""
    return connection.execute(_FORGET_SUPERSEDED, {"here": here}).rowcount


def not_adopted(connection: psycopg.Connection[Any], here: str, *, kind: str) -> list[Fact]:
    """
    Return the newest facts of a kind that this partition has not stored yet.

    For each stored fact, the partition keeps a note: a fact for itself, which is not sent.
    """
    rows = connection.execute(_NOT_ADOPTED, {"here": here, "like": f"{kind}:%"}).fetchall()
    return [Fact(*row) for row in rows]


def note_adopted(connection: psycopg.Connection[Any], here: str, fact: Fact) -> None:
    """Note that this partition has stored the content of the fact."""
    send_fact(connection, here, here, fact.key, {"number": fact.number, "source": fact.source})
