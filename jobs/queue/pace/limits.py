"""
The limits of a bin. They come from four places:

- policies of the seeds that have a lane in the bin (stored by job),
- policies that apply everywhere,
- requests of the bin's source,
- and stops by an administrator.
"""

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.models import Bin
from jobs.queue.pace.addresses import want_placed
from jobs.queue.pace.next_start import LAST_USE_COLUMNS
from jobs.queue.pace.read_policies import VERSION, read_policies
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.states import read_states
from jobs.throttling import sources
from jobs.throttling.bins import is_limited
from jobs.throttling.limits import UNLIMITED_REQUESTS, UNTIL_RELEASED, Limits, strictest
from jobs.throttling.next_start import next_start_at, opens_at
from jobs.throttling.policies import PolicyValues
from jobs.throttling.sources import Origin, Source

# Number of policies that a process caches. No installation has as many.
_KEPT: Final = 10_000

# Locks: the rows that it inserts. The address above a bin gets the policy, too. The policy decides whether it applies
# there.
_BIND: Final[LiteralString] = """
INSERT INTO jobs_binlimit (bin_id, job_id, policy_id)
SELECT DISTINCT limited.id, seed.job_id, seed.policy_id
  FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id JOIN jobs_bin AS bin ON bin.id = lane.bin_id
 CROSS JOIN LATERAL (VALUES (bin.id), (bin.parent_id)) AS limited(id)
 WHERE seed.id = %(seed)s AND seed.policy_id IS NOT NULL AND limited.id IS NOT NULL
 ORDER BY 1
ON CONFLICT (bin_id, policy_id, job_id) DO NOTHING
"""
# The old policy stays if another seed of the job uses it for the same bin, or for another bin at its address.
_UNBIND: Final[LiteralString] = """
DELETE FROM jobs_binlimit AS binlimit
 USING jobs_seed AS seed, jobs_lane AS lane, jobs_bin AS bin
 WHERE seed.id = %(seed)s AND lane.seed_id = seed.id AND bin.id = lane.bin_id
   AND binlimit.bin_id IN (bin.id, bin.parent_id) AND binlimit.job_id = seed.job_id AND binlimit.policy_id = %(before)s
   AND NOT EXISTS (SELECT FROM jobs_seed AS other JOIN jobs_lane AS theirs ON theirs.seed_id = other.id
                     JOIN jobs_bin AS there ON there.id = theirs.bin_id
                    WHERE other.job_id = seed.job_id AND other.policy_id = %(before)s
                      AND binlimit.bin_id IN (there.id, there.parent_id))
"""

# The input of `AppliedPolicies.of_bin` for a `bin`: the columns, and the join that they need.
FACTS: Final[LiteralString] = f"""
bin.id, bin.namespace, bin.name, bin."interval", bin.usual_requests, bin.usual_gap, bin.stopped_at,
coalesce(bound.policies, '{{}}') AS policies,
(SELECT json_object_agg(policy.id, {VERSION}) FROM jobs_throttlepolicy AS policy
  WHERE applies_everywhere OR id = %(policy)s) AS always"""
BOUND: Final[LiteralString] = f"""
LEFT JOIN LATERAL (
       SELECT json_object_agg(policy.id, {VERSION}) AS policies
         FROM (SELECT DISTINCT binlimit.policy_id AS id FROM jobs_binlimit AS binlimit
                 JOIN jobs_job AS job ON job.id = binlimit.job_id AND job.phase <> 'inactive'
                WHERE binlimit.bin_id = bin.id
                UNION
               SELECT bin.name::bigint WHERE bin.namespace = 'policy') AS brought
         JOIN jobs_throttlepolicy AS policy USING (id)) AS bound ON true"""


def rebind_bins(cursor: Any, *, seed_id: int, before: int | None) -> None:
    """Apply the present policy of a seed to its bins, in place of the policy that it had `before`."""
    facts = {"seed": seed_id, "before": before}
    cursor.execute(_BIND, facts)
    if before is not None:
        cursor.execute(_UNBIND, facts)
    cursor.execute("SELECT policy_id FROM jobs_seed WHERE id = %(seed)s", facts)
    ((policy_id,),) = cursor.fetchall()
    want_placed(cursor, policy_id=policy_id)


