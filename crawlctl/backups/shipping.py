"""
The continuous copy of a server's write-ahead log into a store.

`pg_receivewal` writes the log to a folder through a replication slot. So the server keeps the part of the log that was
not received yet, up to `max_slot_wal_keep_size`. Each closed segment is stored in order, and then deleted. At the end
of each interval, a commit marks the time, and the segment is closed early. So a restore reaches that time.

The state is a file, which pages and metrics of this machine read.
"""

import contextlib
import datetime as dt
import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from crawlctl.backups import wal
from crawlctl.backups.errors import BackupError
from crawlctl.backups.sealing import Sealer
from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.locks import FileLock
from jobs.queries.backups import LogState
from nodes.stores.port import Store, StoreError

logger = logging.getLogger(__name__)

SLOT: Final = "crawlctl_backup"
_STEP: Final = 0.5
# Longest time in which the last segment is stored at the end (seconds).
_LAST_WITHIN: Final = 4.0
_CONNECT_WITHIN: Final = 5

_SLOT: Final = """
SELECT wal_status, restart_lsn FROM pg_replication_slots WHERE slot_name = %(slot)s
"""
_SYSTEM: Final = """
SELECT (SELECT system_identifier::text FROM pg_control_system()),
       (SELECT setting::int FROM pg_settings WHERE name = 'wal_segment_size')
"""
# The commit of this statement is later than its time, so a recovery to this time has a place to stop.
_MARK: Final = "SELECT clock_timestamp(), pg_current_xact_id()"
_SWITCH: Final = "SELECT pg_walfile_name(pg_switch_wal())"


