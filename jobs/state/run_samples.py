"""
The sample of a job's documents at the end of each run, for comparisons of runs.

The next run changes the documents, so the sample keeps their results. A sample has the documents with the lowest
hashes. So its size is limited, it is unbiased, and the samples of all runs of a job have the same documents. The sample
of a small job has all its documents.
"""

import datetime as dt
from typing import TYPE_CHECKING, Any, Final, LiteralString

from jobs.lifecycle.document import Stage

if TYPE_CHECKING:
    from django.db.backends.utils import CursorWrapper

# Largest number of documents in a sample.
SAMPLED: Final = 1_000
# Number of newest runs of a job that keep their sample.
SAMPLES_KEPT: Final = 30
# Largest number of stored characters of an identifier.
_LONGEST: Final = 1_000

# Reads the number of documents of the job from its counts, and the number of rows of the table from its statistics.
_SIZES: Final[LiteralString] = """
SELECT coalesce((SELECT sum(amount) FROM jobs_jobcounter WHERE job_id = %(job)s AND measure = 'stage'), 0)::bigint,
       (SELECT reltuples FROM pg_class WHERE oid = 'jobs_queueitem'::regclass)::bigint
"""
# There are two ways to find the sample. The first one reads all documents of the job. The second one reads the index of
# hashes, where documents of other jobs are between the documents of this job. OFFSET 0 prevents that the planner uses
# this index for the first way.
_OF_LANES: Final[LiteralString] = """
SELECT item.* FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
  JOIN jobs_queueitem AS item ON item.lane_id = lane.id
 WHERE seed.job_id = %(job)s OFFSET 0
"""
_OF_HASHES: Final[LiteralString] = "SELECT * FROM jobs_queueitem WHERE job_id = %(job)s"
# Documents beyond the hop limits are not part of the job. ON CONFLICT: a clean-up after approval ends a run for the
# second time.
_KEEP: Final[LiteralString] = f"""
INSERT INTO jobs_runsample (run_id, is_whole, hashes, identifiers, outcomes, codes, versions, answer_ms)
SELECT %(run)s, count(*) <= %(most)s,
       coalesce((array_agg(hash ORDER BY hash))[:%(most)s], '{{{{}}}}'),
       coalesce((array_agg(left(identifier, {_LONGEST}) ORDER BY hash))[:%(most)s], '{{{{}}}}'),
       coalesce((array_agg(outcome ORDER BY hash))[:%(most)s], '{{{{}}}}'),
       coalesce((array_agg(result_code ORDER BY hash))[:%(most)s], '{{{{}}}}'),
       coalesce((array_agg(CASE WHEN version = '' THEN 0 ELSE hashtext(version) END ORDER BY hash))[:%(most)s], '{{{{}}}}'),
       coalesce((array_agg(CASE WHEN fetched_at >= %(since)s THEN response_ms END ORDER BY hash))[:%(most)s], '{{{{}}}}')
  FROM (SELECT * FROM ({{documents}}) AS item WHERE stage <> {Stage.HOPCOUNT_REMOVED:d}
         ORDER BY hash LIMIT %(most)s + 1) AS item
ON CONFLICT (run_id) DO UPDATE
   SET is_whole = EXCLUDED.is_whole, hashes = EXCLUDED.hashes, identifiers = EXCLUDED.identifiers,
       outcomes = EXCLUDED.outcomes, codes = EXCLUDED.codes, versions = EXCLUDED.versions, answer_ms = EXCLUDED.answer_ms
"""  # noqa: S608 (constants)


def keep_sample(cursor: "CursorWrapper", *, run_id: int, job_id: int, since: dt.datetime) -> None:
    """Store a sample of the documents of a job for its run, which began at `since` and ends in this transaction."""
    facts: dict[str, Any] = {"run": run_id, "job": job_id, "since": since, "most": SAMPLED}
    cursor.execute(_SIZES, facts)
    ((of_job, of_all),) = cursor.fetchall()
    # Compare the numbers of reads: all documents of the job, or about SAMPLED * of_all / of_job entries of the index.
    is_small = of_job**2 <= SAMPLED * max(of_all, of_job)
    cursor.execute(_KEEP.format(documents=_OF_LANES if is_small else _OF_HASHES), facts)