class AppliedPolicies:
    """The policies of some bins, as values. A policy is read again only if it changed since this process read it."""

    _known: dict[int, PolicyValues] = {}

    def __init__(self, by_id: Mapping[int, PolicyValues], *, now: dt.datetime) -> None:
        self._by_id = by_id
        self._everywhere = [policy for policy in by_id.values() if policy.applies_everywhere]
        self._now = now

    @classmethod
    def read(cls, cursor: Any, rows: list[Any], *, now: dt.datetime) -> "AppliedPolicies":
        """Return the policies of rows with `FACTS`, including all policies that apply everywhere."""
        versions: dict[int, int] = {}
        for row in rows:
            versions |= {int(id_): version for id_, version in ((row.always or {}) | row.policies).items()}
        stale = [
            id_
            for id_, version in versions.items()
            if (known := cls._known.get(id_)) is None or known.version != version
        ]
        if stale:
            if len(cls._known) > _KEPT:
                cls._known.clear()
                stale = list(versions)
            cls._known |= read_policies(cursor, stale)
        return cls({id_: cls._known[id_] for id_ in versions if id_ in cls._known}, now=now)

    def of_bin(self, row: Any) -> Limits:
        """Return the strictest limits that apply to a bin now."""
        if row.namespace == Bin.POLICY:
            policy = self._by_id.get(int(row.name))
            return (policy and policy.in_total(self._now)) or Limits(UNLIMITED_REQUESTS, 0.0)
        held, usual = self._held(row)
        limits = strictest([*(policy.for_bin(row.name, self._now) for policy in held), *([usual] if usual else [])])
        assert limits is not None
        closed_until = UNTIL_RELEASED if row.stopped_at else limits.closed_until
        return replace(limits, gap=max(limits.gap, row.interval), closed_until=closed_until)

    def limits_in_total(self) -> list[tuple[PolicyValues, Limits]]:
        """Return each policy that now limits all its bins together, with its limits for them together."""
        limited = ((policy, policy.in_total(self._now)) for policy in self._by_id.values())
        return [(policy, limits) for policy, limits in limited if limits is not None]

    def whole_of(self, row: Any) -> Limits | None:
        """Return the limits of all partitions together, if this bin has only a share of them."""
        policy = self._by_id.get(int(row.name)) if row.namespace == Bin.POLICY else None
        return policy.in_whole_total(self._now) if policy and policy.share != 1 else None

    def sources_of(self, row: Any) -> list[Source]:
        """Return the present limits of a bin by their source. `of_bin` returns the strictest of these limits."""
        if row.namespace == Bin.POLICY:
            policy = self._by_id.get(int(row.name))
            return [sources.of_total(policy, self._now)] if policy else []
        held, usual = self._held(row)
        return [
            *([sources.of_stop(row.stopped_at)] if row.stopped_at else []),
            *(sources.of_policy(policy, row.name, self._now) for policy in held),
            *([Source(Origin.USUAL, usual)] if usual else []),
            *([sources.of_robots(row.interval)] if row.interval else []),
        ]

    def _held(self, row: Any) -> tuple[list[PolicyValues], Limits | None]:
        """Return the policies that apply to a bin, and its usual limits if none of its jobs has a policy for it."""
        brought = [self._by_id[int(id_)] for id_ in row.policies if int(id_) in self._by_id]
        others = [policy for policy in self._everywhere if str(policy.id) not in row.policies]
        if row.namespace == Bin.ADDRESS:
            held = [policy for policy in (*brought, *others) if policy.per_address]
            usual = Limits(UNLIMITED_REQUESTS, 0.0)
        else:
            held = [*brought, *others]
            usual = Limits(row.usual_requests, row.usual_gap)
        return held, None if brought and held else usual

    def totals_above(self, row: Any) -> list[int]:
        """Return the policies of a bin that limit all their bins together."""
        return sorted({id_ for policy in (None, *map(int, row.policies)) for id_ in self.totals(policy)})

    def totals(self, policy: int | None) -> list[int]:
        """
        Return the policies that limit all their bins together, among this policy and the policies that apply
        everywhere.
        """
        held = {policy.id: policy for policy in self._everywhere}
        if policy is not None and policy in self._by_id:
            held[policy] = self._by_id[policy]
        return sorted(id_ for id_, policy in held.items() if policy.in_total(self._now) is not None)


