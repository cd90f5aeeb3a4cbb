"""
Counts of the documents that a run's clean-up would remove from the outputs, taken before it begins.

Documents that the run did not reach are found by the index of a lane's runs. So the cost of the counts grows with the
removals, and is nothing if there are none. The counters give the documents that stay.
"""

import uuid
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending
from jobs.guard.decision import HostShare, Parent, ParentState, Seed
from jobs.lifecycle.document import Stage
from jobs.queue.floor import LOWEST_DELTA
from jobs.queue.rows import named_rows

# Parents and examples that a question keeps.
_PARENTS: Final = 20
_EXAMPLES: Final = 20
# Seeds that are looked at, and redirects that are followed from one.
_SEEDS: Final = 10_000
_REDIRECTS: Final = 5

# Of an item: the run did not reach it, and an output may hold it. Documents outside the hop limits leave outputs, too.
_LEAVES: Final[LiteralString] = f"""
(item.run_no < %(before)s AND item.indexed_before
 OR %(takes_out)s AND item.run_no = %(run)s AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before)
"""
_LEAVING: Final[LiteralString] = f"""
SELECT bin.name AS host, sum(lane.leaving)::bigint AS leaving,
       sum(coalesce((SELECT sum(amount) FROM (
           SELECT amount FROM jobs_counter
            WHERE job_id = %(job)s AND run_no = %(run)s AND lane_id = lane.id AND measure = 'stage'
              AND stage = {Stage.DONE:d} AND outcome = ANY(%(held)s)
            UNION ALL
           SELECT amount FROM jobs_counterdelta
            WHERE job_id = %(job)s AND run_no = %(run)s AND lane_id = lane.id AND measure = 'stage'
              AND stage = {Stage.DONE:d} AND outcome = ANY(%(held)s) AND id >= {LOWEST_DELTA}) AS counted), 0))::bigint AS staying
  FROM (SELECT lane.id, lane.bin_id,
               (SELECT count(*) FROM jobs_queueitem AS item
                 WHERE item.lane_id = lane.id AND item.run_no < %(before)s AND item.indexed_before)
               + CASE WHEN %(takes_out)s THEN
                   (SELECT count(*) FROM jobs_queueitem AS item
                     WHERE item.lane_id = lane.id AND item.run_no = %(run)s
                       AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before)
                 ELSE 0 END AS leaving
          FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
         WHERE seed.job_id = %(job)s) AS lane
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 WHERE lane.leaving > 0
 GROUP BY bin.name
 ORDER BY leaving DESC, host
"""
_STAYING: Final[LiteralString] = f"""
SELECT coalesce(sum(amount), 0)::bigint AS staying
  FROM (SELECT stage, outcome, measure, amount FROM jobs_jobcounter WHERE job_id = %(job)s AND run_no = %(run)s
         UNION ALL
        SELECT stage, outcome, measure, amount FROM jobs_counterdelta
         WHERE job_id = %(job)s AND run_no = %(run)s AND id >= {LOWEST_DELTA}) AS counted
 WHERE measure = 'stage' AND stage = {Stage.DONE:d} AND outcome = ANY(%(held)s)
"""
# Seeds that named documents before, some of which would be removed, and where their redirects lead.
_SEEDS_THAT_FAIL: Final[LiteralString] = f"""
WITH RECURSIVE followed AS (
    SELECT hash, 0 AS steps FROM unnest(%(seeds)s::uuid[]) AS seed(hash)
     UNION
    SELECT link.targets[1], followed.steps + 1
      FROM followed JOIN jobs_outlinks AS link ON link.hash = followed.hash AND link.job_id = %(job)s AND link.is_redirect
     WHERE followed.steps < {_REDIRECTS}
)
SELECT DISTINCT source.identifier, source.outcome, source.result_code, cardinality(link.targets) AS names, link.is_redirect
  FROM followed
  JOIN jobs_queueitem AS source ON source.hash = followed.hash AND source.job_id = %(job)s
       AND source.run_no = %(run)s AND source.stage = {Stage.DONE:d}
  JOIN jobs_outlinks AS link ON link.hash = followed.hash AND link.job_id = %(job)s AND link.lost IS NOT NULL
 WHERE (cardinality(link.targets) = 0 OR link.is_redirect)
   AND EXISTS (SELECT FROM unnest(link.lost) AS child(hash)
                 JOIN jobs_queueitem AS item ON item.hash = child.hash AND item.job_id = %(job)s AND {_LEAVES})
 ORDER BY source.identifier
 LIMIT {_PARENTS}
"""
_PARENTS_OF_IT: Final[LiteralString] = f"""
SELECT source.identifier, source.outcome, source.result_code, cardinality(link.targets) AS names, link.is_redirect,
       count(*) AS children
  FROM jobs_outlinks AS link
 CROSS JOIN LATERAL unnest(link.lost) AS child(hash)
  JOIN jobs_queueitem AS item ON item.hash = child.hash AND item.job_id = link.job_id AND {_LEAVES}
  JOIN jobs_queueitem AS source ON source.hash = link.hash AND source.job_id = link.job_id AND source.run_no = %(run)s
 WHERE link.job_id = %(job)s AND link.lost IS NOT NULL
 GROUP BY 1, 2, 3, 4, 5
 ORDER BY children DESC, source.identifier
 LIMIT {_PARENTS}
"""
_SOME: Final[LiteralString] = f"""
SELECT item.identifier
  FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
 CROSS JOIN LATERAL (SELECT item.identifier FROM jobs_queueitem AS item
                      WHERE item.lane_id = lane.id AND item.run_no <= %(run)s AND {_LEAVES}
                      LIMIT {_EXAMPLES}) AS item
 WHERE seed.job_id = %(job)s
 LIMIT {_EXAMPLES}
"""


