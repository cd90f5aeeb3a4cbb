"""
The evidence of politeness in the database: reports of workers, and the chains of blocks that the main manager appends.

Reports have no fence, because a worker that was marked failed has sent its requests, too. Blocks have a fence: only the
main manager of the cluster appends them, under its term.
"""

import datetime as dt
import json
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Final, LiteralString

import psycopg

from jobs.evidence.chain import Head, canonical, next_block
from jobs.evidence.coverage import OF_GAPS, RESTORED, Gap, Recorder, advance, repeated
from jobs.evidence.files import gap_of
from jobs.evidence.minutes import Facts, Report, content_of, report_of
from jobs.queue.sql.columns import columns_of
from nodes.membership.fences import TermHeld, hold_term

MINUTE: Final = dt.timedelta(minutes=1)
# Age from which a minute is appended: by then, the workers have reported their requests of this minute. A later report
# becomes a separate block.
_CLOSED_AFTER: Final = 2 * MINUTE
# Time for which an appended report is remembered. A worker that did not get the answer to its report sends the report
# again.
_REMEMBERED: Final = dt.timedelta(hours=1)
# Largest number of blocks that are appended together.
_BLOCKS_AT_ONCE: Final = 500
_DELETED_AT_ONCE: Final = 5_000

# A report with its number, which counts the reports of its worker.
Numbered = tuple[int, Report]


@dataclass(frozen=True, slots=True)
class Reported:
    """
    A report of a worker: complete minutes, and the moment until which it has reported all requests (seconds since
    1970).

    The worker counts requests `since` a moment, or since its start (None). `is_all` is true for the last report of a
    worker.
    """

    reports: Sequence[Numbered]
    since: float | None
    complete_until: float
    is_all: bool = False


