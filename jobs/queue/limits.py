"""Which policies limit a bin: those of the seeds that have a lane there, kept by job."""

from typing import Any, Final, LiteralString

# Locks: the rows that it inserts.
_BIND: Final[LiteralString] = """
INSERT INTO jobs_binlimit (bin_id, job_id, policy_id)
SELECT lane.bin_id, seed.job_id, seed.policy_id
  FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id
 WHERE seed.id = %(seed)s AND seed.policy_id IS NOT NULL
 ORDER BY lane.bin_id
ON CONFLICT (bin_id, policy_id, job_id) DO NOTHING
"""
# Another seed of the job may bring the same policy to the same bin.
_UNBIND: Final[LiteralString] = """
DELETE FROM jobs_binlimit AS binlimit
 USING jobs_seed AS seed, jobs_lane AS lane
 WHERE seed.id = %(seed)s AND lane.seed_id = seed.id
   AND binlimit.bin_id = lane.bin_id AND binlimit.job_id = seed.job_id AND binlimit.policy_id = %(before)s
   AND NOT EXISTS (SELECT FROM jobs_seed AS other JOIN jobs_lane AS theirs ON theirs.seed_id = other.id
                    WHERE other.job_id = seed.job_id AND other.policy_id = %(before)s AND theirs.bin_id = lane.bin_id)
"""


def rebind_bins(cursor: Any, *, seed_id: int, before: int | None) -> None:
    """Let the policy that a seed has now limit its bins, instead of the one that it had `before`."""
    facts = {"seed": seed_id, "before": before}
    cursor.execute(_BIND, facts)
    if before is not None:
        cursor.execute(_UNBIND, facts)