@dataclass
class Shipper:
    """
    The copy of one server's log. `every` is the longest time until a change is stored.

    If more than `most_waiting` closed segments wait for the store, the receiver stops, and the server keeps the log. At
    `few_waiting` segments it continues.
    """

    dsn: str
    folder: Path
    state_file: Path
    store: Store
    passphrase: str
    every: dt.timedelta
    binaries: Binaries
    most_waiting: int = 64
    few_waiting: int = 8
    _state: LogState = field(init=False)
    _sealer: Sealer | None = field(init=False)
    _connection: psycopg.Connection[Any] | None = None
    _receiver: subprocess.Popen[bytes] | None = None
    _system: str = ""
    _segment_bytes: int = wal.SEGMENT_BYTES
    _marks: dict[str, dt.datetime] = field(default_factory=dict)
    _marked_at: float = float("-inf")
    _stored_histories: set[str] = field(default_factory=set)

    def run(self, stopping: threading.Event) -> None:
        """Copy until the event is set. Then close the last segment, and store it if the store is fast enough."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = FileLock(self.folder / "lock")
        try:
            # The shipper of a killed guardian may still hold the lock: it stores the last segment, and ends.
            while not lock.take_exclusively():
                if stopping.wait(_STEP):
                    return
            self._run(stopping)
        finally:
            lock.close()

    def _run(self, stopping: threading.Event) -> None:
        self._state = LogState.read(self.state_file) or LogState()
        self._state.store = self.store.address
        self._sealer = Sealer(self.passphrase) if self.passphrase else None
        while not stopping.wait(_STEP):
            self._step()
        self._marked_at = float("-inf")
        deadline = time.monotonic() + _LAST_WITHIN
        marked = False
        while time.monotonic() < deadline and not (marked and not self._marks and not self._state.problem):
            self._step()
            marked = True
            time.sleep(0.05)
        with contextlib.suppress(BackupError):
            self._stop_receiver()
        self._disconnect()

    def _step(self) -> None:
        problem = ""
        for part in (self._receive, self._store_closed):
            try:
                part()
            except (StoreError, BackupError, psycopg.Error, OSError) as error:
                problem = problem or str(error).strip().split("\n")[0]
                if isinstance(error, psycopg.Error):
                    self._disconnect()
        if problem != self._state.problem:
            if problem:
                logger.error("the write-ahead log is not stored: %s", problem)
            self._state.problem = problem
            self._write_state()

    def _disconnect(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(psycopg.Error):
                self._connection.close()
        self._connection = None

    def _receive(self) -> None:
        """Keep the receiver running. After each interval, mark the time in the log."""
        if self._connection is None or self._connection.closed:
            self._connection = psycopg.connect(
                self.dsn, autocommit=True, connect_timeout=_CONNECT_WITHIN, application_name="crawlctl backup"
            )
            row = self._connection.execute(_SYSTEM).fetchone()
            assert row is not None
            self._system, self._segment_bytes = row
        waiting = len(self._closed())
        runs = self._receiver is not None and self._receiver.poll() is None
        if runs and waiting >= self.most_waiting:
            self._stop_receiver()
        elif not runs and waiting <= self.few_waiting:
            self._start_receiver(self._connection)
        if runs and time.monotonic() - self._marked_at >= self.every.total_seconds():
            self._mark(self._connection)

    def _mark(self, connection: psycopg.Connection[Any]) -> None:
        marked = connection.execute(_MARK).fetchone()
        closed = connection.execute(_SWITCH).fetchone()
        assert marked is not None
        assert closed is not None
        self._marks[closed[0]] = marked[0]
        self._marked_at = time.monotonic()

    def _start_receiver(self, connection: psycopg.Connection[Any]) -> None:
        self._stop_receiver()
        if not self._has_place(connection):
            return
        facts = {name: str(value) for name, value in conninfo_to_dict(self.dsn).items()}
        # An argument is visible to all users of the machine.
        password = facts.pop("password", "")
        environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
        if password:
            environment["PGPASSWORD"] = password
        command = [
            # The receiver ends with this process, so that the next one may use the slot.
            "setpriv", "--pdeathsig", "TERM",
            str(self.binaries.path_of("pg_receivewal")), "-d", make_conninfo(**facts), "-D", str(self.folder), "--slot", SLOT,
            "--synchronous", "--no-loop", "--no-password",
        ]  # fmt: skip
        with (self.folder / "receiver.log").open("wb") as log:
            self._receiver = subprocess.Popen(
                command, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def _has_place(self, connection: psycopg.Connection[Any]) -> bool:
        """
        Make sure that the replication slot exists. Return False, without a slot, while earlier closed segments wait for
        the store.

        If the slot is missing, the server has deleted parts of the log, or was restored. So the receiver must not
        continue at its last file.
        """
        found = connection.execute(_SLOT, {"slot": SLOT}).fetchone()
        if found is not None and found[0] != "lost":
            return True
        if self._closed():
            return False
        for partial in self.folder.glob("*.partial"):
            partial.unlink()
        if found is not None:
            connection.execute("SELECT pg_drop_replication_slot(%s)", [SLOT])
        connection.execute("SELECT pg_create_physical_replication_slot(%s, true)", [SLOT])
        made = connection.execute(_SLOT, {"slot": SLOT}).fetchone()
        assert made is not None
        if self._state.segment and self._state.system == self._system:
            last = wal.number_of(self._state.segment, segment_bytes=self._segment_bytes)
            if wal.position(made[1]) // self._segment_bytes > last + 1:
                self._state.gap_at = dt.datetime.now(dt.UTC).isoformat()
                self._write_state()
                logger.error("the write-ahead log has a gap after %s. Make a new backup", self._state.segment)
        return True

    def _stop_receiver(self) -> None:
        if self._receiver is None:
            return
        if self._receiver.poll() is None:
            self._receiver.send_signal(signal.SIGINT)
            try:
                self._receiver.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._receiver.kill()
        code, self._receiver = self._receiver.wait(), None
        lines = (self.folder / "receiver.log").read_text(errors="replace").strip().splitlines()
        if code != 0 and lines:
            raise BackupError(lines[-1].removeprefix("pg_receivewal: error: "))

    def _closed(self) -> list[Path]:
        return sorted(path for path in self.folder.iterdir() if wal.SEGMENT_NAME.fullmatch(path.name))

    def _store_closed(self) -> None:
        if not self._system:
            return
        for path in self.folder.glob("*.history"):
            if path.name not in self._stored_histories:
                wal.store_history(self.store, self._system, path)
                self._stored_histories.add(path.name)
        for path in self._closed():
            reached = self._marks.get(path.name)
            wal.store_segment(self.store, self._system, path, reached=reached, sealer=self._sealer)
            path.unlink()
            self._state.system, self._state.segment = self._system, path.name
            if reached is not None:
                self._state.reached = reached.isoformat()
            for name in [name for name in self._marks if name[8:] <= path.name[8:]]:
                del self._marks[name]
            self._write_state()

    def _write_state(self) -> None:
        unfinished = self.state_file.with_suffix(".unfinished")
        unfinished.write_text(json.dumps(asdict(self._state)) + "\n")
        unfinished.replace(self.state_file)


def run_until(is_over: Callable[[], object], shipper: Shipper) -> None:
    """Copy in a thread until `is_over` returns."""
    stopping = threading.Event()
    thread = threading.Thread(target=shipper.run, args=(stopping,), name="backup of the log", daemon=True)
    thread.start()
    try:
        is_over()
    finally:
        stopping.set()
        thread.join()
