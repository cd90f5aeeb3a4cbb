"""
Removal of surplus versions: if an operator lowers the number of versions that a job keeps of each document, the main
manager removes the versions above this number.

A step reads some rows in the order of hashes, and the job remembers the last hash. Documents that are read meanwhile
lose their surplus versions in the flush, too.
"""

from typing import Final, LiteralString

from jobs.duties.context import Pass
from nodes.membership.fences import hold_term

# Number of rows that one step reads. Rows of all jobs are read, because the table is in the order of hashes.
_READ_AT_ONCE: Final = 5_000

SURPLUS_VERSIONS: Final[LiteralString] = """
SELECT FROM jobs_job WHERE surplus_versions_after IS NOT NULL AND node_scope = %(scope)s
"""
# Locks: Job.
_NEXT: Final[LiteralString] = """
SELECT id, kept_versions, surplus_versions_after FROM jobs_job
 WHERE surplus_versions_after IS NOT NULL AND node_scope = %(scope)s
 ORDER BY id LIMIT 1 FOR NO KEY UPDATE SKIP LOCKED
"""
# Locks: DocumentVersion, skipping rows that a flush holds, because that flush removes the surplus versions of its
# document.
_REMOVE: Final[LiteralString] = """
WITH step AS MATERIALIZED (
    SELECT hash, job_id FROM jobs_documentversion WHERE hash > %(after)s ORDER BY hash, job_id, number LIMIT %(most)s
), documents AS MATERIALIZED (
    SELECT DISTINCT hash FROM step WHERE job_id = %(job)s
), surplus AS MATERIALIZED (
    SELECT version.hash, version.number
      FROM documents
     CROSS JOIN LATERAL (SELECT number FROM jobs_documentversion AS newest
                          WHERE newest.hash = documents.hash AND newest.job_id = %(job)s
                          ORDER BY number DESC LIMIT 1) AS newest
      JOIN jobs_documentversion AS version
        ON version.hash = documents.hash AND version.job_id = %(job)s AND version.number <= newest.number - %(kept)s
       FOR UPDATE OF version SKIP LOCKED
), removed AS (
    DELETE FROM jobs_documentversion AS version USING surplus
     WHERE version.hash = surplus.hash AND version.job_id = %(job)s AND version.number = surplus.number
    RETURNING version.hash
)
SELECT (SELECT hash FROM step ORDER BY hash DESC LIMIT 1), (SELECT count(*) FROM step), (SELECT count(*) FROM removed)
"""
# Locks: Job.
_MOVE_ON: Final[LiteralString] = "UPDATE jobs_job SET surplus_versions_after = %(after)s WHERE id = %(job)s"


def remove_surplus_versions(at: Pass) -> int:
    """Remove some versions that a job no longer keeps; return their number."""
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        job = at.connection.execute(_NEXT, {"scope": at.scope}).fetchone()
        if job is None:
            return 0
        id_, kept, after = job
        facts = {"job": id_, "kept": kept, "after": after, "most": _READ_AT_ONCE}
        answer = at.connection.execute(_REMOVE, facts).fetchone()
        assert answer is not None
        last, read, removed = answer
        at.connection.execute(_MOVE_ON, {"job": id_, "after": last if read == _READ_AT_ONCE else None})
    return int(removed)