@dataclass(frozen=True, slots=True)
class InForce:
    """The limits of a bin now. `is_kept` is true if the open turns are within these limits."""

    limits: Limits
    is_kept: bool


_IN_FORCE: Final[LiteralString] = f"""
SELECT {FACTS}, state.open_requests,
       CASE WHEN bin.namespace IN ('address', 'policy')
            THEN (SELECT count(DISTINCT batch.worker_id)
                    FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
                   WHERE turn.closed_at IS NULL AND turn.parents IS NOT NULL AND turn.parents ? bin.id::text)
            ELSE (SELECT count(DISTINCT batch.worker_id)
                    FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
                   WHERE turn.closed_at IS NULL AND turn.bin_id = bin.id) END AS workers
  FROM jobs_bin AS bin
 CROSS JOIN LATERAL {read_states("open_requests", of="bin", number="bin.id")} AS state {BOUND}
 -- The subquery hides the number of bins: otherwise the server would make a plan for each execution.
 WHERE bin.id = ANY((SELECT %(bins)s::bigint[])::bigint[])
"""


_OF_LANES: Final[LiteralString] = f"""
SELECT lane.id AS lane_id, bin.id = own.id AS is_own, bin.back_off_until, {LAST_USE_COLUMNS}, {FACTS}
  FROM jobs_lane AS lane JOIN jobs_bin AS own ON own.id = lane.bin_id
 CROSS JOIN LATERAL (VALUES (own.id), (own.parent_id)) AS limiting(id)
  JOIN jobs_bin AS bin ON bin.id = limiting.id
 CROSS JOIN LATERAL {read_states(LAST_USE_COLUMNS, of="bin", number="bin.id")} AS state {BOUND}
 WHERE lane.id = ANY(%(lanes)s)
"""


def open_lanes(connection: psycopg.Connection[Any], *, lanes: Sequence[int], now: dt.datetime) -> list[int]:
    """
    Return the lanes among these that are open now: the present limits allow requests of their bins and addresses.

    A denied bin is always open: its documents end without a request.
    """
    with named_rows(connection) as cursor:
        rows = cursor.execute(_OF_LANES, {"lanes": list(lanes), "policy": None}).fetchall()
        applied = AppliedPolicies.read(cursor, rows, now=now)
    limited = [(row, applied.of_bin(row)) for row in rows]
    closed = {row.lane_id for row, limits in limited if not _is_open(row, limits, now=now)}
    denied = {row.lane_id for row, limits in limited if row.is_own and limits.denied}
    return sorted({row.lane_id for row in rows} - closed | denied)


def _is_open(row: Any, limits: Limits, *, now: dt.datetime) -> bool:
    next_start = next_start_at(row, gap=limits.gap, bytes_per_second=limits.bytes_per_second)
    earliest_start = opens_at(next_start, back_off_until=row.back_off_until, closed_until=limits.closed_until)
    return earliest_start is None or earliest_start <= now


def read_limits(connection: psycopg.Connection[Any], *, bins: Sequence[int], now: dt.datetime) -> dict[int, InForce]:
    """Return the present limits of these bins and parents, without bins that no longer exist."""
    with named_rows(connection) as cursor:
        rows = cursor.execute(_IN_FORCE, {"bins": list(bins), "policy": None}).fetchall()
        applied = AppliedPolicies.read(cursor, rows, now=now)
    found: dict[int, InForce] = {}
    for row in rows:
        limits = applied.of_bin(row)
        fits = row.open_requests <= limits.requests and (row.workers <= 1 or not is_limited(limits))
        if row.namespace in {Bin.ADDRESS, Bin.POLICY} and is_limited(limits):
            # The open requests of this parent are not checked: all its turns are at one worker, which counts its open
            # requests.
            fits = row.workers <= 1
        found[row.id] = InForce(limits, is_kept=fits)
    return found
