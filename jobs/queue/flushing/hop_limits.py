"""
Hop limits in the queue: moves documents that came within the limits of their job, or left them.

A document outside the limits stays as HOPCOUNT_REMOVED: known, never handed out. While an output may still hold it
(`indexed_before`), it waits for its removal there. When it comes within the limits, it is due and is read
unconditionally. If the document is claimed at that time, the decision is made when its outcome is flushed.

In a full scan, a document that this run has not discovered yet keeps its older run, whatever its counts are. The run
may still discover the document; otherwise the clean-up removes it.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending
from jobs.lifecycle.document import Action, Stage
from jobs.models import Outcome
from jobs.queue.flushing import hops
from jobs.queue.flushing.hops import HopGraph
from jobs.queue.flushing.outcomes import JobFacts, Key, Result
from jobs.queue.sql.order import FRESH
from jobs.queue.sql.stages import PENDING_OR_DONE

# If a document comes within the limits while it is being removed from the outputs, it is marked, and its removal is
# given up. Locks: QueueItem by hash, except rows that are being processed. So this never waits for a flush or a release
# that holds one row and waits for another.
_APPLY: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED (
    SELECT item.hash, item.lane_id, item.run_no, item.stage, item.outcome, item.result_code, judged.is_within
      FROM unnest(%(hashes)s::uuid[], %(within)s::bool[]) AS judged(hash, is_within)
      JOIN jobs_queueitem AS item ON item.hash = judged.hash AND item.job_id = %(job)s
     WHERE CASE WHEN judged.is_within
                THEN item.stage IN ({Stage.HOPCOUNT_REMOVED:d}, {Stage.BEING_CLEANED:d}) AND NOT item.rescan
                     AND (item.run_no = %(run)s OR NOT %(full)s)
                ELSE item.stage IN {PENDING_OR_DONE} END
     ORDER BY item.hash
       FOR NO KEY UPDATE OF item
), moved AS (
    UPDATE jobs_queueitem AS item
       SET stage = CASE WHEN item.stage = {Stage.BEING_CLEANED:d} THEN item.stage
                        WHEN locked.is_within THEN {Stage.PENDING:d} ELSE {Stage.HOPCOUNT_REMOVED:d} END,
           rescan = item.stage = {Stage.BEING_CLEANED:d},
           run_no = CASE WHEN %(full)s THEN item.run_no ELSE %(run)s END,
           seq = CASE WHEN locked.is_within AND item.stage <> {Stage.BEING_CLEANED:d} THEN {FRESH} END, check_time = NULL,
           action = CASE WHEN item.stage = {Stage.BEING_CLEANED:d} THEN item.action ELSE {Action.PROCESS:d} END, validators = '',
           outcome = {Outcome.NONE:d}, result_code = '', failures = 0, failing_since = NULL
      FROM locked
     WHERE item.hash = locked.hash AND item.job_id = %(job)s
    RETURNING item.lane_id, item.run_no, item.stage, item.indexed_before
), counted AS (
    INSERT INTO jobs_counterdelta (job_id, lane_id, run_no, measure, stage, outcome, code, amount)
    SELECT %(job)s, lane_id, run_no, 'stage', stage, CASE WHEN stage = {Stage.DONE:d} THEN outcome ELSE 0 END,
           CASE WHEN stage = {Stage.DONE:d} THEN result_code ELSE '' END, -count(*)
      FROM locked GROUP BY 2, 3, 5, 6, 7
     UNION ALL
    SELECT %(job)s, lane_id, run_no, 'stage', stage, 0, '', count(*) FROM moved GROUP BY lane_id, run_no, stage
)
SELECT DISTINCT lane_id FROM moved
 WHERE stage = {Stage.PENDING:d} OR (stage = {Stage.HOPCOUNT_REMOVED:d} AND indexed_before)
"""


@dataclass(slots=True)
class Reach:
    """
    The documents within the limits, of all documents that a flush must judge.

    `touched` are the documents whose counts changed.
    """

    within: set[Key] = field(default_factory=set)
    touched: dict[JobFacts, set[str]] = field(default_factory=dict)

    def is_outside(self, key: Key, job: JobFacts) -> bool:
        return job.hops is not None and key not in self.within

    @property
    def left(self) -> dict[JobFacts, set[str]]:
        """Return the documents that are outside the limits now, and may have been within them before."""
        return {
            job: {key for key in touched if (key, job.id) not in self.within} for job, touched in self.touched.items()
        }

    def judged(self, result: Result) -> Result:
        """Return the result to write: a document that left the limits while it was processed leaves the outputs."""
        if not self.is_outside((result.claimed.document.hash, result.job.id), result.job):
            return result
        outcome = replace(
            result.outcome,
            ending=Ending.EXCLUDED,
            code="HOPCOUNT",
            version="",
            validators="",
            content=None,
            references=[],
            removes=True,
            deliveries=None,
        )
        return replace(result, outcome=outcome)


