"""
Complete archive files are copied to their stores. Their local copies are removed when the setting for local copies
allows it.

A file is on the machine of its worker, so a worker of that machine stores it, in a separate thread. Any worker of the
machine may do it, also for files of workers that ended: the lock of the file excludes a second worker.

A store that does not answer is tried again after a pause. Meanwhile the machine keeps the files, up to a limit of their
bytes. Above this limit, jobs with an archive wait (`jobs/duties/archives.py`).
"""

import asyncio
import datetime as dt
import logging
import threading
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from psycopg.types.json import Jsonb

from jobs.archive.storing import Attempt, store_file
from jobs.loops.worker.archives import archive_root, lose_missing_file
from jobs.loops.worker.state import WorkerState
from jobs.queue.sql.rows import named_rows
from jobs.settings.archives import ARCHIVE_KEEP_LOCAL, ARCHIVE_MOST_LOCAL, ARCHIVE_STORES
from nodes.settings.running import current
from nodes.stores.opening import open_store
from nodes.stores.port import Store, StoreError

logger = logging.getLogger(__name__)

_T = TypeVar("_T")

# Seconds between two checks for files to store, while files wait.
_POLL: Final = 2.0
# Seconds between two checks for local copies to remove, while no file waits.
_REMOVAL_POLL: Final = 60.0
# Largest number of files of one check.
_AT_ONCE: Final = 20
# Pause of a store that failed, and of a file that cannot be stored (seconds).
_FIRST_PAUSE: Final = 2.0
_LONGEST_PAUSE: Final = 60.0
# Least number of stores that must have confirmed a file before its local copy may be removed.
_LEAST_STORES: Final = 2

_WAITING: Final[LiteralString] = """
SELECT file.id, file.path, file.length, file.sha256, file.stores
  FROM jobs_archivefile AS file
 WHERE file.host = %(host)s AND file.root = %(root)s AND file.state = 'complete' AND file.removed_at IS NULL
   AND (file.sha256 = '' OR NOT file.stores ?& %(stores)s::text[]) AND file.id <> ALL(%(paused)s::bigint[])
 ORDER BY file.id LIMIT %(most)s
"""
# The time of each store's confirmation. The file is stored once each of `wanted` has confirmed it.
_CONFIRM: Final[LiteralString] = """
UPDATE jobs_archivefile
   SET sha256 = %(sha256)s, problem = %(problem)s, stores = stores || %(confirmed)s,
       state = CASE WHEN cardinality(%(wanted)s::text[]) > 0 AND (stores || %(confirmed)s) ?& %(wanted)s::text[]
                    THEN 'stored' ELSE state END
 WHERE id = %(id)s AND state = 'complete'
RETURNING state
"""
_UNCONFIRMED: Final[LiteralString] = """
SELECT coalesce(sum(length), 0)::bigint FROM jobs_archivefile
 WHERE host = %(host)s AND root = %(root)s AND state = 'complete' AND removed_at IS NULL
"""
_FAILS: Final[LiteralString] = """
INSERT INTO jobs_failingstore (host, store, failing_since, tried_at, problem)
VALUES (%(host)s, %(store)s, %(now)s, %(now)s, %(problem)s)
ON CONFLICT (store, host) DO UPDATE SET tried_at = excluded.tried_at, problem = excluded.problem
"""
_WORKS: Final[LiteralString] = "DELETE FROM jobs_failingstore WHERE host = %(host)s AND store = ANY(%(stores)s)"
_NOT_USED: Final[LiteralString] = "DELETE FROM jobs_failingstore WHERE host = %(host)s AND store <> ALL(%(stores)s)"
# Files that all of these stores have. They were incomplete until other stores were taken out of the setting.
_LACK_NONE: Final[LiteralString] = """
UPDATE jobs_archivefile SET state = 'stored'
 WHERE host = %(host)s AND root = %(root)s AND state = 'complete' AND sha256 <> ''
   AND cardinality(%(stores)s::text[]) > 0 AND stores ?& %(stores)s::text[]
"""
_REMOVABLE: Final[LiteralString] = """
SELECT file.id, file.path FROM jobs_archivefile AS file
 WHERE file.host = %(host)s AND file.root = %(root)s AND file.state = 'stored' AND file.removed_at IS NULL
   AND (SELECT count(*) FROM jsonb_object_keys(file.stores)) >= %(least)s
   AND file.id <> ALL(%(paused)s::bigint[])
   AND (SELECT max(confirmed.at::timestamptz) FROM jsonb_each_text(file.stores) AS confirmed(store, at)) <= %(before)s
 ORDER BY file.id LIMIT %(most)s
"""
_REMOVED: Final[LiteralString] = "UPDATE jobs_archivefile SET removed_at = %(now)s WHERE id = %(id)s"


