"""
Freshness in a flush: each look is evidence of the change rate of its document, and the plan gives the next interval.

This concerns only documents with a freshness goal. Other flushes run no further statement.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending
from jobs.freshness.looks import looks
from jobs.freshness.pricing import LONGEST, LanePlan
from jobs.freshness.rates import NO_EVIDENCE, after_look, pack, unpack
from jobs.queue.flushing.outcomes import Key, Result
from jobs.queue.sql.arrays import Hashes

# Locks: none. The flush holds the rows of these documents.
_KNOWN: Final[LiteralString] = """
SELECT rate.lane_id, rate.hash, rate.looked_at, rate.evidence
  FROM unnest(%(lanes)s::bigint[], %(hashes)s::uuid[]) AS wanted(lane_id, hash)
  JOIN jobs_changerate AS rate ON rate.lane_id = wanted.lane_id AND rate.hash = wanted.hash
"""
_PLANS: Final[LiteralString] = "SELECT lane_id, goals, plan FROM jobs_laneplan WHERE lane_id = ANY(%(lanes)s)"
# Locks: ChangeRate by (lane, hash), whose documents the flush holds, and inserted plans by lane.
_WRITE: Final[LiteralString] = """
WITH begun AS (
    INSERT INTO jobs_laneplan (lane_id, job_id, since, due_at)
    SELECT lane_id, job_id, %(now)s, %(now)s FROM unnest(%(new_lanes)s::bigint[], %(new_jobs)s::bigint[]) AS new(lane_id, job_id)
     ORDER BY lane_id
    ON CONFLICT (lane_id) DO NOTHING
)
INSERT INTO jobs_changerate (lane_id, hash, looked_at, evidence)
SELECT lane_id, hash, %(now)s, evidence
  FROM unnest(%(lanes)s::bigint[], %(hashes)s::uuid[], %(evidences)s::bytea[]) AS look(lane_id, hash, evidence)
 ORDER BY lane_id, hash
ON CONFLICT (lane_id, hash) DO UPDATE SET looked_at = excluded.looked_at, evidence = excluded.evidence
"""
_ARE_LOOKS: Final = frozenset({Ending.INDEXED, Ending.UNCHANGED})


@dataclass(slots=True)
class Looked:
    """
    The documents with a goal that a flush has looked at. `waits` has the interval to the next look at each document.
    """

    waits: dict[Key, dt.timedelta] = field(default_factory=dict)
    _rows: list[tuple[int, str, bytes]] = field(default_factory=list)
    _new: dict[int, int] = field(default_factory=dict)

    def write(self, cursor: psycopg.Cursor[Any], *, now: dt.datetime) -> None:
        """Store the evidence of these looks, and insert a plan that is due now for each lane without one."""
        if not self._rows:
            return
        cursor.execute(
            _WRITE,
            {
                "now": now,
                "lanes": [lane for lane, _hash, _evidence in self._rows],
                "hashes": Hashes(hash_ for _lane, hash_, _evidence in self._rows),
                "evidences": [evidence for _lane, _hash, evidence in self._rows],
                "new_lanes": list(self._new),
                "new_jobs": list(self._new.values()),
            },
        )


def look(
    cursor: psycopg.Cursor[Any], results: Sequence[Result], rows: Mapping[Key, Any], *, now: dt.datetime
) -> Looked:
    """Return the evidence of these results about the change rates of their documents. `rows` are the held documents."""
    looked = Looked()
    wanted = [
        (result, rows[result.claimed.document.hash, result.job.id], number)
        for result in results
        if result.job.goals is not None
        and result.job.intervals is not None
        and result.outcome.ending in _ARE_LOOKS
        and (number := result.job.goals.number_of(result.claimed.document.identifier)) is not None
    ]
    if not wanted:
        return looked
    facts = {
        "lanes": [row.lane_id for _result, row, _goal in wanted],
        "hashes": Hashes(result.claimed.document.hash for result, _row, _goal in wanted),
    }
    known = {(row.lane_id, row.hash.hex): row for row in cursor.execute(_KNOWN, facts)}
    stored = {row.lane_id: row for row in cursor.execute(_PLANS, {"lanes": sorted(set(facts["lanes"]))})}
    plans: dict[int, LanePlan] = {}
    for result, row, number in wanted:
        job, document, lane = result.job, result.claimed.document, row.lane_id
        assert job.goals is not None
        assert job.intervals is not None
        before = known.get((lane, document.hash))
        evidence = NO_EVIDENCE if before is None else unpack(before.evidence)
        since = 0.0 if before is None else (now - before.looked_at).total_seconds()
        if before is not None and _shows_changes(result):
            evidence = after_look(evidence, since, changed=result.outcome.ending == Ending.INDEXED)
        if lane not in plans:
            found = stored.get(lane)
            if found is None:
                looked._new[lane] = job.id  # noqa: SLF001
            plans[lane] = LanePlan.from_json(found.plan if found and found.goals == job.goals.version else {})
        table = looks(job.goals.terms[number].within, longest_of(job.intervals.recrawl_at_most))
        seconds = plans[lane].interval(number, document.identifier, evidence, table, since=since)
        looked.waits[document.hash, job.id] = dt.timedelta(seconds=seconds)
        looked._rows.append((lane, document.hash, pack(evidence)))  # noqa: SLF001
    return looked


def longest_of(at_most: dt.timedelta | None) -> float:
    """Return the longest interval between two looks for a job with goals, in seconds, from the bound of the job."""
    return LONGEST if at_most is None else at_most.total_seconds()


def _shows_changes(result: Result) -> bool:
    """
    True if a difference from the stored version means that the document changed: both versions were made under the
    present configuration of the job.
    """
    made_under = result.claimed.document.version.partition(":")[0].partition("+")[0]
    return made_under == result.job.configuration
