"""
Carry-down: the values that documents pass to their children, and the children that must be read again after a change of
these values.

A child gets the values of all its parents: for each name the union, sorted. The values are read when the child is
taken. The values of a parent stay until the parent is read again, leaves the hop limits or is dropped. If a change of a
parent changes the union for a child, the child is due again: a done child becomes pending, and an active child is read
once more. In a full scan, a child that the run has not discovered yet is left alone: its discovery makes it due.

Two flushes at the same time may each remove one of the last two parents that pass a value. Each would still see the
other parent's value, so the rows of the children are locked before their values are read. Jobs that never carried a
value skip this module.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Carried
from jobs.lifecycle.document import Action, Stage
from jobs.queue.flushing.carried import merged
from jobs.queue.flushing.outcomes import JobFacts, Key, Result
from jobs.queue.sql.order import FRESH
from jobs.queue.take import Claimed

# Locks: Job by id.
_BEGIN: Final[LiteralString] = """
UPDATE jobs_job SET carries = true
 WHERE id IN (SELECT id FROM jobs_job WHERE id = ANY(%(jobs)s) AND NOT carries ORDER BY id FOR NO KEY UPDATE)
"""
_CHILDREN: Final[LiteralString] = """
SELECT DISTINCT passed.child, passed.job_id
  FROM unnest(%(jobs)s::bigint[], %(hashes)s::uuid[]) AS parent(job_id, hash)
  JOIN jobs_carrydown AS passed ON passed.job_id = parent.job_id AND passed.parent = parent.hash
"""
_STORED: Final[LiteralString] = """
SELECT passed.job_id, passed.child, passed.parent, passed.carried
  FROM unnest(%(jobs)s::bigint[], %(hashes)s::uuid[]) AS child(job_id, hash)
  JOIN jobs_carrydown AS passed ON passed.job_id = child.job_id AND passed.child = child.hash
"""
# Locks: CarryDown, rows of parents that this transaction holds.
_WRITE: Final[LiteralString] = """
WITH dropped AS (
    DELETE FROM jobs_carrydown AS passed
     USING unnest(%(old_jobs)s::bigint[], %(old_children)s::uuid[], %(old_parents)s::uuid[]) AS old(job_id, child, parent)
     WHERE passed.job_id = old.job_id AND passed.child = old.child AND passed.parent = old.parent
)
INSERT INTO jobs_carrydown (job_id, child, parent, carried)
SELECT job_id, child, parent, carried::jsonb
  FROM unnest(%(jobs)s::bigint[], %(children)s::uuid[], %(parents)s::uuid[], %(carried)s::text[])
       AS passed(job_id, child, parent, carried)
ON CONFLICT (job_id, child, parent) DO UPDATE SET carried = excluded.carried
"""
# Locks: QueueItem by (hash, job).
_REQUEUE: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT item.hash, item.job_id, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code,
           changed.run_no AS run
      FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[], %(runs)s::int[], %(full)s::bool[])
           AS changed(hash, job_id, run_no, is_full)
      JOIN jobs_queueitem AS item ON item.hash = changed.hash AND item.job_id = changed.job_id
     WHERE item.stage IN ({Stage.DONE:d}, {Stage.ACTIVE:d}) AND (item.run_no = changed.run_no OR NOT changed.is_full)
     ORDER BY item.hash, item.job_id
       FOR NO KEY UPDATE OF item
), moved AS (
    UPDATE jobs_queueitem AS item
       SET stage = CASE WHEN locked.stage = {Stage.DONE:d} THEN {Stage.PENDING:d} ELSE locked.stage END,
           rescan = locked.stage = {Stage.ACTIVE:d},
           run_no = CASE WHEN locked.stage = {Stage.DONE:d} THEN locked.run ELSE item.run_no END,
           seq = CASE WHEN locked.stage = {Stage.DONE:d} THEN {FRESH} ELSE item.seq END,
           check_time = CASE WHEN locked.stage = {Stage.DONE:d} THEN NULL ELSE item.check_time END,
           action = CASE WHEN locked.stage = {Stage.DONE:d} THEN {Action.PROCESS:d} ELSE item.action END
      FROM locked
     WHERE item.hash = locked.hash AND item.job_id = locked.job_id
    RETURNING item.job_id, item.lane_id, item.run_no, item.stage
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT job_id, lane_id, run_no, 'stage', stage, outcome, result_code, -count(*)
      FROM locked WHERE stage = {Stage.DONE:d} GROUP BY job_id, lane_id, run_no, stage, outcome, result_code
     UNION ALL
    SELECT job_id, lane_id, run_no, 'stage', stage, 0, '', count(*)
      FROM moved WHERE stage = {Stage.PENDING:d} GROUP BY job_id, lane_id, run_no, stage
)
SELECT DISTINCT lane_id FROM moved WHERE stage = {Stage.PENDING:d}
"""


