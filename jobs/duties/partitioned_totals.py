"""
Totals of policies over several partitions: the control partition divides the totals, and the other partitions report
their needs and the shares in force.

Policies that apply everywhere are the limits of the whole cluster, so their totals are divided in the same way.
"""

import datetime as dt
from fractions import Fraction
from typing import Any, Final, LiteralString

from jobs.duties.context import Pass
from jobs.duties.exchange import HAS_FACTS
from jobs.partitions import facts, this_partition
from jobs.partitions.facts import Fact, FactSender
from jobs.partitions.placement import Placement
from jobs.partitions.shares import round_down
from jobs.partitions.totals import TotalShare, change_shares, equal_shares, report_of, share_of
from jobs.queue.pace.read_policies import read_policies
from jobs.queue.sql.rows import named_rows
from jobs.queue.sql.states import read_states
from jobs.state import channels
from jobs.throttling.limits import UNLIMITED_REQUESTS
from nodes.membership.fences import hold_term

_KIND: Final = "total"
# Seconds after which the next partition gets requests, if a policy allows fewer open requests than there are
# partitions.
_TURN: Final = 30
# Time after which all transactions that read the share before it was lowered have ended.
_MARGIN: Final = dt.timedelta(seconds=2)
# Largest number of lanes that are counted. The proportions of the needs do not have to be more exact.
_COUNTED: Final = 1_000

_HAS_TOTAL: Final[LiteralString] = """
(total_open_requests IS NOT NULL OR total_starts IS NOT NULL OR total_bytes_per_second IS NOT NULL)"""
_WITH_TOTAL: Final[LiteralString] = f"""
policy.private_to_id IS NULL
AND ({_HAS_TOTAL} OR EXISTS (SELECT FROM jobs_throttlerule AS rule WHERE rule.policy_id = policy.id AND {_HAS_TOTAL}))"""
TOTALS_TO_DIVIDE: Final[LiteralString] = f"""
{HAS_FACTS} AND EXISTS (SELECT FROM jobs_throttlepolicy AS policy WHERE {_WITH_TOTAL})"""
_POLICIES: Final[LiteralString] = f"""
SELECT policy.id, policy.name, share.parts, share.of, share.number, share.lowered_at,
       coalesce((SELECT open_turns FROM {read_states("open_turns", of="bin", number="bin.id")} AS state), 0)
       + (SELECT count(*)
            FROM (SELECT FROM jobs_seed AS seed
                    JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active' AND job.pause = 'no'
                   CROSS JOIN LATERAL (SELECT FROM jobs_lanestate AS lane
                                        WHERE lane.seed_id = seed.id AND lane.ready_at IS NOT NULL
                                        LIMIT %(counted)s) AS waiting
                   WHERE policy.applies_everywhere OR seed.policy_id = policy.id
                   LIMIT %(counted)s) AS counted) AS need,
       share.lowered_at >= %(now)s - %(margin)s OR EXISTS (
           SELECT FROM jobs_turn AS turn JOIN jobs_batch AS batch ON batch.id = turn.batch_id
            WHERE share.lowered_at IS NOT NULL AND turn.closed_at IS NULL AND turn.parents IS NOT NULL
              AND turn.parents ? bin.id::text AND batch.created_at < share.lowered_at + %(margin)s) AS is_lowering
  FROM jobs_throttlepolicy AS policy
  LEFT JOIN jobs_policyshare AS share ON share.policy_id = policy.id
  LEFT JOIN jobs_bin AS bin ON bin.namespace = 'policy' AND bin.name = policy.id::text
 WHERE {_WITH_TOTAL}
 ORDER BY policy.id
"""
# Locks: PolicyShare by policy, which only this duty writes.
_STORE: Final[LiteralString] = """
INSERT INTO jobs_policyshare AS share (policy_id, parts, of, number)
VALUES (%(policy)s, %(parts)s, %(of)s, %(number)s)
ON CONFLICT (policy_id) DO UPDATE
   SET parts = excluded.parts, of = excluded.of, number = excluded.number, version = share.version + 1,
       lowered_at = CASE WHEN excluded.parts::bigint * share.of < share.parts::bigint * excluded.of OR share.lowered_at IS NOT NULL
                         THEN %(now)s END
"""
_RELEASE: Final[LiteralString] = "UPDATE jobs_policyshare SET lowered_at = NULL WHERE policy_id = %(policy)s"
_NOTIFY: Final[LiteralString] = "SELECT pg_notify(%(channel)s, %(payload)s)"


