"""
The restore of a backup into the data directory of the embedded server.

All steps happen in a new directory next to the data directory: download, check, recovery to the end of the backup, a
new incarnation. The last step renames the new directory. So an interrupted restore leaves no database, and its
repetition begins from the start.
"""

import contextlib
import datetime as dt
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg

from crawlctl.backups import catalogue, lineage, packing, wal
from crawlctl.backups.descriptions import Backup
from crawlctl.backups.errors import BackupError, Unusable
from crawlctl.backups.restorable_moments import Way
from crawlctl.backups.sealing import Sealer, Secrets, unseal
from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import Binaries
from crawlctl.postgres.home import Home, address_of
from crawlctl.postgres.locks import FileLock
from crawlctl.postgres.server import Server
from nodes.stores.port import Store, StoreRefused

Announce = Callable[[str], None]

# Longest recovery (seconds): the server replays the write-ahead log since the backup.
_RECOVERY_WITHIN: Final = 3600.0
_UNFINISHED: Final = "restore.unfinished"


@dataclass(frozen=True)
class Restored:
    incarnation: str
    # The time of the last change in the restored database, if it is known.
    reached: dt.datetime | None
    # None: the backup has no secret key, or there was no passphrase.
    secrets: Secrets | None


def restore(
    store: Store,
    way: Way,
    *,
    directory: Path,
    binaries: Binaries,
    keep_old: Path | None,
    passphrase: str,
    announce: Announce,
    until: dt.datetime | None = None,
    is_drill: bool = False,
) -> Restored:
    """
    Restore a backup into this directory of an embedded server, and return the incarnation of the new database.

    The restore reaches the moment `until`, or the end of the way. `keep_old` is the new place of the present data
    directory. Without `keep_old`, no data directory may exist. A drill writes nothing to the store.

    Raises:
        Unusable: the server is in use, data exist already, or this program cannot run or open the backup. Nothing was
            changed.
        Damaged: the backup is not complete. Nothing was changed.
        BackupError: the server did not start. Nothing was changed.
        EmbeddedPostgresError, StoreError
    """
    backup = way.backup
    home = Home(directory.absolute())
    home.directory.mkdir(parents=True, exist_ok=True)
    with _exclusively(home):
        _check_place(home, keep_old=keep_old)
        if backup.server_version.split(".")[0] != str(binaries.major):
            raise Unusable(
                f"the backup {backup.name} is of PostgreSQL {backup.server_version}, and this installation runs {binaries.major}. "
                "Install the version of crawlctl that made the backup"
            )
        if backup.has_sealed_data and not passphrase:
            # Refuse the restore here, before the download, which may take long.
            raise Unusable(
                f"the backup {backup.name} is sealed. Give the passphrase of its time in CRAWLCTL_BACKUP_PASSPHRASE"
            )
        beside = Home(home.directory / _UNFINISHED)
        shutil.rmtree(beside.directory, ignore_errors=True)
        beside.directory.mkdir(mode=0o700)
        try:
            secrets = _unsealed(store, backup, folder=beside.directory, passphrase=passphrase)
            announce(f"Reading the backup {backup.name}: {backup.data.size / 1e6:,.1f} MB")
            packed = beside.directory / "data.tar.zst"
            catalogue.fetch(store, backup.data, packed)
            packing.unpack(
                packed, beside.data, is_sealed=backup.has_sealed_data, passphrase=passphrase, name=backup.name
            )
            packed.unlink()
            announce(f"Verifying the copy: {backup.bytes / 1e6:,.1f} MB")
            packing.verify(beside.data, binaries=binaries)
            if way.segments:
                announce(f"Reading the write-ahead log: at most {len(way.segments)} segments")
            recovery = _Recovery(store, way, until, Sealer(passphrase), is_drill)
            incarnation, reached = recovery.run(beside, binaries=binaries, announce=announce)
            if keep_old is not None and home.data.exists():
                home.data.rename(keep_old)
            beside.data.rename(home.data)
            _make_durable(home.directory)
        finally:
            shutil.rmtree(beside.directory, ignore_errors=True)
    return Restored(incarnation=incarnation, reached=reached, secrets=secrets)


