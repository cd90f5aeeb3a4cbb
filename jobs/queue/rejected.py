"""
The sample of addresses that the rules of a job refuse, for rehearsals of other rules.

A sample has the addresses with the lowest hashes, among all addresses that workers met. So its size is limited, and it
does not depend on the order of writes. Once it is full, a worker skips all addresses above its highest hash, so a long
crawl writes fewer and fewer. A busy worker collects addresses and writes hundreds together, after a flush and under
none of its locks. If the worker dies before the write, these addresses are missing until a worker meets them again.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import Outcome, hash_of
from jobs.queue.flushing.outcomes import JobFacts
from jobs.queue.sql.columns import columns_of

# Number of addresses in a full sample. Workers that write at the same time may keep some more for a moment.
KEPT: Final = 5_000
# Number of addresses that a busy worker writes together.
_TOGETHER: Final = 500
# Largest number of jobs whose limits one worker remembers.
_JOBS: Final = 1_000
_COLUMNS: Final = ("jobs", "hashes", "identifiers", "sources")

# The highest hash of a full sample, or null while the sample has room. A job that is being deleted is left out.
# Locks: Job KEY SHARE, skipping locked rows, then RejectedAddress by (job, hash).
_ADD: Final[LiteralString] = f"""
WITH limits AS MATERIALIZED (
    SELECT job.id AS job_id,
           (SELECT kept.hash FROM jobs_rejectedaddress AS kept
             WHERE kept.job_id = job.id ORDER BY kept.hash OFFSET {KEPT - 1} LIMIT 1) AS highest
      FROM jobs_job AS job WHERE job.id = ANY(%(present)s::bigint[])
       FOR KEY SHARE OF job SKIP LOCKED
), added AS (
    INSERT INTO jobs_rejectedaddress (job_id, hash, identifier, found_on)
    SELECT given.job_id, given.hash, given.identifier, given.found_on
      FROM unnest(%(jobs)s::bigint[], %(hashes)s::uuid[], %(identifiers)s::text[], %(sources)s::uuid[])
           AS given(job_id, hash, identifier, found_on)
      JOIN limits ON limits.job_id = given.job_id AND (limits.highest IS NULL OR given.hash < limits.highest)
     ORDER BY given.job_id, given.hash
    ON CONFLICT (job_id, hash) DO NOTHING
)
SELECT job_id, replace(highest::text, '-', '') FROM limits WHERE highest IS NOT NULL
"""
# Locks: RejectedAddress, skipping locked rows.
_TRIM: Final[LiteralString] = """
DELETE FROM jobs_rejectedaddress AS address
 USING (SELECT surplus.job_id, surplus.hash
          FROM unnest(%(jobs)s::bigint[], %(limits)s::uuid[]) AS full_sample(job_id, highest)
          JOIN jobs_rejectedaddress AS surplus
            ON surplus.job_id = full_sample.job_id AND surplus.hash > full_sample.highest
           FOR UPDATE OF surplus SKIP LOCKED) AS surplus
 WHERE address.job_id = surplus.job_id AND address.hash = surplus.hash
"""

_Row = tuple[int, str, str, str]


@dataclass(slots=True)
class RejectedSamples:
    """
    The writes of one worker to the samples of its jobs. The object remembers the highest hash of each full sample.
    """

    # The highest hash of a full sample only falls. So an old limit never leaves out an address that belongs to the
    # sample.
    _limits: dict[int, str] = field(default_factory=dict)
    _waiting: dict[tuple[int, str], _Row] = field(default_factory=dict)

    @property
    def has_addresses(self) -> bool:
        """True if collected addresses wait to be written."""
        return bool(self._waiting)

    def collect(self, ended: Iterable[tuple[JobFacts, Outcome]]) -> None:
        """Collect the rejected addresses of these outcomes, as far as they may belong to the samples."""
        for job, outcome in ended:
            limit = self._limits.get(job.id, "")
            for identifier in outcome.rejected:
                hash_ = hash_of(identifier)
                if not limit or hash_ < limit:
                    self._waiting.setdefault((job.id, hash_), (job.id, hash_, identifier, outcome.document.hash))

    def write(self, connection: psycopg.Connection[Any], *, at_once: bool) -> None:
        """Write the collected addresses if there are many, or in any case if `at_once`."""
        if not self.has_addresses or (len(self._waiting) < _TOGETHER and not at_once):
            return
        rows = [self._waiting[place] for place in sorted(self._waiting)]
        self._waiting = {}
        present = sorted({row[0] for row in rows})
        limits = dict(connection.execute(_ADD, {"present": present, **columns_of(rows, _COLUMNS)}).fetchall())
        if limits:
            connection.execute(_TRIM, {"jobs": list(limits), "limits": list(limits.values())})
            self._remember(limits)

    def _remember(self, limits: dict[int, str]) -> None:
        if len(self._limits) > _JOBS:
            self._limits.clear()
        self._limits |= limits
