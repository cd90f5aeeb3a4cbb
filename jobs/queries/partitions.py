"""The partitions as this partition sees them: their share of the hosts, their documents, and the exchange with them."""

import datetime as dt
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, LiteralString

import psycopg
from django.db import connection

from jobs.partitions import this_partition
from jobs.partitions.merged import Silent
from jobs.partitions.move_notes import KEY as MOVE_KEY
from jobs.partitions.move_notes import REPORT_KEY
from jobs.partitions.moving import Move, MovePhase, Report
from jobs.partitions.placement import Placement
from jobs.partitions.slots import MAP, SlotMap
from jobs.queries.jobs.counts import count_own_documents
from jobs.queue.counting.counters import RunCounts

# Key of the fact by which a partition shows that it is alive. The fact has its number of documents.
ALIVE: Final = "life:all"
_JOBS: Final[LiteralString] = """
SELECT known.job_id, known.number, job.run_no
  FROM jobs_partitionedjob AS known JOIN jobs_job AS job ON job.id = known.job_id
"""
# Reads the newest fact with this key from each partition, this one included.
_RECEIVED: Final[LiteralString] = """
SELECT DISTINCT ON (source) source, body, sent_at FROM jobs_partitionfact
 WHERE key = %(key)s AND target = %(here)s ORDER BY source, number DESC
"""
# Reads the newest fact with each of these keys from each partition, this one included.
_NOTED: Final[LiteralString] = """
SELECT DISTINCT ON (source, key) source, key, body FROM jobs_partitionfact
 WHERE key = ANY(%(keys)s) AND target = %(here)s ORDER BY source, key, number DESC
"""
# Weight of the newest interval in the rate, which is a moving mean over about the last ten seconds.
_NEWEST: Final = 0.3
# Rate (documents a second) below which a rate counts as zero, so that an idle partition has no changes to send.
_LEAST_RATE: Final = 0.01
# Silence after which a partition counts as silent (it sends its figures every two seconds).
_SILENT_AFTER: Final = dt.timedelta(seconds=15)
# The bytes of the write-ahead log that each replication slot keeps, because a partition has not taken them yet.
_BEHIND: Final[LiteralString] = """
SELECT slot_name::text, pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn)::bigint, active
  FROM pg_replication_slots WHERE slot_name LIKE 'crawlctl\\_%%\\_to\\_%%'
"""
_ARRIVED: Final[LiteralString] = (
    "SELECT source, count(*) FROM jobs_foreignreference WHERE target = %(here)s GROUP BY source"
)


@dataclass(frozen=True, slots=True)
class PartitionLine:
    """
    One partition.

    `documents`, `rate` (documents a second) and `sent_at`, the time of both, are None if they are unknown here: only
    the control partition receives the figures of all. `is_silent` is true if it has sent no figures for a while.
    `is_receiving` is True if it takes the rows of this partition now, and `bytes_behind` is the amount that it has not
    taken. `arrived` is the number of references from it that wait in this partition for their run.
    """

    name: str
    is_here: bool
    is_control: bool
    slots: int
    documents: int | None = None
    rate: float | None = None
    is_silent: bool = False
    sent_at: dt.datetime | None = None
    is_receiving: bool | None = None
    bytes_behind: int | None = None
    arrived: int = 0


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The counts of a job's present run in this partition."""

    number: int
    run_no: int
    counts: RunCounts


def figures_of_jobs(reading: psycopg.Connection[Any] | None = None) -> list[JobFigures]:
    """Return the counts of all jobs that several partitions crawl, over Django's connection or this one."""
    with reading.cursor() if reading else connection.cursor() as cursor:
        cursor.execute(_JOBS)
        jobs = cursor.fetchall()
    counts = count_own_documents((job_id for job_id, _, _ in jobs), cursor=reading.cursor() if reading else None)
    return [JobFigures(number, run_no, counts[job_id]) for job_id, number, run_no in jobs]


def alive_fact(
    before: Mapping[str, Any] | None, *, processed: int, waiting: int, epoch: int | None, now: dt.datetime
) -> dict[str, Any]:
    """
    Return the fact that shows that this partition is alive: its documents, and its rate, updated from the fact
    `before`.

    `epoch` is the epoch of its map of slots. It is None while slots move, because documents that move are not the work
    of the partition.
    """
    rate = 0.0
    if before is not None and "processed" in before:
        seconds = max(0.1, (now - dt.datetime.fromisoformat(before["at"])).total_seconds())
        # A new run begins at zero.
        done = processed - before["processed"] if epoch is not None and epoch == before.get("epoch") else 0
        newest = max(0.0, done / seconds)
        rate = before["rate"] + _NEWEST * (newest - before["rate"])
    return {
        "documents": processed + waiting,
        "processed": processed,
        "rate": round(rate, 3) if rate >= _LEAST_RATE else 0.0,
        "epoch": epoch,
        "at": now.isoformat(),
    }


