"""
The prices of looks: the main manager measures the goals of jobs from samples of their documents, host by host.

A step prices hosts for a tenth of a second. It begins with the hosts that have been due for the longest time. The cost
of a host does not depend on its number of documents: a step reads a sample of them, and estimates their number from the
distance of their hashes.
"""

import datetime as dt
import random
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import Any, Final, LiteralString

import psycopg
from psycopg.types.json import Jsonb

from jobs.connectors.repository.freshness_goals import Goals, read_goals
from jobs.duties.context import Pass
from jobs.freshness.pricing import LanePlan, LaneSample, Seen, price_host
from jobs.freshness.rates import unpack
from jobs.freshness.shares import SharedLimit, Wait, allowed, left, rate_of
from jobs.lifecycle.job import Kind, Phase
from jobs.queue.flushing.freshness import longest_of
from jobs.queue.pace.limits import BOUND, FACTS, AppliedPolicies
from jobs.queue.sql.rows import named_rows
from nodes.membership.fences import hold_term

# Seconds of a step after which no other host begins.
_STEP: Final = 0.1
# Number of documents in the sample of a host, which its lanes share, and least number of documents of each lane.
_SAMPLE: Final = 150
_LEAST_SAMPLE: Final = 20
# Largest number of lanes of a host that are priced together.
_LANES: Final = 50
# Shortest and longest time between two prices of a host. In between, the time is this part of the age of its goals, so
# a host with new goals is priced often.
_OFTEN: Final = dt.timedelta(seconds=15)
_SELDOM: Final = dt.timedelta(minutes=5)
_PART_OF_AGE: Final = 0.1
# Share of a host's requests that goals may use. The other requests are for new documents.
_USABLE: Final = 0.95
# Largest number of next due documents of a lane from which the rate of its documents without a goal is estimated.
_READINGS: Final = 300
# Time for which the needs of a policy's hosts are remembered, and largest number of remembered policies.
_NEEDS_KEPT: Final = dt.timedelta(minutes=1)
_POLICIES: Final = 1_000
_FORGOTTEN_AT_ONCE: Final = 5_000
_HASHES: Final = 2.0**128

# The requests per second that the hosts of a policy (None: all hosts) need together, the number of these hosts, and the
# moment at which both were read.
needs_of_policies: dict[int | None, tuple[dt.datetime, tuple[float, int]]] = {}

HOSTS_TO_PRICE: Final[LiteralString] = """
SELECT FROM jobs_laneplan AS plan JOIN jobs_job AS job ON job.id = plan.job_id
 WHERE plan.due_at <= clock_timestamp() AND job.node_scope = %(scope)s
"""
_DUE: Final[LiteralString] = """
SELECT plan.lane_id, lane.bin_id
  FROM jobs_laneplan AS plan JOIN jobs_job AS job ON job.id = plan.job_id LEFT JOIN jobs_lane AS lane ON lane.id = plan.lane_id
 WHERE plan.due_at <= %(now)s AND job.node_scope = %(scope)s
 ORDER BY plan.due_at LIMIT 1
"""
_PLANS: Final[LiteralString] = """
SELECT plan.lane_id, plan.job_id, plan.goals, plan.plan, plan.since, plan.host_needs, plan.host_others, job.freshness_goals, job.recrawl_at_most, job.kind, job.phase
  FROM jobs_laneplan AS plan JOIN jobs_job AS job ON job.id = plan.job_id LEFT JOIN jobs_lane AS lane ON lane.id = plan.lane_id
 WHERE job.node_scope = %(scope)s AND (lane.bin_id = %(bin)s OR plan.lane_id = %(lane)s)
 ORDER BY plan.due_at LIMIT %(most)s
"""
_FROM_RATES: Final[LiteralString] = """
SELECT rate.hash, rate.looked_at, rate.evidence, item.identifier, item.indexed_before
  FROM jobs_changerate AS rate
  LEFT JOIN jobs_queueitem AS item ON item.hash = rate.hash AND item.job_id = %(job)s AND item.lane_id = rate.lane_id
 WHERE rate.lane_id = %(lane)s
"""
# Documents from a random hash on. If they do not fill the sample, it continues with the documents from the lowest hash
# on.
_SAMPLED: Final[LiteralString] = f"""
(SELECT *, 0 AS part FROM ({_FROM_RATES} AND rate.hash >= %(start)s ORDER BY rate.hash LIMIT %(most)s) AS after)
 UNION ALL
(SELECT *, 1 AS part FROM ({_FROM_RATES} AND rate.hash < %(start)s ORDER BY rate.hash LIMIT %(most)s) AS before)
 ORDER BY part, hash
"""
# The host, and its address.
_LIMITS: Final[LiteralString] = f"""
SELECT {FACTS}, bin.parent_id FROM jobs_bin AS bin {BOUND}
 WHERE bin.id = %(bin)s OR bin.id = (SELECT parent_id FROM jobs_bin WHERE id = %(bin)s)
"""
# The requests per second that hosts with goals need together, and the number of these hosts.
_NEEDS: Final[LiteralString] = """
SELECT coalesce(sum(needs), 0)::float AS needs, count(*) AS hosts
  FROM (SELECT max(plan.host_needs + plan.host_others) AS needs
          FROM jobs_laneplan AS plan JOIN jobs_lane AS lane ON lane.id = plan.lane_id
          JOIN jobs_bin AS bin ON bin.id = lane.bin_id
         WHERE plan.priced_at IS NOT NULL
           AND (%(parent)s::bigint IS NULL OR bin.parent_id = %(parent)s)
           AND (%(policy)s::bigint IS NULL
                OR EXISTS (SELECT FROM jobs_binlimit AS limited
                            WHERE limited.bin_id = bin.id AND limited.policy_id = %(policy)s))
         GROUP BY bin.id) AS host
"""
# The lanes of a host in running continuous jobs.
_CONTINUOUS: Final[LiteralString] = """
SELECT lane.id, seed.job_id, job.freshness_goals
  FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id JOIN jobs_job AS job ON job.id = seed.job_id
 WHERE lane.bin_id = %(bin)s AND job.kind = 'continuous' AND job.phase = 'active' LIMIT %(most)s
"""
_NEXT_READINGS: Final[LiteralString] = """
SELECT identifier, extract(epoch FROM check_time - fetched_at)::float AS interval,
       extract(epoch FROM check_time - %(now)s)::float AS due_in
  FROM jobs_queueitem WHERE lane_id = %(lane)s AND check_time IS NOT NULL ORDER BY check_time LIMIT %(most)s
"""