@dataclass(frozen=True, slots=True)
class _File:
    id: int
    path: str
    length: int
    sha256: str
    stores: Mapping[str, str]


@dataclass(slots=True)
class _Pause:
    """The pause of a store that failed, which doubles with each failure."""

    until: float
    seconds: float


class Storing:
    """
    The part of a worker that stores its machine's archive files.

    `hold` is the reason why jobs with an archive must wait, such as too few confirmed files; "" if they need not wait.
    """

    def __init__(self, state: WorkerState) -> None:
        self._state = state
        self._loop = asyncio.get_running_loop()
        self._root = archive_root()
        self._wanted = current()[ARCHIVE_STORES]
        self._opened: dict[str, Store] = {}
        self._pauses: dict[str, _Pause] = {}
        self._paused_files: dict[int, float] = {}
        self._one_at_a_time = asyncio.Lock()
        self.hold = ""

    async def run(self) -> None:
        """Store files, and remove local copies, until it is cancelled."""
        await self._state.database.run(self._apply_setting)
        removed_at = float("-inf")
        while True:
            is_due = self._loop.time() - removed_at >= _REMOVAL_POLL
            # While jobs are held, check without a signal, too: another worker may have stored the last file.
            if self._state.may_find_files.is_set() or self.hold:
                self._state.may_find_files.clear()
                while await self.store_some():
                    is_due = True
            if is_due:
                removed_at = self._loop.time()
                await self._remove_local_copies()
            await asyncio.sleep(_POLL)

    async def store_remaining(self, deadline: float) -> None:
        """Store all files: no other worker does that after a one-shot crawl. A store that fails is not tried again."""
        while self._wanted and self._loop.time() < deadline and await self.store_some():
            pass

    async def store_some(self) -> bool:
        """Store some files. Return True if there may be more that can be stored now."""
        async with self._one_at_a_time:
            stores = await self._usable()
            files = await self._state.database.run(partial(self._read_waiting, stores=list(stores)))
            has_progress = False
            for file in files:
                has_progress |= await self._store(file, stores)
            await self._state.database.run(self._measure)
            return has_progress

    async def _usable(self) -> dict[str, Store]:
        """Return the stores that are not paused, by their addresses."""
        now = self._loop.time()
        usable = [one for one in self._wanted if one not in self._pauses or self._pauses[one].until <= now]
        for address in usable:
            if address not in self._opened:
                try:
                    self._opened[address] = await _in_thread(partial(open_store, address))
                except StoreError as error:
                    await self._note_stores(Attempt(failures={address: error}))
        return {address: self._opened[address] for address in usable if address in self._opened}

    async def _store(self, file: _File, stores: dict[str, Store]) -> bool:
        """
        Store one file, and record the result. Return True if a store confirmed the file, or if the checksum of the file
        was stored now.
        """
        lacking = {address: store for address, store in stores.items() if address not in file.stores}
        work = partial(
            store_file,
            self._root / file.path,
            key=file.path,
            length=file.length,
            sha256=file.sha256,
            stores=lacking,
        )
        try:
            attempt = await _in_thread(work)
        except FileNotFoundError:
            await self._state.database.run(partial(lose_missing_file, file_id=file.id, root=self._root))
            self._pause_file(file.id)
            return False
        except OSError as error:
            attempt = Attempt(sha256=file.sha256, problem=f"The file cannot be read: {error.strerror or error}.")
        if attempt.is_taken:
            self._pause_file(file.id, seconds=_FIRST_PAUSE)
            return False
        if attempt.problem:
            self._pause_file(file.id)
        for address in attempt.failures:
            stores.pop(address, None)
        await self._state.database.run(partial(self._record, file=file, attempt=attempt))
        await self._note_stores(attempt)
        return bool(attempt.confirmed) or attempt.sha256 != file.sha256

    async def _note_stores(self, attempt: Attempt) -> None:
        """Pause the stores that failed, and end the pauses of the stores that confirmed the file. Log both."""
        for address, error in attempt.failures.items():
            known = self._pauses.get(address)
            seconds = min(_LONGEST_PAUSE, known.seconds * 2) if known else _FIRST_PAUSE
            self._pauses[address] = _Pause(self._loop.time() + seconds, seconds)
            logger.warning("cannot store an archive file, next attempt in %.0f s: %s", seconds, error)
        for address in attempt.confirmed:
            if self._pauses.pop(address, None) is not None:
                logger.info("the store %s takes archive files again", address)
        await self._state.database.run(partial(self._record_stores, attempt=attempt))

    def _pause_file(self, file_id: int, *, seconds: float = _LONGEST_PAUSE) -> None:
        self._paused_files[file_id] = self._loop.time() + seconds

    # --- In the database's thread ----------------------------------------------------------------

    @property
    def _here(self) -> dict[str, Any]:
        return {"host": self._state.identity.host, "root": str(self._root)}

    def _apply_setting(self, connection: psycopg.Connection[Any]) -> None:
        """Forget stores that are no longer used."""
        facts = {**self._here, "stores": list(self._wanted)}
        connection.execute(_NOT_USED, facts)
        connection.execute(_LACK_NONE, facts)

    def _read_waiting(self, connection: psycopg.Connection[Any], *, stores: list[str]) -> list[_File]:
        facts = {**self._here, "stores": stores, "paused": list(self._paused()), "most": _AT_ONCE}
        with named_rows(connection) as cursor:
            rows = cursor.execute(_WAITING, facts)
            return [_File(row.id, row.path, row.length, row.sha256, row.stores) for row in rows]

    def _paused(self) -> Collection[int]:
        """Return the files that must not be tried again yet."""
        now = self._loop.time()
        self._paused_files = {file: until for file, until in self._paused_files.items() if until > now}
        return self._paused_files

    def _record(self, connection: psycopg.Connection[Any], *, file: _File, attempt: Attempt) -> None:
        now = self._state.clock.now(connection)
        problem = attempt.problem or " ".join(f"{error}." for error in attempt.failures.values())
        confirmed = Jsonb({address: now.isoformat() for address in attempt.confirmed})
        facts = {"id": file.id, "sha256": attempt.sha256, "problem": problem, "confirmed": confirmed}
        row = connection.execute(_CONFIRM, {**facts, "wanted": list(self._wanted)}).fetchone()
        if row is not None and row[0] == "stored":
            logger.info("the archive file %s is stored", file.path)

    def _record_stores(self, connection: psycopg.Connection[Any], *, attempt: Attempt) -> None:
        now = self._state.clock.now(connection)
        for address, error in attempt.failures.items():
            connection.execute(_FAILS, {**self._here, "store": address, "now": now, "problem": str(error)})
        if attempt.confirmed:
            connection.execute(_WORKS, {**self._here, "stores": attempt.confirmed})

    def _measure(self, connection: psycopg.Connection[Any]) -> None:
        """Check whether the machine holds more unconfirmed bytes than it may."""
        if not self._wanted:
            self.hold = ""
            return
        row = connection.execute(_UNCONFIRMED, self._here).fetchone()
        held, most = (row[0] if row else 0), current()[ARCHIVE_MOST_LOCAL]
        if held <= most:
            self.hold = ""
            return
        failing = sorted(self._pauses)
        why = f"{' and '.join(failing)} failed" if failing else "the stores are slow"
        self.hold = (
            f"{self._state.identity.host} holds {held // 2**20:,} MiB that are not stored yet, "
            f"the limit (CRAWLCTL_ARCHIVE_MOST_LOCAL) is {most // 2**20:,} MiB, and {why}."
        )

    # --- Local copies ----------------------------------------------------------------------------

    async def _remove_local_copies(self) -> None:
        """Remove the local copies that are older than the setting allows, and that the stores have confirmed."""
        days = current()[ARCHIVE_KEEP_LOCAL]
        if not days:
            return
        removable = await self._state.database.run(partial(self._read_removable, days=int(days)))
        for file_id, path in removable:
            # The file goes first: a crash in between is repaired by the next pass.
            try:
                await _in_thread(partial((self._root / path).unlink, missing_ok=True))
            except OSError as error:
                # If the disk refuses, the worker does not end. It tries to remove the copy again later.
                logger.warning("cannot remove the local copy %s: %s", path, error.strerror or error)
                self._pause_file(file_id)
                continue
            await self._state.database.run(partial(self._note_removed, file_id=file_id))

    def _read_removable(self, connection: psycopg.Connection[Any], *, days: int) -> list[tuple[int, str]]:
        before = self._state.clock.now(connection) - dt.timedelta(days=days)
        facts = {
            **self._here,
            "before": before,
            "least": _LEAST_STORES,
            "most": _AT_ONCE,
            "paused": list(self._paused()),
        }
        return connection.execute(_REMOVABLE, facts).fetchall()

    def _note_removed(self, connection: psycopg.Connection[Any], *, file_id: int) -> None:
        connection.execute(_REMOVED, {"id": file_id, "now": self._state.clock.now(connection)})


async def _in_thread(work: Callable[[], _T]) -> _T:
    """Run slow work in a thread that the end of the process does not wait for."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[_T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except Exception as error:  # noqa: BLE001 (it is raised where the work is awaited)
            report: Callable[[], None] = partial(_end, done, error=error)
        else:
            report = partial(_end, done, result=result)
        # The loop may have ended meanwhile.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(report)

    threading.Thread(target=run, name="archive", daemon=True).start()
    return await done


def _end(done: "asyncio.Future[_T]", *, result: Any = None, error: Exception | None = None) -> None:  # noqa: ANN401 (a result)
    if done.done():
        return
    if error is None:
        done.set_result(result)
    else:
        done.set_exception(error)
