"""
Facts about hosts that come from their responses: crawl-delay, network address, a refusal (the crawler backs off), a
good answer in a trial.

A flush collects the facts of its outcomes and writes them in few statements: a broad crawl finds hundreds of new
hosts a second.
"""

import datetime as dt
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.pace.addresses import set_address_parents
from jobs.throttling.back_off import CURVE

# The wait lasts as long as the host requested, or grows with each level. Refusals during a wait count as one.
# Locks: Bin by id.
_BACK_OFF: Final[LiteralString] = """
UPDATE jobs_bin
   SET back_off_level = reached.level,
       backing_off_since = CASE WHEN back_off_level > 0 THEN backing_off_since ELSE clock_timestamp() END,
       back_off_until = greatest(back_off_until, clock_timestamp() + make_interval(secs => coalesce(
           %(asked)s::float, (%(curve)s::float[])[reached.level])))
  FROM (SELECT id, least(%(most_level)s, greatest(1, back_off_level
                         + CASE WHEN back_off_until > clock_timestamp() THEN 0 ELSE 1 END)) AS level
          FROM jobs_bin WHERE id = (SELECT bin_id FROM jobs_lane WHERE id = %(lane)s)
           FOR NO KEY UPDATE) AS reached
 WHERE jobs_bin.id = reached.id
RETURNING jobs_bin.back_off_until
"""
# The back-off level of a host that answered a trial falls by one. Locks: Bin by id.
_LOWER_LEVEL: Final[LiteralString] = """
WITH bin AS MATERIALIZED (
    SELECT id FROM jobs_bin
     WHERE id IN (SELECT bin_id FROM jobs_lane WHERE id = ANY(%(lanes)s)) AND back_off_level > 0
     ORDER BY id
       FOR NO KEY UPDATE
)
UPDATE jobs_bin SET back_off_level = back_off_level - 1 FROM bin WHERE jobs_bin.id = bin.id
"""
# The interval counts from the request that fetched robots.txt: the turn of that request closes later. If several
# lanes of one bin have an interval, the longest one applies.
# Locks: Bin by id.
_KNOWN: Final[LiteralString] = """
WITH reported AS (
    SELECT lane.bin_id, max(reported."interval") AS "interval", max(reported.address) AS address
      FROM unnest(%(lanes)s::bigint[], %(intervals)s::float[], %(addresses)s::text[]) AS reported(lane_id, "interval", address)
      JOIN jobs_lane AS lane ON lane.id = reported.lane_id
     GROUP BY lane.bin_id
), bin AS MATERIALIZED (
    SELECT bin.id, reported."interval", reported.address FROM jobs_bin AS bin JOIN reported ON reported.bin_id = bin.id
     ORDER BY bin.id
       FOR NO KEY UPDATE OF bin
)
UPDATE jobs_bin
   SET is_known = true, "interval" = coalesce(bin."interval", jobs_bin."interval"),
       address = coalesce(bin.address, jobs_bin.address)
  FROM bin WHERE jobs_bin.id = bin.id
RETURNING jobs_bin.id, bin.address
"""


@dataclass(frozen=True, slots=True)
class HostReport:
    """
    The facts of a host from its first responses to a lane: its crawl-delay in seconds, and its address.

    None keeps the stored value.
    """

    lane_id: int
    interval: float | None
    address: str | None = None


def back_off(connection: psycopg.Connection[Any], *, lane_id: int, asked: float | None) -> dt.datetime | None:
    """
    Back off from the host of this lane for `asked` seconds; if this is None, for the usual duration at its level.

    Return the end of the back-off; None if the lane no longer exists.
    """
    facts = {"lane": lane_id, "asked": asked, "curve": CURVE, "most_level": len(CURVE)}
    row = connection.execute(_BACK_OFF, facts).fetchone()
    return row[0] if row else None


def lower_back_off_levels(connection: psycopg.Connection[Any], *, lanes: Collection[int]) -> None:
    """Lower the back-off level of the hosts of these lanes by one: they answered a trial."""
    if lanes:
        connection.execute(_LOWER_LEVEL, {"lanes": list(lanes)})


def store_robots_reports(connection: psycopg.Connection[Any], *, reports: Sequence[HostReport]) -> None:
    """
    Store that the robots.txt of these hosts was read, so that stuffers may hand out several of their documents
    together.
    """
    if not reports:
        return
    rows = connection.execute(
        _KNOWN,
        {
            "lanes": [host.lane_id for host in reports],
            "intervals": [host.interval for host in reports],
            "addresses": [host.address for host in reports],
        },
    ).fetchall()
    if placed := [bin_id for bin_id, address in rows if address]:
        set_address_parents(connection.cursor(), bins=placed)