# Locks: the rows that it inserts, then the EvidenceRecorder row of the worker.
_REPORT: Final[LiteralString] = """
WITH reports AS (
    INSERT INTO jobs_evidencereport (worker, number, host, minute, facts)
    SELECT %(worker)s, * FROM unnest(%(numbers)s::int[], %(hosts)s::text[], %(minutes)s::timestamptz[],
                                     %(facts)s::text[])
    ON CONFLICT (worker, number) DO NOTHING
)
INSERT INTO jobs_evidencerecorder (worker, since, complete_until, reported_all)
SELECT %(worker)s, coalesce(%(since)s, started_at), %(complete_until)s, %(is_all)s
  FROM nodes_node WHERE id = %(worker)s
ON CONFLICT (worker) DO UPDATE SET since = excluded.since, complete_until = excluded.complete_until,
                                   reported_all = excluded.reported_all
"""
# True if some closed minutes are not appended yet, or are not yet judged as complete or incomplete.
REPORTS_TO_CHAIN: Final[LiteralString] = """
(EXISTS (SELECT FROM jobs_evidencereport
          WHERE chained_at IS NULL AND minute < clock_timestamp() - interval '3 minutes')
 OR (EXISTS (SELECT FROM jobs_evidencerecorder)
     AND coalesce((SELECT complete_until < clock_timestamp() - interval '3 minutes'
                          OR complete_until > clock_timestamp() + interval '1 minute'
                     FROM jobs_evidencechain WHERE host = ''), true)))
"""
_CLOSED: Final[LiteralString] = """
SELECT host, minute, worker, number, facts FROM jobs_evidencereport
 WHERE chained_at IS NULL
   AND (host, minute) IN (SELECT host, minute FROM jobs_evidencereport
                           WHERE chained_at IS NULL AND minute < %(before)s
                           GROUP BY host, minute ORDER BY minute, host LIMIT %(most)s)
 ORDER BY minute, host, id
"""
_OPEN: Final[LiteralString] = """
INSERT INTO jobs_evidencechain (host) SELECT unnest(%(hosts)s::text[]) ON CONFLICT (host) DO NOTHING
"""
# Locks: EvidenceChain by id.
_HEADS: Final[LiteralString] = """
SELECT host, id, seq, hash, complete_until FROM jobs_evidencechain
 WHERE host = ANY(%(hosts)s) ORDER BY id FOR NO KEY UPDATE
"""
_BLOCK: Final[LiteralString] = """
SELECT content FROM jobs_evidenceblock WHERE chain_id = %(chain)s AND seq = %(seq)s
"""
_APPEND: Final[LiteralString] = """
INSERT INTO jobs_evidenceblock (chain_id, seq, minute, content, hash, appended_at)
SELECT *, %(now)s FROM unnest(%(chains)s::bigint[], %(seqs)s::bigint[], %(minutes)s::timestamptz[], %(contents)s::text[],
                              %(hashes)s::text[])
"""
_MOVE_HEADS: Final[LiteralString] = """
UPDATE jobs_evidencechain AS chain SET seq = head.seq, hash = head.hash
  FROM unnest(%(chains)s::bigint[], %(seqs)s::bigint[], %(hashes)s::text[]) AS head(id, seq, hash)
 WHERE chain.id = head.id
"""
_NOTE_CHAINED: Final[LiteralString] = """
UPDATE jobs_evidencereport AS report SET chained_at = %(now)s
  FROM unnest(%(workers)s::uuid[], %(numbers)s::int[]) AS chained(worker, number)
 WHERE report.worker = chained.worker AND report.number = chained.number
"""
_FORGET: Final[LiteralString] = """
DELETE FROM jobs_evidencereport
 WHERE id IN (SELECT id FROM jobs_evidencereport WHERE chained_at < %(before)s ORDER BY chained_at LIMIT %(most)s)
"""
# Workers of all scopes that have run at any time after the last decided minute.
_WORKERS: Final[LiteralString] = """
SELECT extract(epoch FROM node.started_at)::float, extract(epoch FROM node.stopped_at)::float,
       extract(epoch FROM recorder.since)::float, extract(epoch FROM recorder.complete_until)::float,
       recorder.reported_all
  FROM nodes_node AS node LEFT JOIN jobs_evidencerecorder AS recorder ON recorder.worker = node.id
 WHERE node.kind = 'worker'
   AND (node.status IN ('starting', 'running', 'draining')
        OR (node.status IN ('stopped', 'failed') AND node.stopped_at > %(after)s))
"""
# Restores of the database after the last decided minute. Workers and reports from after the backup are lost.
_RESTORES: Final[LiteralString] = """
SELECT extract(epoch FROM coalesce(as_of, noticed_at) - interval '5 minutes')::float,
       extract(epoch FROM noticed_at)::float
  FROM nodes_databaserestore WHERE noticed_at > %(after)s
"""
_DECIDE: Final[LiteralString] = """
UPDATE jobs_evidencechain SET complete_until = %(until)s WHERE id = %(chain)s
"""
_FORGET_RECORDERS: Final[LiteralString] = """
DELETE FROM jobs_evidencerecorder AS recorder
 WHERE NOT EXISTS (SELECT FROM nodes_node AS node WHERE node.id = recorder.worker
                      AND (node.stopped_at IS NULL OR node.stopped_at > %(until)s))
"""


def report(connection: psycopg.Connection[Any], *, worker: uuid.UUID, reported: Reported) -> None:
    """
    Store reports of a worker, and the moment until which it has reported all requests. A report that is stored already
    changes nothing.
    """
    connection.execute(
        _REPORT,
        {
            "worker": worker,
            "numbers": [number for number, _ in reported.reports],
            "hosts": [one.host for _, one in reported.reports],
            "minutes": [_moment(one.minute) for _, one in reported.reports],
            "facts": [canonical(one.facts()) for _, one in reported.reports],
            "since": None if reported.since is None else _moment(reported.since),
            "complete_until": _moment(reported.complete_until),
            "is_all": reported.is_all,
        },
    )


