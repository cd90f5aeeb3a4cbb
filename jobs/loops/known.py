"""
What a worker has written lately: the references that need not be sent to the database again.

97 of 100 links of a site are repeats. The memory is bounded and belongs to the process; it is
written only after the commit, so what is in it is durable. Only the database's thread touches it.
"""

from collections.abc import Iterable
from typing import Final

from jobs.queue.outcomes import JobFacts

_MOST: Final = 400_000


class KnownReferences:
    """Hashes by job and run, each with the smallest depth that was written."""

    def __init__(self) -> None:
        self._depths: dict[tuple[int, int], dict[str, int]] = {}
        self._size = 0

    def holds(self, job: JobFacts, hash_: str, depth: int) -> bool:
        """Whether the reference was written in this run, with no greater depth if depth matters."""
        known = self._depths.get((job.id, job.run_no))
        # Where hops are counted, what a reference means depends on who names it.
        if known is None or job.hops is not None or job.loses_documents:
            return False
        written = known.get(hash_)
        return written is not None and (not job.tracks_depth or written <= depth)

    def add(self, named: Iterable[tuple[JobFacts, str, int]]) -> None:
        """Note what a flush has committed: (job, hash, depth)."""
        if self._size > _MOST:
            self._depths.clear()
            self._size = 0
        for job, hash_, depth in named:
            known = self._depths.setdefault((job.id, job.run_no), {})
            written = known.get(hash_)
            if written is None:
                self._size += 1
            if written is None or depth < written:
                known[hash_] = depth
