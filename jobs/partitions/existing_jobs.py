"""
The jobs that exist: the control partition sends the numbers of its jobs.

The other partitions delete a job whose number was not sent again. All partitions forget the facts of deleted jobs. A
number above the highest sent number belongs to a new job, which is not deleted.
"""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.partitions.facts import Fact, FactSender
from jobs.partitions.placement import Placement

KIND: Final = "jobs"
_KEY: Final = f"{KIND}:all"
# Only the control partition sends this fact.
_LIVING: Final[LiteralString] = """
SELECT body FROM jobs_partitionfact WHERE key = 'jobs:all' ORDER BY number DESC LIMIT 1
"""
_FORGET_DELETED: Final[LiteralString] = """
DELETE FROM jobs_partitionfact AS fact
 USING (SELECT source, number, split_part(key, ':', 2)::bigint AS job_number FROM jobs_partitionfact
         WHERE key SIMILAR TO '(run|job|figures):[0-9]+') AS about
 WHERE about.source = fact.source AND about.number = fact.number
   AND about.job_number <= %(highest)s AND about.job_number <> ALL(%(numbers)s)
   AND NOT EXISTS (SELECT FROM jobs_partitionedjob AS known WHERE known.number = about.job_number)
"""

# The recursion reads each number of a job once from the index, because a crawl may have millions of references.
_FORGET_REFERENCES: Final[LiteralString] = """
WITH RECURSIVE present AS (
    SELECT min(job_number) AS number FROM jobs_foreignreference
     UNION ALL
    SELECT (SELECT min(job_number) FROM jobs_foreignreference WHERE job_number > present.number)
      FROM present WHERE present.number IS NOT NULL
)
DELETE FROM jobs_foreignreference
 WHERE job_number IN (
       SELECT number FROM present
        WHERE number <= %(highest)s AND number <> ALL(%(numbers)s)
          AND NOT EXISTS (SELECT FROM jobs_partitionedjob AS known WHERE known.number = present.number))
"""
_FORGET_COUNTS: Final[LiteralString] = """
DELETE FROM jobs_appliedreferences AS applied
 WHERE job_number <= %(highest)s AND job_number <> ALL(%(numbers)s)
   AND NOT EXISTS (SELECT FROM jobs_partitionedjob AS known WHERE known.number = applied.job_number)
"""


@dataclass(frozen=True, slots=True)
class Living:
    """The numbers of the jobs that exist, and the highest number that was ever sent."""

    numbers: frozenset[int]
    highest: int

    def has_deleted(self, number: int) -> bool:
        return number <= self.highest and number not in self.numbers


def send_living(sender: FactSender, placement: Placement, numbers: Collection[int]) -> bool:
    """
    Send the numbers of all jobs of partitions to the other partitions. Return True if one of these has not received
    them yet.
    """
    before = sender.last(placement.others[0], _KEY) or {"highest": 0}
    body = {"numbers": sorted(numbers), "highest": max(before["highest"], *numbers, 0)}
    return sender.send_all(placement, _KEY, body)


def read_living(connection: psycopg.Connection[Any]) -> Living | None:
    """
    Return the jobs that exist, according to the last fact of the control partition; None before the first such fact.
    """
    row = connection.execute(_LIVING).fetchone()
    return Living(frozenset(row[0]["numbers"]), row[0]["highest"]) if row else None


def find_living(received: Iterable[Fact]) -> Living | None:
    """
    Return the jobs that exist, according to these received facts; None if no fact of the control partition is among
    them.
    """
    lists = [fact for fact in received if fact.key == _KEY]
    newest = max(lists, key=lambda fact: fact.number, default=None)
    return Living(frozenset(newest.body["numbers"]), newest.body["highest"]) if newest else None


def forget_deleted(connection: psycopg.Connection[Any]) -> int:
    """
    Delete the facts and references of jobs that exist neither here nor in the control partition; return the number of
    deleted rows.
    """
    living = read_living(connection)
    if living is None:
        return 0
    facts = {"highest": living.highest, "numbers": list(living.numbers)}
    return sum(
        connection.execute(statement, facts).rowcount
        for statement in (_FORGET_DELETED, _FORGET_REFERENCES, _FORGET_COUNTS)
    )