@dataclass(frozen=True, slots=True)
class PartOfMove:
    """
    One partition in a move. `waits_for` is the reason why it does not hold all jobs yet. It `has_moved` if it applies
    the new map and has sent all documents. `sent` and `applied` count chunks of documents.
    """

    name: str
    is_held: bool
    waits_for: str
    has_moved: bool
    sent: int
    applied: int


@dataclass(frozen=True, slots=True)
class LastMove:
    """The last move of slots. The parts are known in the control partition only."""

    number: int
    phase: MovePhase
    why: str
    parts: Sequence[PartOfMove]

    @property
    def sentence(self) -> str:
        """Return the state of the partition in one sentence."""
        if self.phase == MovePhase.REFUSED:
            return f"refused. {self.why}"
        if self.phase.is_over:
            return f"{self.phase}."
        if self.phase == MovePhase.HOLDING:
            waiting = [f"{part.name}: {part.waits_for or 'No answer yet.'}" for part in self.parts if not part.is_held]
            return "waits until no document is in progress. " + " ".join(waiting)
        sent, applied = sum(part.sent for part in self.parts), sum(part.applied for part in self.parts)
        return f"copies documents. {sent:,} chunks were sent, and {applied:,} have arrived."


def read_last_move(placement: Placement) -> LastMove | None:
    """Return the last move of slots, with the reports of the partitions; None before the first one."""
    with connection.cursor() as cursor:
        cursor.execute(_NOTED, {"here": placement.here, "keys": [MOVE_KEY, REPORT_KEY]})
        noted = {(source, key): json.loads(body) for source, key, body in cursor.fetchall()}
    body = noted.get((placement.here, MOVE_KEY))
    if body is None:
        return None
    move = Move.from_json(body)
    names = placement.names if placement.is_control else (placement.here,)
    parts = []
    for name in names:
        if name in move.without:
            continue
        report_body = noted.get((name, REPORT_KEY))
        report = Report(0, 0) if report_body is None else Report.from_json(report_body)
        if report.number != move.number:
            report = Report(move.number, 0)
        parts.append(
            PartOfMove(
                name,
                is_held=report.held is not None,
                waits_for=report.waits_for,
                has_moved=report.has_moved(move.number),
                sent=sum((report.sent or {}).values()),
                applied=sum(sum(counts.values()) for counts in report.applied.values()),
            )
        )
    return LastMove(move.number, move.phase, move.why, parts)


def read_silent(*, now: dt.datetime) -> list[Silent]:
    """
    Return the partitions that have sent the control partition no figures for a while: its counts lack their latest
    changes.
    """
    placement = this_partition.placement()
    if placement is None or not placement.is_control:
        return []
    with connection.cursor() as cursor:
        cursor.execute(_RECEIVED, {"key": ALIVE, "here": placement.here})
        received: Mapping[str, dt.datetime] = {source: at for source, _, at in cursor.fetchall()}
    last = {name: received.get(name) for name in placement.others}
    return [Silent(name, at) for name, at in last.items() if at is None or now - at > _SILENT_AFTER]


def read_owners(placement: Placement) -> Sequence[str]:
    """Return the partition of each slot, as this database noted it."""
    with connection.cursor() as cursor:
        cursor.execute(MAP)
        noted = cursor.fetchone()
    return SlotMap.from_json(noted and json.loads(noted[0]), placement.names).owners


def read_partitions(placement: Placement, *, now: dt.datetime) -> list[PartitionLine]:
    """Return all partitions in the order of the settings."""
    with connection.cursor() as cursor:
        cursor.execute(_RECEIVED, {"key": ALIVE, "here": placement.here})
        received: Mapping[str, tuple[Any, dt.datetime]] = {source: (body, at) for source, body, at in cursor.fetchall()}
        cursor.execute(_BEHIND)
        behind = {slot: (lag, active) for slot, lag, active in cursor.fetchall()}
        cursor.execute(_ARRIVED, {"here": placement.here})
        arrived = dict(cursor.fetchall())
    owners = read_owners(placement)
    own = sum(one.counts.processed + one.counts.waiting for one in figures_of_jobs())
    seen = []
    for name in placement.names:
        share = owners.count(name)
        body, sent_at = received.get(name, (None, None))
        life = {} if body is None else json.loads(body)
        rate = life.get("rate")
        if name == placement.here:
            seen.append(
                PartitionLine(
                    name, is_here=True, is_control=placement.is_control, slots=share, documents=own, rate=rate
                )
            )
            continue
        lag, active = behind.get(f"crawlctl_{placement.here}_to_{name}", (None, False))
        seen.append(
            PartitionLine(
                name,
                is_here=False,
                is_control=name == placement.control,
                slots=share,
                documents=life.get("documents"),
                rate=rate,
                is_silent=sent_at is not None and now - sent_at > _SILENT_AFTER,
                sent_at=sent_at,
                is_receiving=bool(active),
                bytes_behind=lag,
                arrived=arrived.get(name, 0),
            )
        )
    return seen