@dataclass(slots=True)
class Carrying:
    """
    The values that documents pass from now on. They are stored by (parent, job), then by child, then by name; empty for
    a parent that passes none.

    `jobs` has the facts of each job by its id.
    """

    passed: dict[Key, dict[str, Carried]] = field(default_factory=dict)
    jobs: dict[int, JobFacts] = field(default_factory=dict)

    def set_passed(self, parent: str, job: JobFacts, to_children: Iterable[tuple[str, Carried | None]]) -> None:
        """Record the values that this document passes after it was read, instead of the values before."""
        self.jobs[job.id] = job
        given: dict[str, Carried] = {}
        for child, carried in to_children:
            if carried:
                # If links of two types lead to a child, it gets the values of both links.
                given[child] = merged([given.get(child, {}), carried]) or {}
        self.passed[parent, job.id] = given

    def set_nothing_passed(self, parent: str, job: JobFacts) -> None:
        """Record that this document no longer passes anything."""
        self.set_passed(parent, job, ())

    def children(self, cursor: psycopg.Cursor[Any]) -> set[Key]:
        """Return the children that get values now, or had values before; the caller locks them before `write`."""
        if not self.passed:
            return set()
        parents = {"hashes": [key for key, _ in self.passed], "jobs": [job for _, job in self.passed]}
        before = {(row.child.hex, row.job_id) for row in cursor.execute(_CHILDREN, parents)}
        return before | {(child, job) for (_, job), given in self.passed.items() for child in given}

    def write(self, cursor: psycopg.Cursor[Any], children: Collection[Key]) -> set[Key]:
        """Store the passed values; return those of the locked `children` whose values changed."""
        if not children:
            return set()
        wanted = {"hashes": [key for key, _ in children], "jobs": [job for _, job in children]}
        # The stored data, by child and parent.
        before: dict[Key, dict[str, Any]] = {}
        for row in cursor.execute(_STORED, wanted):
            before.setdefault((row.child.hex, row.job_id), {})[row.parent.hex] = row.carried
        after = {child: dict(parents) for child, parents in before.items()}
        old: list[tuple[int, str, str]] = []
        new: list[tuple[int, str, str, str]] = []
        for (child, job), parents in before.items():
            for parent in parents:
                if (parent, job) in self.passed and child not in self.passed[parent, job]:
                    del after[child, job][parent]
                    old.append((job, child, parent))
        for (parent, job), given in self.passed.items():
            for child, carried in given.items():
                if before.get((child, job), {}).get(parent) != _as_stored(carried):
                    after.setdefault((child, job), {})[parent] = carried
                    new.append((job, child, parent, json.dumps(carried)))
        if old or new:
            cursor.execute(_WRITE, _columns(old, new))
        return {child for child in after if merged(before.get(child, {}).values()) != merged(after[child].values())}

    def requeue(self, cursor: psycopg.Cursor[Any], changed: Collection[Key]) -> list[int]:
        """Make the `changed` documents due again; return the lanes that got due documents."""
        if not changed:
            return []
        ordered = sorted(changed)
        facts = {
            "hashes": [key for key, _ in ordered],
            "jobs": [job for _, job in ordered],
            "runs": [self.jobs[job].run_no for _, job in ordered],
            "full": [self.jobs[job].is_full_scan for _, job in ordered],
        }
        return [row.lane_id for row in cursor.execute(_REQUEUE, facts)]


def of_results(results: Sequence[Result], *, left: Mapping[JobFacts, Collection[str]]) -> Carrying:
    """
    Return the values that these documents pass, in jobs with carry-down. Documents that `left` the hop limits of their
    job pass nothing.
    """
    passing = Carrying()
    for job in {result.job for result in results if result.claimed.carries} & left.keys():
        for parent in left[job]:
            passing.set_nothing_passed(parent, job)
    for result in results:
        outcome = result.outcome
        if not (outcome.carries or result.claimed.carries) or outcome.references is None:
            continue
        if outcome.ending.is_final:
            passing.set_passed(
                result.claimed.document.hash, result.job, ((named.hash, named.carry) for named in outcome.references)
            )
    return passing


def passing_nothing(claims: Iterable[Claimed], *, jobs: Mapping[int, JobFacts]) -> Carrying:
    """Return a `Carrying` in which these claimed documents pass nothing any more, for jobs with carry-down."""
    passing = Carrying()
    for claimed in claims:
        if claimed.carries:
            passing.set_nothing_passed(claimed.document.hash, jobs[claimed.job_id])
    return passing


def begin(connection: psycopg.Connection[Any], jobs: Iterable[int]) -> None:
    """
    Mark these jobs as carrying: their documents read the passed values when they are taken.

    This transaction comes before the transaction that writes the values, so no document is taken without its values.
    """
    connection.execute(_BEGIN, {"jobs": list(jobs)})


def forget(connection: psycopg.Connection[Any], *, job_id: int) -> None:
    """Delete all that documents of this job passed."""
    connection.execute("DELETE FROM jobs_carrydown WHERE job_id = %s", (job_id,))


def _as_stored(carried: Carried) -> dict[str, list[str]]:
    return {name: list(values) for name, values in carried.items()}


def _columns(old: list[tuple[int, str, str]], new: list[tuple[int, str, str, str]]) -> dict[str, list[Any]]:
    return {
        "old_jobs": [job for job, _, _ in old],
        "old_children": [child for _, child, _ in old],
        "old_parents": [parent for _, _, parent in old],
        "jobs": [job for job, _, _, _ in new],
        "children": [child for _, child, _, _ in new],
        "parents": [parent for _, _, parent, _ in new],
        "carried": [carried for _, _, _, carried in new],
    }
