"""
Counts of the documents that a run's clean-up would remove from the outputs, taken before it begins.

An index of a lane's runs finds the documents that the run did not reach. So the cost of the counts grows with the
number of removals. The number of documents that stay comes from the counters.
"""

import uuid
from collections.abc import Sequence
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Ending
from jobs.guard.decision import HostShare, Parent, ParentState, Seed
from jobs.lifecycle.document import Stage
from jobs.queue.sql.low_water import LOWEST_DELTA
from jobs.queue.sql.rows import named_rows

# Numbers of parents and of examples that are stored with a request for approval.
_PARENTS: Final = 20
EXAMPLES: Final = 20
# Largest numbers of documents to follow from parents, and to compare with rules. Each document takes microseconds.
FOLLOWED: Final = 50_000
COMPARED: Final = 1_000
# Largest numbers of seeds to examine, and of redirects to follow from one seed.
_SEEDS: Final = 10_000
_REDIRECTS: Final = 5

# True for an item that the run did not reach and an output may hold. Documents outside the hop limits leave outputs
# too.
_LEAVES: Final[LiteralString] = f"""
(item.run_no < %(before)s AND item.indexed_before
 OR %(takes_out)s AND item.run_no = %(run)s AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before)
"""
# The documents that stay are counted over all lanes of a host, because several seeds may have a lane there.
_LEAVING: Final[LiteralString] = f"""
WITH leaving AS MATERIALIZED (
    SELECT lane.bin_id, sum(lane.leaving)::bigint AS leaving
      FROM (SELECT lane.bin_id,
                   (SELECT count(*) FROM jobs_queueitem AS item
                     WHERE item.lane_id = lane.id AND item.run_no < %(before)s AND item.indexed_before)
                   + CASE WHEN %(takes_out)s THEN
                       (SELECT count(*) FROM jobs_queueitem AS item
                         WHERE item.lane_id = lane.id AND item.run_no = %(run)s
                           AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before)
                     ELSE 0 END AS leaving
              FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
             WHERE seed.job_id = %(job)s) AS lane
     WHERE lane.leaving > 0
     GROUP BY lane.bin_id
)
SELECT bin.name AS host, leaving.leaving, staying.amount AS staying
  FROM leaving
  JOIN jobs_bin AS bin ON bin.id = leaving.bin_id
 CROSS JOIN LATERAL (
       SELECT coalesce(sum((SELECT coalesce(sum(amount), 0) FROM (
                  SELECT amount FROM jobs_counter
                   WHERE job_id = %(job)s AND run_no = %(run)s AND lane_id = lane.id AND measure = 'stage'
                     AND stage = {Stage.DONE:d} AND outcome = ANY(%(held)s)
                   UNION ALL
                  SELECT amount FROM jobs_counterdelta
                   WHERE job_id = %(job)s AND run_no = %(run)s AND lane_id = lane.id AND measure = 'stage'
                     AND stage = {Stage.DONE:d} AND outcome = ANY(%(held)s) AND id >= {LOWEST_DELTA}) AS counted)), 0)::bigint AS amount
         FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id AND lane.bin_id = leaving.bin_id
        WHERE seed.job_id = %(job)s) AS staying
 ORDER BY leaving.leaving DESC, host
"""
_STAYING: Final[LiteralString] = f"""
SELECT coalesce(sum(amount), 0)::bigint AS staying
  FROM (SELECT stage, outcome, measure, amount FROM jobs_jobcounter WHERE job_id = %(job)s AND run_no = %(run)s
         UNION ALL
        SELECT stage, outcome, measure, amount FROM jobs_counterdelta
         WHERE job_id = %(job)s AND run_no = %(run)s AND id >= {LOWEST_DELTA}) AS counted
 WHERE measure = 'stage' AND stage = {Stage.DONE:d} AND outcome = ANY(%(held)s)
"""
# Seeds that named documents before, some of which would be removed, and the targets of their redirects.
_SEEDS_THAT_FAIL: Final[LiteralString] = f"""
WITH RECURSIVE followed AS (
    SELECT hash, 0 AS steps FROM unnest(%(seeds)s::uuid[]) AS seed(hash)
     UNION
    SELECT link.targets[1], followed.steps + 1
      FROM followed JOIN jobs_outlinks AS link ON link.hash = followed.hash AND link.job_id = %(job)s AND link.is_redirect
     WHERE followed.steps < {_REDIRECTS}
)
SELECT DISTINCT source.identifier, bin.name AS host, source.outcome, source.result_code, cardinality(link.targets) AS names,
       link.is_redirect, link.is_replaced
  FROM followed
  JOIN jobs_queueitem AS source ON source.hash = followed.hash AND source.job_id = %(job)s
       AND source.run_no = %(run)s AND source.stage = {Stage.DONE:d}
  JOIN jobs_lane AS lane ON lane.id = source.lane_id
  JOIN jobs_bin AS bin ON bin.id = lane.bin_id
  JOIN jobs_outlinks AS link ON link.hash = followed.hash AND link.job_id = %(job)s AND link.lost IS NOT NULL
 WHERE (cardinality(link.targets) = 0 OR link.is_redirect OR link.is_replaced)
   AND EXISTS (SELECT FROM unnest(link.lost) AS child(hash)
                 JOIN jobs_queueitem AS item ON item.hash = child.hash AND item.job_id = %(job)s AND {_LEAVES})
 ORDER BY source.identifier
 LIMIT {_PARENTS}
"""
# True for an item that the run did not reach. Links are followed through it even if no output holds it, as for a
# redirect.
_UNREACHED: Final[LiteralString] = (
    f"(item.run_no < %(before)s OR %(takes_out)s AND item.run_no = %(run)s AND item.stage = {Stage.HOPCOUNT_REMOVED:d})"
)
# Follows all links to documents that were not reached, from the parents that lost most of these documents or are
# nearest to a seed.
_PARENTS_OF_IT: Final[LiteralString] = f"""
WITH RECURSIVE named AS MATERIALIZED (
    SELECT link.hash AS parent, item.hash, {_LEAVES} AS leaves
      FROM jobs_outlinks AS link
     CROSS JOIN LATERAL unnest(link.lost) AS child(hash)
      JOIN jobs_queueitem AS item ON item.hash = child.hash AND item.job_id = link.job_id AND {_UNREACHED}
     WHERE link.job_id = %(job)s AND link.lost IS NOT NULL
), ranked AS (
    SELECT counted.parent, counted.children, source.identifier, source.depth, source.outcome, source.result_code,
           row_number() OVER (ORDER BY counted.children DESC, source.identifier) AS by_children,
           row_number() OVER (ORDER BY source.depth, counted.children DESC, source.identifier) AS by_depth
      FROM (SELECT parent, count(*) FILTER (WHERE leaves) AS children FROM named GROUP BY parent) AS counted
      JOIN jobs_queueitem AS source ON source.hash = counted.parent AND source.job_id = %(job)s AND source.run_no = %(run)s
), chosen AS MATERIALIZED (
    SELECT * FROM ranked WHERE by_children <= {_PARENTS} OR by_depth <= {_PARENTS}
), reached AS (
    SELECT named.parent, named.hash, named.leaves FROM chosen JOIN named ON named.parent = chosen.parent
     UNION
    SELECT reached.parent, item.hash, {_LEAVES}
      FROM reached
      JOIN jobs_outlinks AS link ON link.hash = reached.hash AND link.job_id = %(job)s
     CROSS JOIN LATERAL unnest(link.targets) AS child(hash)
      JOIN jobs_queueitem AS item ON item.hash = child.hash AND item.job_id = %(job)s AND {_UNREACHED}
), walked AS (
    SELECT parent, leaves FROM reached LIMIT {FOLLOWED}
)
SELECT chosen.identifier, chosen.outcome, chosen.result_code, cardinality(link.targets) AS names, link.is_redirect, link.is_replaced,
       chosen.children, counted.reached
  FROM (SELECT parent, count(*) FILTER (WHERE leaves) AS reached FROM walked GROUP BY parent) AS counted
  JOIN chosen ON chosen.parent = counted.parent
  JOIN jobs_outlinks AS link ON link.hash = chosen.parent AND link.job_id = %(job)s
 WHERE counted.reached > 0
 ORDER BY counted.reached DESC, chosen.children DESC, chosen.depth, chosen.identifier
 LIMIT {_PARENTS}
"""
_OUTSIDE: Final[LiteralString] = f"""
SELECT count(*) AS outside
  FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
  JOIN jobs_queueitem AS item ON item.lane_id = lane.id AND item.run_no = %(run)s
       AND item.stage = {Stage.HOPCOUNT_REMOVED:d} AND item.indexed_before
 WHERE seed.job_id = %(job)s AND %(takes_out)s
"""
_SOME: Final[LiteralString] = f"""
SELECT item.identifier
  FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
 CROSS JOIN LATERAL (SELECT item.identifier FROM jobs_queueitem AS item
                      WHERE item.lane_id = lane.id AND item.run_no <= %(run)s AND {_LEAVES}
                      LIMIT %(most)s) AS item
 WHERE seed.job_id = %(job)s
 LIMIT %(most)s
"""


