"""
The archives of a worker's jobs: raw exchanges are appended to files before the flush, and the flush inserts their rows.

Each (worker, job) has a separate file. The bytes are durable before the transaction begins, so no row points past the
end of a file. A crash between the two leaves records without rows, which are harmless: the document is read again.

The file is locked while its process lives. A worker ends the files of dead processes on its machine, each after its
last complete record, and continues none of them. If a file is missing, its content is lost, and its documents are read
again.
"""

import datetime as dt
import fcntl
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg
from django.conf import settings

from jobs.archive.files import OpenFile, end_torn_file, is_mounted, locked, name_of
from jobs.archive.records import Archived, Format, Original, RawExchange, RecordKind, Stored, digest_of
from jobs.connectors.output.base import PASSING_ERRORS, OutputError
from jobs.queue import archived
from jobs.queue.flushing.flush import ArchiveRecords
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.sql.rows import named_rows
from jobs.settings.archives import ARCHIVE_FILE_AGE, ARCHIVE_FILE_BYTES, ARCHIVE_ROOT
from nodes.life.identity import NodeIdentity
from nodes.settings.running import current

logger = logging.getLogger(__name__)

_SOFTWARE: Final = "crawlctl"
# Age at which the row of a file that was never created is deleted.
_NEVER_CREATED: Final = dt.timedelta(minutes=10)

_OPEN: Final[LiteralString] = """
INSERT INTO jobs_archivefile (job_id, node_id, host, root, path, format, state, length, sha256, stores, problem, opened_at)
VALUES (%(job)s, %(node)s, %(host)s, %(root)s, %(path)s, %(format)s, 'open', 0, '', '{}', '', %(now)s)
RETURNING id
"""

_END: Final[LiteralString] = """
UPDATE jobs_archivefile SET state = 'complete', length = %(length)s, completed_at = %(now)s
 WHERE id = %(id)s AND state = 'open'
"""

# For each document, its last archived body that is not lost.
_ORIGINALS: Final[LiteralString] = """
SELECT wanted.hash, original.digest, original.fetched_at
  FROM unnest(%(hashes)s::uuid[]) AS wanted(hash)
 CROSS JOIN LATERAL (
    SELECT record.digest, record.fetched_at
      FROM jobs_archiverecord AS record JOIN jobs_archivefile AS file ON file.id = record.file_id
     WHERE record.job_id = %(job)s AND record.hash = wanted.hash AND record.kind = 'response' AND file.state <> 'lost'
       AND NOT record.is_lost
     ORDER BY record.id DESC LIMIT 1
 ) AS original
"""

# Locks: the archive files, KEY SHARE.
_INSERT: Final[LiteralString] = """
INSERT INTO jobs_archiverecord (file_id, job_id, hash, run_no, "offset", length, kind, status, digest, fetched_at)
SELECT *
  FROM unnest(%(files)s::bigint[], %(jobs)s::bigint[], %(hashes)s::uuid[], %(runs)s::int[], %(offsets)s::bigint[],
              %(lengths)s::bigint[], %(kinds)s::text[], %(statuses)s::int[], %(digests)s::text[],
              %(dates)s::timestamptz[])
"""

_HAS_FILES: Final[LiteralString] = """
SELECT EXISTS (SELECT FROM jobs_archivefile AS file
                WHERE file.host = %(host)s AND file.root = %(root)s AND file.removed_at IS NULL AND file.state <> 'lost'
                  AND (file.state <> 'open' OR EXISTS (SELECT FROM jobs_archiverecord WHERE file_id = file.id)))
"""

_LEFT_OPEN: Final[LiteralString] = """
SELECT file.id, file.path, file.format, file.opened_at,
       (SELECT max(record."offset" + record.length) FROM jobs_archiverecord AS record WHERE record.file_id = file.id) AS confirmed
  FROM jobs_archivefile AS file
 WHERE file.host = %(host)s AND file.root = %(root)s AND file.state = 'open' AND file.node_id <> %(node)s
   AND file.removed_at IS NULL
   AND NOT EXISTS (SELECT FROM nodes_node AS node
                    WHERE node.id = file.node_id AND node.status IN ('starting', 'running', 'draining'))
 ORDER BY file.id
"""


def archive_root() -> Path:
    """Return the directory of this machine's archive files."""
    return Path(current()[ARCHIVE_ROOT] or Path(settings.VAR_DIR) / "archive").absolute()


@dataclass(slots=True)
class _Written:
    """An open file with its row, and the moment of its creation on this process's clock."""

    id: int
    file: OpenFile
    opened_at: float