def divide_totals(at: Pass) -> int:
    """
    Divide the totals of policies in the control partition. In another partition, apply the shares that it sent, and
    report the needs. Return the number of changed shares.
    """
    placement = this_partition.placement()
    if placement is None:
        return 0
    with named_rows(at.connection) as cursor:
        about = {"now": at.now, "margin": _MARGIN, "counted": _COUNTED}
        rows = cursor.execute(_POLICIES, about).fetchall()
    rows = [_released(at, row) for row in rows]
    received, sender = facts.read_facts(at.connection, placement.here, _KIND)
    lead_or_follow = _lead if placement.is_control else _follow
    return lead_or_follow(at, placement, rows, sender, received)


def _lead(at: Pass, placement: Placement, rows: list[Any], sender: FactSender, received: list[Fact]) -> int:
    reports = {(fact.source, fact.key): fact.body for fact in received}
    with named_rows(at.connection) as cursor:
        policies = read_policies(cursor, [row.id for row in rows])
    changes = 0
    for row in rows:
        key = f"{_KIND}:{row.id}"
        shares = {}
        for name, equal in equal_shares(placement.names).items():
            if name == placement.here:
                if row.of is None:
                    changes += _store(at, row, equal, number=0)
                own = equal if row.of is None else Fraction(row.parts, row.of)
                # Turns of a higher share may still be open.
                is_lowering = row.lowered_at is not None
                held = Fraction(1) if is_lowering else own
                shares[name] = TotalShare(own, held, round_down(row.need), is_confirmed=not is_lowering)
                continue
            if sender.last(name, key) is None:
                # A partition that was added after the first division begins without a share. It then gets a share by
                # its need, from the shares of the other partitions.
                first = equal if row.of is None else Fraction(0)
                changes += _send_share(at, sender, name, row, first)
            shares[name] = share_of(sender.last(name, key) or {}, reports.get((name, key)))
            _send_name(sender, name, row)
        total = policies[row.id].in_whole_total(at.now)
        requests = total.requests if total is not None and total.requests < UNLIMITED_REQUESTS else None
        changed = change_shares(shares, requests=requests, turn=int(at.now.timestamp()) // _TURN)
        for name, share in changed.items():
            changes += (
                _store(at, row, share, number=0)
                if name == placement.here
                else _send_share(at, sender, name, row, share)
            )
    return changes


def _follow(at: Pass, placement: Placement, rows: list[Any], sender: FactSender, received: list[Fact]) -> int:
    # If a policy was deleted and made again, the fact with the highest number belongs to the present policy.
    by_name = {fact.body["name"]: fact for fact in sorted(received, key=_policy_of)}
    changes = 0
    for row in rows:
        if (fact := by_name.get(row.name)) is None:
            continue
        share, number = Fraction(*fact.body["share"]), fact.body["number"]
        is_lowering = row.lowered_at is not None
        if row.number != number:
            is_lowering = is_lowering or (row.of is not None and share < Fraction(row.parts, row.of))
            changes += _store(at, row, share, number=number)
        before = sender.last(placement.control, fact.key)
        report = report_of(fact.body, before, need=round_down(row.need), is_lowering=is_lowering)
        sender.send(placement.control, fact.key, report)
    return changes


def _policy_of(fact: Fact) -> int:
    """Return the id of the policy in the control partition."""
    return int(fact.key.partition(":")[2])


def _send_share(at: Pass, sender: FactSender, target: str, row: Any, share: Fraction) -> int:
    key = f"{_KIND}:{row.id}"
    before = (sender.last(target, key) or {}).get("number", 0)
    # The number depends on the time, so that a restored control partition does not give a number twice.
    number = max(before + 1, int(at.now.timestamp() * 1000))
    sender.send(target, key, {"name": row.name, "number": number, "share": [share.numerator, share.denominator]})
    return 1


def _send_name(sender: FactSender, target: str, row: Any) -> None:
    key = f"{_KIND}:{row.id}"
    sent = sender.last(target, key)
    if sent is not None and sent["name"] != row.name:
        sender.send(target, key, {**sent, "name": row.name})


def _released(at: Pass, row: Any) -> Any:
    """
    Return the policy. If no turn of its earlier, larger share is open, clear the time at which the share was lowered.
    """
    if row.lowered_at is None or row.is_lowering:
        return row
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        at.connection.execute(_RELEASE, {"policy": row.id})
    return row._replace(lowered_at=None)


def _store(at: Pass, row: Any, share: Fraction, *, number: int) -> int:
    """Store the share of this partition, and notify its nodes; return 1."""
    new = {"policy": row.id, "parts": share.numerator, "of": share.denominator, "number": number, "now": at.now}
    with at.connection.transaction():
        hold_term(at.connection, at.held_term)
        at.connection.execute(_STORE, new)
        at.connection.execute(_NOTIFY, {"channel": channels.CONTROL, "payload": channels.LIMITS})
    return 1