# Locks: the rate of a document that has left the lane.
_FORGET: Final[LiteralString] = "DELETE FROM jobs_changerate WHERE lane_id = %(lane)s AND hash = ANY(%(hashes)s)"
# Rates of all documents that have left a lane. After a move to another partition, that may be most of them.
_FORGET_LEFT: Final[LiteralString] = """
DELETE FROM jobs_changerate
 WHERE lane_id = %(lane)s
   AND hash IN (SELECT rate.hash FROM jobs_changerate AS rate
                 WHERE rate.lane_id = %(lane)s
                   AND NOT EXISTS (SELECT FROM jobs_queueitem AS item
                                    WHERE item.hash = rate.hash AND item.job_id = %(job)s AND item.lane_id = rate.lane_id)
                 ORDER BY rate.hash LIMIT %(most)s)
"""
_FORGET_SOME: Final[LiteralString] = """
DELETE FROM jobs_changerate
 WHERE lane_id = %(lane)s
   AND hash IN (SELECT hash FROM jobs_changerate WHERE lane_id = %(lane)s ORDER BY hash LIMIT %(most)s)
"""
# Locks: LanePlan, then GoalTotal. Only the holder of the term changes them.
_KEEP: Final[LiteralString] = """
UPDATE jobs_laneplan
   SET goals = %(goals)s, plan = %(plan)s, since = %(since)s, priced_at = %(now)s, due_at = %(due)s,
       allows = %(allows)s, host_needs = %(needs)s, host_others = %(others)s, lacks = greatest(0, %(needs)s - %(allows)s::float)
 WHERE lane_id = %(lane)s
"""
_ADD: Final[LiteralString] = """
INSERT INTO jobs_goaltotal AS total (job_id, goals, number, documents, fresh, expected, needs, gets, measured_at)
SELECT %(job)s, %(goals)s, number, documents, fresh, expected, needs, gets, %(now)s
  FROM unnest(%(numbers)s::int[], %(documents)s::float[], %(fresh)s::float[], %(expected)s::float[], %(needs)s::float[],
              %(gets)s::float[]) AS more(number, documents, fresh, expected, needs, gets)
ON CONFLICT (job_id, goals, number) DO UPDATE
   SET documents = total.documents + excluded.documents, fresh = total.fresh + excluded.fresh,
       expected = total.expected + excluded.expected, needs = total.needs + excluded.needs,
       gets = total.gets + excluded.gets, measured_at = excluded.measured_at
"""
_FORGET_TOTALS: Final[LiteralString] = "DELETE FROM jobs_goaltotal WHERE job_id = %(job)s AND goals <> %(goals)s"
_LATER: Final[LiteralString] = "UPDATE jobs_laneplan SET due_at = %(due)s WHERE lane_id = %(lane)s"
_END: Final[LiteralString] = "DELETE FROM jobs_laneplan WHERE lane_id = %(lane)s"