class Unreached:
    """The documents that the clean-up of one run would remove. `takes_out` if its hop limits take documents out of outputs."""

    def __init__(
        self, connection: psycopg.Connection[Any], *, job_id: int, run_no: int, is_full_scan: bool, takes_out: bool
    ) -> None:
        self._connection = connection
        self._facts = {
            "job": job_id,
            "run": run_no,
            # Only a full scan concludes from what it did not reach.
            "before": run_no if is_full_scan else 0,
            "takes_out": takes_out,
            "held": [int(Ending.INDEXED), int(Ending.UNCHANGED)],
        }

    def hosts(self) -> list[HostShare]:
        """Return all hosts with documents that would be removed, those with the most first."""
        return [HostShare(row.host, row.leaving, row.staying) for row in self._rows(_LEAVING)]

    def staying(self) -> int:
        """Return how many documents of the job the run has read, and outputs hold."""
        return int(self._rows(_STAYING)[0].staying)

    def seeds(self, hashes: Sequence[uuid.UUID]) -> list[Seed]:
        """Return the seeds, of these, that no longer name documents that would be removed."""
        rows = self._rows(_SEEDS_THAT_FAIL, seeds=list(hashes)[:_SEEDS])
        return [Seed(row.identifier, _state_of(row), row.result_code) for row in rows]

    def parents(self) -> list[Parent]:
        """Return documents that no longer name the removed ones, those that had named the most first."""
        rows = self._rows(_PARENTS_OF_IT)
        return [Parent(row.identifier, _state_of(row), row.result_code, row.children) for row in rows]

    def examples(self) -> list[str]:
        """Return the identifiers of some documents that would be removed."""
        return [row.identifier for row in self._rows(_SOME)]

    def _rows(self, statement: LiteralString, **more: object) -> list[Any]:
        with named_rows(self._connection) as cursor:
            return cursor.execute(statement, {**self._facts, **more}).fetchall()


def _state_of(row: Any) -> ParentState:
    if row.is_redirect:
        return ParentState.REDIRECTS
    if row.names:
        return ParentState.CHANGED
    return ParentState.EMPTY if row.outcome in {Ending.INDEXED, Ending.UNCHANGED} else ParentState.GONE