class _Appending:
    """A transaction that appends blocks, and locks the heads of their chains."""

    def __init__(self, connection: psycopg.Connection[Any], hosts: Sequence[str]) -> None:
        connection.execute(_OPEN, {"hosts": sorted(hosts)})
        self._connection = connection
        self._chains: dict[str, tuple[int, Head]] = {}
        self.complete_until: dt.datetime | None = None
        for host, chain, seq, hash_, until in connection.execute(_HEADS, {"hosts": list(hosts)}).fetchall():
            self._chains[host] = chain, Head(seq, hash_)
            if host == OF_GAPS:
                self.complete_until = until
        self._blocks: list[tuple[int, int, dt.datetime, str, str]] = []

    def append(self, content: Facts, *, minute: dt.datetime) -> None:
        """Append a block with this content to the chain of its host."""
        chain, head = self._chains[content["host"]]
        block = next_block(head, content)
        self._chains[content["host"]] = chain, Head(block.seq, block.hash)
        self._blocks.append((chain, block.seq, minute, block.content, block.hash))

    def newest_gap(self) -> Gap | None:
        """Return the newest gap that is stored."""
        chain, head = self._chains[OF_GAPS]
        row = self._connection.execute(_BLOCK, {"chain": chain, "seq": head.seq}).fetchone()
        return None if row is None else gap_of(json.loads(row[0]))

    def decide(self, until: dt.datetime) -> None:
        """Store the moment until which all minutes are decided."""
        self._connection.execute(_DECIDE, {"chain": self._chains[OF_GAPS][0], "until": until})

    def write(self, *, now: dt.datetime) -> int:
        """Write the blocks, and return their number."""
        named = ("chains", "seqs", "minutes", "contents", "hashes")
        if self._blocks:
            self._connection.execute(_APPEND, {"now": now, **columns_of(self._blocks, named)})
            heads = [(chain, head.seq, head.hash) for chain, head in self._chains.values()]
            self._connection.execute(_MOVE_HEADS, columns_of(heads, ("chains", "seqs", "hashes")))
        return len(self._blocks)


def append_blocks(connection: psycopg.Connection[Any], *, term: TermHeld, now: dt.datetime, is_on: bool) -> int:
    """
    Append the blocks of closed minutes to the chains of their hosts; return the number of blocks.

    If the record `is_on`, also decide for closed minutes whether they are complete, and append incomplete minutes to
    the chain of gaps.

    Raises:
        FenceRefused: the term has ended.
    """
    before = now.replace(second=0, microsecond=0) - _CLOSED_AFTER
    with connection.transaction():
        hold_term(connection, term)
        rows = connection.execute(_CLOSED, {"before": before, "most": _BLOCKS_AT_ONCE}).fetchall()
        appending = _Appending(connection, sorted({OF_GAPS, *(row[0] for row in rows)}))
        count = 0
        for (host, minute), group in groupby(rows, key=lambda row: (row[0], row[1])):
            count += 1
            reports = [report_of(host, int(minute.timestamp()), json.loads(row[4])) for row in group]
            appending.append(content_of(reports), minute=minute)
        if is_on and count < _BLOCKS_AT_ONCE:
            _decide(connection, appending, latest=before, now=now)
        written = appending.write(now=now)
        connection.execute(
            _NOTE_CHAINED, {"now": now, "workers": [row[2] for row in rows], "numbers": [row[3] for row in rows]}
        )
        connection.execute(_FORGET, {"before": now - _REMEMBERED, "most": _DELETED_AT_ONCE})
    return written


def _decide(
    connection: psycopg.Connection[Any], appending: _Appending, *, latest: dt.datetime, now: dt.datetime
) -> None:
    """Decide whether the minutes until `latest` are complete. All reports of these minutes are appended already."""
    decided = appending.complete_until
    if decided is not None and decided > now + MINUTE:
        again = repeated(
            int(decided.timestamp()),
            now=now.timestamp(),
            latest=int(latest.timestamp()),
            named=appending.newest_gap(),
        )
        if again is not None:
            appending.append(again.content(), minute=decided)
        return
    rows = connection.execute(_WORKERS, {"after": decided or latest}).fetchall()
    workers = [
        Recorder(started, ended, since, until or 0.0, reported_all=bool(reported_all))
        for started, ended, since, until, reported_all in rows
    ]
    restores = connection.execute(_RESTORES, {"after": decided or latest}).fetchall()
    workers += [Recorder(since, noticed, why=RESTORED) for since, noticed in restores]
    until, gaps = advance(
        None if decided is None else int(decided.timestamp()), latest=int(latest.timestamp()), workers=workers
    )
    for gap in gaps:
        appending.append(gap.content(), minute=_moment(gap.until))
    if until is not None and (decided is None or until > decided.timestamp()):
        appending.decide(_moment(until))
        connection.execute(_FORGET_RECORDERS, {"until": _moment(until)})


def _moment(seconds: float) -> dt.datetime:
    return dt.datetime.fromtimestamp(seconds, dt.UTC)