def measure(cursor: psycopg.Cursor[Any], results: Sequence[Result]) -> Reach:
    """Merge the references of these results into the hop counts of their jobs, whose locks are held."""
    reach = Reach()
    for job in sorted({result.job for result in results}, key=lambda job: job.id):
        assert job.hops is not None
        graph = HopGraph(cursor, job.id, job.hops)
        links: dict[str, set[hops.Target]] = {}
        unread: list[str] = []
        for result in results:
            if result.job != job or not result.outcome.ending.is_final:
                continue
            if result.outcome.references is None:
                unread.append(result.claimed.document.hash)
            else:
                links[result.claimed.document.hash] = {(to.hash, to.link_type) for to in result.outcome.references}
        graph.adopt(unread, link_type=job.link_type)
        graph.read(links, unread=unread)
        asked = {result.claimed.document.hash for result in results if result.job == job} | graph.touched
        asked.update(target for named in links.values() for target, _ in named)
        stored = graph.targets_of(unread)
        reach.within |= {(key, job.id) for key in graph.within(asked | stored)}
        reach.touched[job] = graph.touched
    return reach


# True if any seed of the job is not yet part of its run.
_UNSEEDED: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_seed WHERE job_id = %(job)s AND removed_at IS NULL AND seeded_run < %(run)s) AS is_left
"""


def add_seeds_of_run(graph: HopGraph, documents: Collection[str], *, run_no: int, is_full_scan: bool) -> list[int]:
    """
    Make these documents seeds. With the last seed of a full scan, documents that only older runs had as seeds stop
    being seeds.

    Return the lanes that got due documents or removals.
    """
    graph.add_seeds(documents, run_no=run_no)
    row = graph.cursor.execute(_UNSEEDED, {"job": graph.job_id, "run": run_no}).fetchone()
    assert row is not None
    if is_full_scan and not row.is_left:
        graph.remove_old_seeds(run_no=run_no)
    within = graph.within(graph.touched)
    return apply(
        graph.cursor,
        job_id=graph.job_id,
        run_no=run_no,
        is_full_scan=is_full_scan,
        within=within,
        touched=graph.touched,
    )


def drop(cursor: psycopg.Cursor[Any], gone: Sequence[Any], *, jobs: Mapping[int, JobFacts]) -> None:
    """
    Update the hop counts before these rows are deleted: their link targets may leave the limits.

    If a job is being deleted, its counts are deleted without this update.
    """
    for job in sorted((job for job in jobs.values() if job.hops is not None), key=lambda job: job.id):
        assert job.hops is not None
        graph = HopGraph(cursor, job.id, job.hops)
        graph.forget([row.hash.hex for row in gone if row.job_id == job.id and row.stage == Stage.BEING_DELETED])
        graph.drop([row.hash.hex for row in gone if row.job_id == job.id and row.stage != Stage.BEING_DELETED])
        within = graph.within(graph.touched)
        apply(
            cursor,
            job_id=job.id,
            run_no=job.run_no,
            is_full_scan=job.is_full_scan,
            within=within,
            touched=graph.touched,
        )


def apply(
    cursor: psycopg.Cursor[Any], *, job_id: int, run_no: int, is_full_scan: bool, within: set[str], touched: set[str]
) -> list[int]:
    """
    Move the unclaimed documents whose counts changed to their new stage; `within` are the documents within the limits.

    Return the lanes that got due documents or removals.
    """
    if not touched:
        return []
    ordered = sorted(touched)
    facts = {
        "job": job_id,
        "run": run_no,
        "full": is_full_scan,
        "hashes": ordered,
        "within": [key in within for key in ordered],
    }
    return [row.lane_id for row in cursor.execute(_APPLY, facts)]


def hold(cursor: psycopg.Cursor[Any], jobs: Iterable[JobFacts]) -> bool:
    """Lock the hop counts of the jobs among these that have limits; return True if there is such a job."""
    limited = {job.id for job in jobs if job.hops is not None}
    if limited:
        hops.hold(cursor, limited)
    return bool(limited)
