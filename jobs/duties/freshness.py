"""
The prices of looks: the main manager measures the goals of jobs from samples of their documents, host by host.

A step prices hosts for a tenth of a second, the ones that are due for the longest time first. A host costs the same
whatever number of documents it has: a sample of its documents is read, and their number follows from the distance of
their hashes.
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
from jobs.lifecycle.job import Kind, Phase
from jobs.queue.flushing.freshness import longest_of
from jobs.queue.pace.limits import BOUND, FACTS, AppliedPolicies
from jobs.queue.sql.rows import named_rows
from nodes.membership.fences import hold_term

# Seconds of a step after which no other host begins.
_STEP: Final = 0.1
# Documents of a host in a sample, and the least number of one lane.
_SAMPLE: Final = 150
_LEAST_SAMPLE: Final = 20
# Lanes of a host that are priced together.
_LANES: Final = 50
# Bounds of the time between two prices of a host. A host is priced often while its goals are new.
_OFTEN: Final = dt.timedelta(seconds=15)
_SELDOM: Final = dt.timedelta(minutes=5)
_PART_OF_AGE: Final = 0.1
# Share of a host's requests that goals plan with: the others are for new documents.
_USABLE: Final = 0.95
_FORGOTTEN_AT_ONCE: Final = 5_000
_HASHES: Final = 2.0**128

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
SELECT plan.lane_id, plan.job_id, plan.goals, plan.plan, plan.since, job.freshness_goals, job.recrawl_at_most, job.kind, job.phase
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
# From a random hash to the end, and on from the beginning.
_SAMPLED: Final[LiteralString] = f"""
(SELECT *, 0 AS part FROM ({_FROM_RATES} AND rate.hash >= %(start)s ORDER BY rate.hash LIMIT %(most)s) AS after)
 UNION ALL
(SELECT *, 1 AS part FROM ({_FROM_RATES} AND rate.hash < %(start)s ORDER BY rate.hash LIMIT %(most)s) AS before)
 ORDER BY part, hash
"""
_LIMITS: Final[LiteralString] = f"SELECT {FACTS} FROM jobs_bin AS bin {BOUND} WHERE bin.id = %(bin)s"

# Locks: the rate of a document that has left the lane.
_FORGET: Final[LiteralString] = "DELETE FROM jobs_changerate WHERE lane_id = %(lane)s AND hash = ANY(%(hashes)s)"
# After a move to another partition, most documents of a lane have left.
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
       allows = %(allows)s, host_needs = %(needs)s, lacks = greatest(0, %(needs)s - %(allows)s::float)
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
    """Price the hosts that are due, for a tenth of a second; return how many."""
    began, priced = time.monotonic(), 0
    while time.monotonic() - began < _STEP and _price_next(at):
        priced += 1
    return priced


def _price_next(at: Pass) -> bool:
    with at.connection.transaction(), named_rows(at.connection) as cursor:
        hold_term(at.connection, at.office)
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
    limits = cursor.execute(_LIMITS, {"bin": bin_id, "policy": None}).fetchone()
    gap = AppliedPolicies.read(cursor, [limits], now=now).of_bin(limits).gap if limits else 0.0
    allows = 1 / gap if gap else None
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
            },
        )
        if is_new:
            cursor.execute(_FORGET_TOTALS, {"job": row.job_id, "goals": goals.version})
        _add(cursor, row.job_id, goals.version, plan, sample.before, now=now)


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
    """End the plan of a lane without goals, or that no longer exists; the rates of its documents go first."""
    if cursor.execute(_FORGET_SOME, {"lane": row.lane_id, "most": _FORGOTTEN_AT_ONCE}).rowcount == _FORGOTTEN_AT_ONCE:
        cursor.execute(_LATER, {"lane": row.lane_id, "due": now + _OFTEN})
        return
    if row.goals:
        _add(cursor, row.job_id, row.goals, LanePlan(), LanePlan.from_json(row.plan), now=now)
    cursor.execute(_END, {"lane": row.lane_id})
