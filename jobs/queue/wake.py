"""
Wake-ups: lanes become ready, and listeners are notified.

The commit of a NOTIFY takes a lock for the whole instance, so the queue's transactions contain none. A loop sends
merged notifications after their commits. Every process also polls, and the owner of a group walks over its lanes
(`jobs/queue/rounds.py`). So a lost wake-up costs latency, never progress.
"""

import datetime as dt
from collections.abc import Iterable
from typing import Any, Final, LiteralString

import psycopg

from jobs.queue.sql.states import lock_newest_states, write_states


def _waking(numbers: LiteralString) -> LiteralString:
    return f"""
WITH locked AS MATERIALIZED ({lock_newest_states(of="lane", numbers=numbers)})
{write_states("ready_at = coalesce(%(now)s, clock_timestamp()), head = 0", of="lane", held="locked")}
"""


_NAMED: Final[LiteralString] = "SELECT unnest(%(lanes)s::bigint[])"
# Locks: Lane by id.
_WAKE: Final[LiteralString] = _waking(_NAMED)
# Locks: Lane by id.
_WAKE_JOB: Final[LiteralString] = _waking(
    "SELECT lane.id FROM jobs_seed AS seed JOIN jobs_lane AS lane ON lane.seed_id = seed.id WHERE seed.job_id = %(job)s"
)
# Locks: Lane by id.
_WAKE_BIN: Final[LiteralString] = _waking(
    "SELECT lane.id FROM jobs_lane AS lane JOIN jobs_seed AS seed ON seed.id = lane.seed_id"
    " JOIN jobs_job AS job ON job.id = seed.job_id AND job.phase = 'active' WHERE lane.bin_id = %(bin)s"
)
# A lane whose documents are also processed is not delayed.
_LATER: Final[LiteralString] = (
    "ready_at = CASE WHEN held.is_processed THEN least(state.ready_at, %(until)s) ELSE %(until)s END"
)
# Locks: Lane by id.
_POSTPONE: Final[LiteralString] = f"""
WITH locked AS MATERIALIZED ({lock_newest_states(of="lane", numbers=_NAMED)}
), refused AS MATERIALIZED (
    SELECT locked.*, job.phase = 'active' AS is_processed
      FROM locked JOIN jobs_lane AS lane ON lane.id = locked.id JOIN jobs_seed AS seed ON seed.id = lane.seed_id
      JOIN jobs_job AS job ON job.id = seed.job_id
)
{write_states(_LATER, of="lane", held="refused")}
"""


def wake_lanes(
    connection: psycopg.Connection[Any] | psycopg.Cursor[Any], lanes: Iterable[int], *, now: dt.datetime | None = None
) -> None:
    """Make lanes ready immediately, or at the `now` of a pass. Their next scans start at their first documents."""
    if named := sorted(set(lanes)):
        connection.execute(_WAKE, {"lanes": named, "now": now})


def postpone_lanes(connection: psycopg.Connection[Any], lanes: Iterable[int], *, until: dt.datetime) -> None:
    """Delay lanes whose removals an output refused. A lane with documents to process keeps its earlier time."""
    if named := sorted(set(lanes)):
        connection.execute(_POSTPONE, {"lanes": named, "until": until})


def wake_job(connection: psycopg.Connection[Any], *, job_id: int, now: dt.datetime) -> None:
    """Wake every lane of a job, because other documents of the job may be handed out now."""
    connection.execute(_WAKE_JOB, {"job": job_id, "now": now})


def wake_bin(connection: psycopg.Connection[Any], *, bin_id: int, now: dt.datetime) -> None:
    """Wake every lane of a bin, because the limits of the bin may allow more requests now."""
    connection.execute(_WAKE_BIN, {"bin": bin_id, "now": now})


def notify(connection: psycopg.Connection[Any], channel: str, payload: str) -> None:
    """Notify listeners on `channel`. Needs an autocommit connection outside any transaction."""
    connection.execute("SELECT pg_notify(%s, %s)", (channel, payload))
