"""Redirects of seeds that end."""

from collections.abc import Collection
from typing import Any, Final, LiteralString

from jobs.connectors.repository.base import hash_of

# Locks: the rows that it deletes, by hash.
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_seedredirect
 WHERE id IN (SELECT id FROM jobs_seedredirect WHERE job_id = %(job)s AND hash = ANY(%(hashes)s::uuid[]) ORDER BY hash FOR UPDATE)
"""


def forget_redirects(cursor: Any, *, job: int, sources: Collection[str]) -> None:
    """Delete the stored redirects of these addresses. `cursor` is a cursor or a connection."""
    cursor.execute(_FORGET, {"job": job, "hashes": [hash_of(source) for source in sources]})