@contextlib.contextmanager
def _exclusively(home: Home) -> Iterator[None]:
    """Hold the server's locks, so that no process uses, starts or stops it."""
    users, guardian = FileLock(home.users_lock), FileLock(home.guardian_lock)
    try:
        if not users.take_exclusively() or not guardian.take_exclusively():
            raise Unusable(
                f"processes use the database in {home.directory}. Stop them (`crawlctl run`, `serve` and others), "
                "then restore again"
            )
        yield
    finally:
        guardian.close()
        users.close()


def _check_place(home: Home, *, keep_old: Path | None) -> None:
    if not home.data.exists():
        return
    if keep_old is None:
        raise Unusable(
            f"{home.data} has a database already. Add --keep-old DIRECTORY to move it there before the restored one takes its place"
        )
    if keep_old.exists():
        raise Unusable(f"{keep_old} exists already. Name a new directory in --keep-old")
    if not keep_old.parent.is_dir() or keep_old.parent.stat().st_dev != home.directory.stat().st_dev:
        raise Unusable(f"{keep_old} must be on the same disk as {home.directory}, in a directory that exists")


def _unsealed(store: Store, backup: Backup, *, folder: Path, passphrase: str) -> Secrets | None:
    if backup.sealed is None or not passphrase:
        return None
    path = folder / "sealed"
    catalogue.fetch(store, backup.sealed, path)
    return unseal(path.read_bytes(), passphrase=passphrase, backup=backup.name)


@dataclass(frozen=True)
class _Recovery:
    """One run of the server, until it has reached the target and opened a new timeline."""

    store: Store
    way: Way
    until: dt.datetime | None
    sealer: Sealer
    is_drill: bool

    def run(self, beside: Home, *, binaries: Binaries, announce: Announce) -> tuple[str, dt.datetime | None]:
        """Return the incarnation of the recovered database, and the time of its last change."""
        store, way = self.store, self.way
        timeline = (
            lineage.next_timeline(store, way)
            if self.is_drill
            else lineage.reserve_timeline(store, way, now=dt.datetime.now(dt.UTC))
        )
        options = lineage.prepare_recovery(
            beside.data, store=store, way=way, until=self.until, timeline=timeline, sealer=self.sealer
        )
        announce("Recovering the database")
        account = choose_account(home=beside, binaries=binaries, announce=announce)
        server = Server(home=beside, binaries=binaries, account=account)
        # Not earlier: the account must also own the files that `prepare_recovery` added to the copy.
        account.take_over(beside.data)
        beside.log.touch(mode=0o600)
        sockets = beside.claim_socket_directory(owner=account.uid)
        try:
            account.take_over(sockets)
            with beside.log.open("ab") as log:
                postmaster = server.start(socket_directory=sockets, within=_RECOVERY_WITHIN, further=options, log=log)
            try:
                incarnation, reached = _facts(address_of(sockets))
            finally:
                postmaster.stop()
        finally:
            beside.remove_socket_directory(sockets)
        self._check(beside, incarnation=incarnation, timeline=timeline)
        lineage.finish_recovery(beside.data)
        return incarnation, reached

    def _check(self, beside: Home, *, incarnation: str, timeline: int) -> None:
        """Check that the database has the expected timeline, and store the history of this timeline."""
        if incarnation.split("/")[1:2] != [f"{timeline:08X}"]:
            raise BackupError(
                f"the restored database has the incarnation {incarnation}, and the timeline {timeline:08X} was expected. "
                "Nothing was changed"
            )
        history = beside.data / "pg_wal" / f"{timeline:08X}.history"
        if self.until is None and self.way.segments:
            last = self.way.segments[-1]
            if lineage.end_of(history.read_bytes()) < last.number * self.way.backup.segment_bytes:
                raise BackupError(
                    f"the recovery ended before the segment {last.name} of the write-ahead log. Nothing was changed"
                )
        if not self.is_drill:
            # Stored before any node may write, because the next restore must know this timeline.
            with contextlib.suppress(StoreRefused):
                wal.store_history(self.store, self.way.backup.system, history)


def _facts(dsn: str) -> tuple[str, dt.datetime | None]:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute("SELECT nodes_incarnation(), pg_last_xact_replay_timestamp()").fetchone()
    assert row is not None
    return str(row[0]), row[1]


def _make_durable(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