class JobArchives(ArchiveRecords):
    """The archive files of one worker. Only the database's thread calls it."""

    def __init__(self, me: NodeIdentity) -> None:
        self._me = me
        self._root = archive_root()
        self._open: dict[int, _Written] = {}
        self._serial = 0

    def append(self, connection: psycopg.Connection[Any], results: Sequence[Result], *, now: dt.datetime) -> None:
        """
        Append the exchanges of these results to the files of their jobs, durably, and store their places in the
        outcomes. Results with a place are skipped, so the call may be repeated.

        Raises:
            OutputError: the disk refuses.
        """
        by_job: dict[int, list[Result]] = {}
        for result in results:
            if result.job.archive and result.outcome.exchange is not None and result.outcome.stored is None:
                by_job.setdefault(result.job.id, []).append(result)
        for of_job in by_job.values():
            job = of_job[0].job
            try:
                self._append(connection, job, of_job, now=now)
            except OSError as error:
                why = f"The archive below {self._root} cannot be written: {error.strerror or error}."
                if error.errno in PASSING_ERRORS:
                    raise OutputError(why, disk=_existing(self._root)) from error
                raise OutputError(f"{why} Repair this, then resume the job.") from error

    def write(self, cursor: psycopg.Cursor[Any], *, results: Sequence[Result]) -> None:
        rows = [(result, result.outcome.stored) for result in results]
        places = [(result, stored) for result, stored in rows if stored is not None]
        cursor.execute(
            _INSERT,
            {
                "files": [stored.file_id for _, stored in places],
                "jobs": [result.job.id for result, _ in places],
                "hashes": [result.claimed.document.hash for result, _ in places],
                "runs": [result.job.run_no for result, _ in places],
                "offsets": [stored.offset for _, stored in places],
                "lengths": [stored.length for _, stored in places],
                "kinds": [stored.kind.value for _, stored in places],
                "statuses": [stored.status for _, stored in places],
                "digests": [stored.digest for _, stored in places],
                "dates": [stored.date for _, stored in places],
            },
        )

    @property
    def has_old_files(self) -> bool:
        """True if a file is older than the setting allows. Any thread may call this."""
        most = current()[ARCHIVE_FILE_AGE].total_seconds()
        return any(time.monotonic() - written.opened_at >= most for written in list(self._open.values()))

    def end_old_files(self, connection: psycopg.Connection[Any], *, now: dt.datetime) -> None:
        """End the files that are older than the setting allows."""
        most = current()[ARCHIVE_FILE_AGE].total_seconds()
        for job_id, written in list(self._open.items()):
            if time.monotonic() - written.opened_at >= most:
                self._end(connection, job_id, now=now)

    def end_all_files(self, connection: psycopg.Connection[Any], *, now: dt.datetime) -> None:
        """End all files, because the worker ends."""
        for job_id in list(self._open):
            self._end(connection, job_id, now=now)

    def end_files_of_dead_processes(self, connection: psycopg.Connection[Any], *, now: dt.datetime) -> None:
        """End the files that other processes of this machine left open when they died."""
        with named_rows(connection) as cursor:
            facts = {"host": self._me.host, "root": str(self._root), "node": self._me.id}
            left = cursor.execute(_LEFT_OPEN, facts).fetchall()
        for row in left:
            path = self._root / row.path
            try:
                with locked(path) as is_mine:
                    if is_mine:
                        length = end_torn_file(path, Format(row.format), confirmed=row.confirmed or 0)
                        connection.execute(_END, {"id": row.id, "length": length, "now": now})
                        logger.info("ended the archive file %s of a dead process at %d bytes", path, length)
            except FileNotFoundError:
                if row.confirmed is not None:
                    lose_missing_file(connection, file_id=row.id, root=self._root)
                elif now - row.opened_at > _NEVER_CREATED:
                    connection.execute("DELETE FROM jobs_archivefile WHERE id = %s AND state = 'open'", (row.id,))
            except OSError as error:
                logger.warning("cannot end the archive file %s: %s", path, error)

    def files(self) -> list[Path]:
        """Return the files that are being written."""
        return [written.file.path for written in self._open.values()]

    def _append(
        self, connection: psycopg.Connection[Any], job: JobFacts, results: Sequence[Result], *, now: dt.datetime
    ) -> None:
        originals = _originals(connection, job, results)
        exchanges = [_archived(result, originals, now=now) for result in results]
        written = self._file_of(connection, job, now=now)
        for result, exchange, place in zip(results, exchanges, written.file.append(exchanges), strict=True):
            result.outcome.stored = Stored(
                file_id=written.id,
                offset=place.offset,
                length=place.length,
                kind=exchange.kind,
                status=exchange.status,
                digest=exchange.digest,
                date=exchange.date,
            )
        if written.file.size >= current()[ARCHIVE_FILE_BYTES]:
            self._end(connection, job.id, now=now)

    def _file_of(self, connection: psycopg.Connection[Any], job: JobFacts, *, now: dt.datetime) -> _Written:
        written = self._open.get(job.id)
        if written is not None and written.file.format == job.archive:
            return written
        if written is not None:
            self._end(connection, job.id, now=now)
        self._refuse_unmounted_root(connection)
        self._serial += 1
        stem = f"{job.id}-{now:%Y%m%dT%H%M%SZ}-{self._me.id.hex[:8]}-{self._serial:04}"
        path = Path(f"job-{job.id}") / name_of(Format(job.archive), stem)
        facts = {
            "job": job.id,
            "node": self._me.id,
            "host": self._me.host,
            "root": str(self._root),
            "path": str(path),
            "format": job.archive,
            "now": now,
        }
        # The row is inserted before the file is created, so that no file is without a row.
        row = connection.execute(_OPEN, facts).fetchone()
        assert row is not None
        try:
            file = OpenFile.create(self._root / path, Format(job.archive), software=_SOFTWARE, date=now)
        except OSError:
            connection.execute("DELETE FROM jobs_archivefile WHERE id = %s", (row[0],))
            raise
        fcntl.flock(file.descriptor, fcntl.LOCK_EX)
        self._open[job.id] = _Written(row[0], file, time.monotonic())
        return self._open[job.id]

    def _refuse_unmounted_root(self, connection: psycopg.Connection[Any]) -> None:
        """
        Check that the root has files if rows of the database name files there. If its disk is not mounted, new files on
        another disk would hide the loss of the old files.

        Raises:
            OutputError: the root is empty.
        """
        if is_mounted(self._root):
            return
        row = connection.execute(_HAS_FILES, {"host": self._me.host, "root": str(self._root)}).fetchone()
        if row is not None and row[0]:
            raise OutputError(
                f"The directory of archives {self._root} is missing or empty, and it had files: mount its disk, then resume "
                "the job. If the disk is lost, verify the archive with this machine as the lost one."
            )

    def _end(self, connection: psycopg.Connection[Any], job_id: int, *, now: dt.datetime) -> None:
        """End a file. The call may be repeated after a lost connection: a second end of the row changes nothing."""
        written = self._open[job_id]
        connection.execute(_END, {"id": written.id, "length": written.file.size, "now": now})
        written.file.close()
        del self._open[job_id]


