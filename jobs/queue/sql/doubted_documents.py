"""
The mark of documents that a file may lack (`DOUBTED`).

A file gets the line of a removal before the commit. There is no commit if the process is killed or another output
refuses. Then the next run reads the document unconditionally, and writes it again. The records keep their versions,
which tombstones need.
"""

from typing import Final, LiteralString

from jobs.models.document import DOUBTED

# Marks the documents of `doubted (hash, job_id)`, and their parts. The caller prepends this common table expression.
# Locks: IndexedDocument by (output, hash). The caller holds the rows of the queue.
MARK_RECORDS: Final[LiteralString] = f"""
kept AS (
    SELECT link.outputconnection_id AS output_id, doubted.hash
      FROM doubted JOIN jobs_job_outputs AS link ON link.job_id = doubted.job_id
), wanted AS MATERIALIZED (
    SELECT output_id, hash FROM kept
     UNION
    SELECT part.output_id, part.hash
      FROM kept JOIN jobs_indexeddocument AS part ON part.parent = kept.hash AND part.output_id = kept.output_id
), held AS MATERIALIZED (
    SELECT record.output_id, record.hash FROM wanted JOIN jobs_indexeddocument AS record USING (output_id, hash)
     WHERE record.read_version <> '{DOUBTED}'
     ORDER BY record.output_id, record.hash
       FOR NO KEY UPDATE OF record
)
UPDATE jobs_indexeddocument AS record SET read_version = '{DOUBTED}'
  FROM held WHERE record.output_id = held.output_id AND record.hash = held.hash
"""
# Marks documents that return to the queue.
MARK_RETURNED: Final[LiteralString] = f"""
WITH doubted AS (
    SELECT hash, job_id FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS given(hash, job_id)
), {MARK_RECORDS}
"""