class Unreached:
    """
    The documents that the clean-up of one run would remove. `takes_out` is true if hop limits remove documents from
    outputs.
    """

    def __init__(
        self, connection: psycopg.Connection[Any], *, job_id: int, run_no: int, is_full_scan: bool, takes_out: bool
    ) -> None:
        self._connection = connection
        self._facts = {
            "job": job_id,
            "run": run_no,
            # Only a full scan removes documents that it did not reach.
            "before": run_no if is_full_scan else 0,
            "takes_out": takes_out,
            "held": [int(Ending.INDEXED), int(Ending.UNCHANGED)],
        }

    def hosts(self) -> list[HostShare]:
        """Return all hosts with documents that would be removed. The host with most of these documents is the first."""
        return [HostShare(row.host, row.leaving, row.staying) for row in self._rows(_LEAVING)]

    def staying(self) -> int:
        """Return the number of documents that this run of the job has read and that are in its outputs."""
        return int(self._rows(_STAYING)[0].staying)

    def seeds(self, hashes: Sequence[uuid.UUID]) -> list[Seed]:
        """Return the seeds among these that lost links to documents that would be removed."""
        rows = self._rows(_SEEDS_THAT_FAIL, seeds=list(hashes)[:_SEEDS])
        return [Seed(row.identifier, row.host, _state_of(row), row.result_code) for row in rows]

    def parents(self) -> list[Parent]:
        """
        Return the parents: documents that lost links to documents that would be removed. The parent that led to most of
        these documents comes first.

        Links are followed to at most `FOLLOWED` documents, so the counts of a large removal are lower bounds.
        """
        rows = self._rows(_PARENTS_OF_IT)
        return [Parent(row.identifier, _state_of(row), row.result_code, row.children, row.reached) for row in rows]

    def outside(self) -> int:
        """Return the number of documents that would be removed because they left the hop limits of the job."""
        return int(self._rows(_OUTSIDE)[0].outside)

    def examples(self, most: int) -> list[str]:
        """Return the identifiers of some documents that would be removed, at most `most`."""
        return [row.identifier for row in self._rows(_SOME, most=most)]

    def _rows(self, statement: LiteralString, **more: object) -> list[Any]:
        with named_rows(self._connection) as cursor:
            return cursor.execute(statement, {**self._facts, **more}).fetchall()


def _state_of(row: Any) -> ParentState:
    if row.is_redirect:
        return ParentState.REDIRECTS
    if row.names:
        return ParentState.REPLACED if row.is_replaced else ParentState.CHANGED
    return ParentState.EMPTY if row.outcome in {Ending.INDEXED, Ending.UNCHANGED} else ParentState.GONE