def lose_missing_file(connection: psycopg.Connection[Any], *, file_id: int, root: Path) -> None:
    """
    Mark a file without a copy as lost, and read its documents again. If the root is not mounted, the file does not
    count as lost.
    """
    if not is_mounted(root):
        logger.warning("the directory of archives %s is missing or empty: mount its disk, or verify the archive", root)
        return
    row = connection.execute(
        "SELECT clock_timestamp(), path, stores = '{}' FROM jobs_archivefile WHERE id = %s", (file_id,)
    ).fetchone()
    if row is None:
        return
    now, path, is_nowhere = row
    if not is_nowhere:
        why = f"The file is missing below {root}, and a store has it. Verify the archive with repair."
        connection.execute("UPDATE jobs_archivefile SET problem = %s WHERE id = %s", (why, file_id))
        return
    why = f"The file was missing below {root}, and no store had it."
    archived.lose_file(connection, file_id, why=why, now=now)
    documents = archived.read_without_body(connection, [file_id])
    scheduled = archived.read_again(connection, documents, now=now)
    logger.error("the archive file %s is lost: %d documents are read again", path, len(scheduled))


def _existing(folder: Path) -> Path:
    """Return a folder, or the nearest one above it that exists."""
    return next(above for above in (folder, *folder.parents) if above.exists())


def _originals(
    connection: psycopg.Connection[Any], job: JobFacts, results: Sequence[Result]
) -> dict[str, tuple[str, dt.datetime]]:
    """Return the digest and the time of the last archived body of each document that has one."""
    hashes = [result.claimed.document.hash for result in results]
    with named_rows(connection) as cursor:
        rows = cursor.execute(_ORIGINALS, {"job": job.id, "hashes": hashes})
        return {row.hash.hex: (row.digest, row.fetched_at) for row in rows}


def _archived(result: Result, originals: dict[str, tuple[str, dt.datetime]], *, now: dt.datetime) -> Archived:
    exchange = result.outcome.exchange
    assert exchange is not None
    digest, kind, original = digest_of(exchange.body), RecordKind.RESPONSE, None
    known = originals.get(result.claimed.document.hash)
    if exchange.status == 304:
        kind, digest = RecordKind.NOT_MODIFIED, known[0] if known else ""
    elif known and known[0] == digest and exchange.body and not exchange.truncated:
        kind = RecordKind.SAME_PAYLOAD
    if kind.is_revisit and known:
        original = Original(exchange.url, known[1])
    return Archived(
        url=exchange.url,
        date=_date_of(exchange, now=now),
        kind=kind,
        status=exchange.status,
        request_head=exchange.request_head,
        response_head=exchange.response_head,
        body=exchange.body,
        digest=digest,
        truncated=exchange.truncated,
        original=original,
        address=exchange.address,
        facts=[("hopsFromSeed", str(result.claimed.document.depth)), ("result", result.outcome.code)],
    )


def _date_of(exchange: RawExchange, *, now: dt.datetime) -> dt.datetime:
    """Return the time of a request by the database's clock, in whole seconds."""
    return (now - dt.timedelta(seconds=time.monotonic() - exchange.began)).replace(microsecond=0)