def price_looks(at: Pass) -> int:
    """Price the hosts that are due, for a tenth of a second; return the number of priced hosts."""
    began, priced = time.monotonic(), 0
    while time.monotonic() - began < _STEP and _price_next(at):
        priced += 1
    return priced


def _price_next(at: Pass) -> bool:
    with at.connection.transaction(), named_rows(at.connection) as cursor:
        hold_term(at.connection, at.held_term)
        due = cursor.execute(_DUE, {"now": at.now, "scope": at.scope}).fetchone()
        if due is None:
            return False
        facts = {"scope": at.scope, "bin": due.bin_id, "lane": due.lane_id, "most": _LANES}
        plans = cursor.execute(_PLANS, facts).fetchall()
        lanes: list[tuple[Any, Goals]] = []
        for row in plans:
            goals = read_goals(row.freshness_goals) if row.kind == Kind.CONTINUOUS else None
            if due.bin_id is None or goals is None:
                _end(cursor, row, now=at.now)
            elif row.phase != Phase.ACTIVE:
                cursor.execute(_LATER, {"lane": row.lane_id, "due": at.now + _SELDOM})
            else:
                lanes.append((row, goals))
        if lanes:
            _price(cursor, lanes, bin_id=due.bin_id, now=at.now)
    return True


def _price(cursor: psycopg.Cursor[Any], lanes: Sequence[tuple[Any, Goals]], *, bin_id: int, now: dt.datetime) -> None:
    others = _rate_without_goals(cursor, bin_id=bin_id, now=now)
    goals_need = max(row.host_needs for row, _ in lanes)
    allows = _allowed(cursor, bin_id=bin_id, needs=goals_need + max(row.host_others for row, _ in lanes), now=now)
    if allows is not None:
        allows = left(allows, others=others, own=goals_need)
    most = max(_LEAST_SAMPLE, _SAMPLE // len(lanes))
    samples = [_sample(cursor, row, goals, most=most, now=now) for row, goals in lanes]
    found = price_host(samples, allows=None if allows is None else allows * _USABLE)
    needs = sum(goal.needs for plan in found for goal in plan.goals)
    for (row, goals), sample, plan in zip(lanes, samples, found, strict=True):
        is_new = row.goals != goals.version
        since = now if is_new else row.since
        cursor.execute(
            _KEEP,
            {
                "lane": row.lane_id,
                "goals": goals.version,
                "plan": Jsonb(plan.as_json()),
                "since": since,
                "now": now,
                "due": now + min(max((now - since) * _PART_OF_AGE, _OFTEN), _SELDOM),
                "allows": allows,
                "needs": needs,
                "others": others,
            },
        )
        if is_new:
            cursor.execute(_FORGET_TOTALS, {"job": row.job_id, "goals": goals.version})
        _add(cursor, row.job_id, goals.version, plan, sample.before, now=now)


def _allowed(cursor: psycopg.Cursor[Any], *, bin_id: int, needs: float, now: dt.datetime) -> float | None:
    """
    Return the requests per second that the limits of a host allow for its goals; None if nothing limits them. `needs`
    are the requests per second that the host needed at its last price.
    """
    rows = cursor.execute(_LIMITS, {"bin": bin_id, "policy": None}).fetchall()
    policies = AppliedPolicies.read(cursor, rows, now=now)
    own: float | None = None
    shared = []
    for row in rows:
        gap = policies.of_bin(row).gap
        if gap and row.id == bin_id:
            own = 1 / gap
        elif gap:
            shared.append(_shared(_needs_of(cursor, parent=row.id), rate=1 / gap, needs=needs))
    for policy, limits in policies.limits_in_total():
        if limits.gap:
            everywhere = policy.applies_everywhere
            total = _needs_of_policy(cursor, None if everywhere else policy.id, now=now)
            shared.append(_shared(total, rate=1 / limits.gap, needs=needs))
    return allowed(own, shared, own=needs)


def _shared(total: tuple[float, int], *, rate: float, needs: float) -> SharedLimit:
    """
    Return a limit that a host shares with other hosts: the rate, the needs of the other hosts, and their number.
    `total` has the needs and the number of all hosts, including this one.
    """
    return SharedLimit(rate, max(0.0, total[0] - needs), total[1] - bool(needs))


def _needs_of_policy(cursor: psycopg.Cursor[Any], policy_id: int | None, *, now: dt.datetime) -> tuple[float, int]:
    """
    Return the requests per second that the hosts of a policy (None: all hosts) need, and the number of these hosts. The
    values are read at most once a minute.
    """
    known = needs_of_policies.get(policy_id)
    if known is None or not dt.timedelta() <= now - known[0] < _NEEDS_KEPT:
        if len(needs_of_policies) > _POLICIES:
            needs_of_policies.clear()
        known = needs_of_policies[policy_id] = now, _needs_of(cursor, policy=policy_id)
    return known[1]


def _needs_of(
    cursor: psycopg.Cursor[Any], *, parent: int | None = None, policy: int | None = None
) -> tuple[float, int]:
    (row,) = cursor.execute(_NEEDS, {"parent": parent, "policy": policy}).fetchall()
    return row.needs, row.hosts


def _rate_without_goals(cursor: psycopg.Cursor[Any], *, bin_id: int, now: dt.datetime) -> float:
    """Return the requests per second for documents of a host that continuous jobs read again without a goal."""
    rate = 0.0
    for lane in cursor.execute(_CONTINUOUS, {"bin": bin_id, "most": _LANES}).fetchall():
        goals = read_goals(lane.freshness_goals)
        facts = {"lane": lane.id, "now": now, "most": _READINGS}
        rows = cursor.execute(_NEXT_READINGS, facts).fetchall()
        waits = [
            Wait(row.interval, row.due_in)
            if row.interval is not None and (goals is None or goals.number_of(row.identifier) is None)
            else None
            for row in rows
        ]
        rate += rate_of(waits, is_whole=len(rows) < _READINGS)
    return rate


def _sample(cursor: psycopg.Cursor[Any], row: Any, goals: Goals, *, most: int, now: dt.datetime) -> LaneSample:
    """Read a sample of the documents of a lane, and forget documents that are no longer there."""
    start = uuid.UUID(int=random.getrandbits(128))
    facts = {"lane": row.lane_id, "job": row.job_id, "start": start, "most": most}
    found = cursor.execute(_SAMPLED, facts).fetchall()
    chosen = found[:most]
    gone = [one.hash for one in chosen if one.identifier is None]
    if gone:
        cursor.execute(_FORGET, {"lane": row.lane_id, "hashes": gone})
    if len(gone) > len(chosen) / 2:
        cursor.execute(_FORGET_LEFT, {"lane": row.lane_id, "job": row.job_id, "most": _FORGOTTEN_AT_ONCE})
    seen = []
    for one in chosen:
        number = goals.number_of(one.identifier) if one.identifier is not None and one.indexed_before else None
        if number is not None:
            age = (now - one.looked_at).total_seconds()
            seen.append(Seen(number, one.identifier, unpack(one.evidence), age))
    weight = 1.0
    if len(found) > most:
        width = ((chosen[-1].hash.int - start.int) % 2**128) / _HASHES
        weight = max(1.0, 1 / width / most * len(chosen)) if width else 1.0
    before = LanePlan.from_json(row.plan) if row.goals == goals.version else LanePlan()
    return LaneSample(goals.terms, longest_of(row.recrawl_at_most), seen, weight, before)


def _add(
    cursor: psycopg.Cursor[Any], job_id: int, goals: str, plan: LanePlan, before: LanePlan, *, now: dt.datetime
) -> None:
    """Add the change of a plan to the totals of its job."""
    columns: dict[str, list[float]] = {name: [] for name in ("documents", "fresh", "expected", "needs", "gets")}
    numbers = range(max(len(plan.goals), len(before.goals)))
    for number in numbers:
        new, old = _sums(plan, number), _sums(before, number)
        for name, values in columns.items():
            values.append(new.get(name, 0.0) - old.get(name, 0.0))
    cursor.execute(_ADD, {"job": job_id, "goals": goals, "now": now, "numbers": list(numbers), **columns})


def _sums(plan: LanePlan, number: int) -> Mapping[str, float]:
    if number >= len(plan.goals):
        return {}
    goal = plan.goals[number]
    return {
        "documents": goal.documents,
        "fresh": goal.documents * goal.fresh,
        "expected": goal.documents * goal.expected,
        "needs": goal.needs,
        "gets": goal.gets,
    }


def _end(cursor: psycopg.Cursor[Any], row: Any, *, now: dt.datetime) -> None:
    """Delete the rates of a lane's documents, then its plan, if the lane has no goals or no longer exists."""
    if cursor.execute(_FORGET_SOME, {"lane": row.lane_id, "most": _FORGOTTEN_AT_ONCE}).rowcount == _FORGOTTEN_AT_ONCE:
        cursor.execute(_LATER, {"lane": row.lane_id, "due": now + _OFTEN})
        return
    if row.goals:
        _add(cursor, row.job_id, row.goals, LanePlan(), LanePlan.from_json(row.plan), now=now)
    cursor.execute(_END, {"lane": row.lane_id})
