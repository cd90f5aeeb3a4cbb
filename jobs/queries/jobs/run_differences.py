"""Documents whose result in a run differs from their result before the run, as the flushes of the run counted them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from django.db import connection

from jobs.lifecycle.endings import Kind, code_of, kind_of_flip, outcome_of
from jobs.models import Outcome, Run
from jobs.queue.counting.counters import EXAMPLES

# Largest number of runs between two compared runs for which the differences are added up.
_RUNS: Final = 30
# Concatenates the examples of several rows: the first example of each row, then the second of each. So each row gives
# an example before the list is cut.
_EXAMPLES: Final = " || ".join(
    f"array_agg(difference.examples[{place}]) FILTER (WHERE cardinality(difference.examples) >= {place})"
    for place in range(1, EXAMPLES + 1)
)
_READ: Final = f"""
SELECT difference.before, difference.after, max(difference.code), coalesce(bin.name, ''), sum(difference.amount)::bigint,
       ({_EXAMPLES})[:{EXAMPLES}]
  FROM jobs_rundifference AS difference LEFT JOIN jobs_bin AS bin ON bin.id = difference.bin_id
 WHERE difference.job_id = %(job)s AND difference.run_no > %(earlier)s AND difference.run_no <= %(later)s
 GROUP BY difference.before, difference.after, bin.name
HAVING sum(difference.amount) > 0
"""


@dataclass(frozen=True, slots=True)
class Result:
    """
    A result of documents: the outcome and the result code. Codes that are not numbers are known for the later run only.
    """

    outcome: Outcome
    code: str


@dataclass(frozen=True, slots=True)
class Flip:
    """
    A number of documents of one host that have another result than before, and the first of these documents. The result
    before is None for documents that were unknown.

    The host is '' for all hosts together.
    """

    kind: Kind
    earlier: Result | None
    later: Result | None
    host: str
    number: int
    examples: Sequence[str]


@dataclass(frozen=True, slots=True)
class Flips:
    """
    The documents that differ between two runs, the largest numbers first.

    If other runs lie between the two, the numbers are upper limits, because a document may have changed more than once.
    """

    are_limits: bool
    of_hosts: Sequence[Flip]

    def number_of(self, kind: Kind) -> int:
        return sum(flip.number for flip in self.of_hosts if flip.kind == kind)

    def of_kind(self, kind: Kind, *, most: int) -> list[Flip]:
        return [flip for flip in self.of_hosts if flip.kind == kind][:most]


def read_flips(job_id: int, earlier: int, later: int) -> Flips | None:
    """Return the flips between two runs in the database of this thread; None if they were not counted in all runs."""
    counted = Run.objects.filter(job_id=job_id, run_no__gte=earlier, run_no__lte=later)
    if later - earlier >= _RUNS or not all(counted.values_list("has_differences", flat=True)):
        return None
    facts = {"job": job_id, "earlier": earlier, "later": later}
    with connection.cursor() as cursor:
        cursor.execute(_READ, facts)
        rows = cursor.fetchall()
    found = [_flip(*row) for row in rows]
    return Flips(later - earlier > 1, _largest_first(flip for flip in found if flip is not None))


def merge_flips(parts: Iterable[Flips | None]) -> Flips | None:
    """Return the flips of all partitions; None if a partition has no counts."""
    found: dict[tuple[object, ...], Flip] = {}
    are_limits = False
    for part in parts:
        if part is None:
            return None
        are_limits = are_limits or part.are_limits
        for flip in part.of_hosts:
            key = (flip.kind, flip.earlier, flip.later, flip.host)
            known = found.get(key)
            found[key] = flip if known is None else _sum(known, flip)
    return Flips(are_limits, _largest_first(found.values()))


def _sum(one: Flip, other: Flip) -> Flip:
    return replace(one, number=one.number + other.number, examples=[*one.examples, *other.examples][:EXAMPLES])


def _largest_first(flips: Iterable[Flip]) -> list[Flip]:
    return sorted(flips, key=lambda flip: (-flip.number, flip.host, flip.later.code if flip.later else ""))


def _flip(before: int, after: int, code: str, host: str, number: int, examples: Sequence[str] | None) -> Flip | None:
    kind = kind_of_flip(before, after)
    if kind is None:
        return None
    earlier, later = _result(before, code_of(before)), _result(after, code or code_of(after))
    return Flip(kind, earlier, later, host, number, list(examples or ()))


def _result(result: int, code: str) -> Result | None:
    return Result(Outcome(outcome_of(result)), code) if result else None
