"""The backup of this installation, with its secret key and settings: for the command and for background tasks."""

import contextlib
import datetime as dt
import os
from collections.abc import Callable

from django.conf import settings
from django.utils.dateparse import parse_datetime

from crawlctl import __version__
from crawlctl.backups import catalogue, restorable_moments, wal
from crawlctl.backups.descriptions import Backup
from crawlctl.backups.errors import Damaged, Unusable
from crawlctl.backups.last_backup import note_backup
from crawlctl.backups.places import open_place, work_folder
from crawlctl.backups.restorable_moments import Way
from crawlctl.backups.sealing import Secrets
from crawlctl.backups.taking import take
from crawlctl.postgres.binaries import find_binaries
from jobs.settings.backups import BACKUP_PASSPHRASE, BACKUP_STORE
from nodes.database.address import database_dsn
from nodes.stores.port import Store

Announce = Callable[[str], None]


def given_passphrase() -> str:
    """Return the passphrase of the environment; '' if there is none."""
    return str(settings.CRAWLCTL_ENVIRONMENT.get(BACKUP_PASSPHRASE.path) or "")


def parse_moment(text: str) -> dt.datetime:
    """
    Return a moment that an operator wrote.

    Raises:
        Unusable: the text is not a time with a time zone.
    """
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Unusable(f"--to {text} is not a time with a time zone, such as 2030-01-31T12:00+00:00")
    return found


def store_of_setting() -> Store:
    """
    Return the store of CRAWLCTL_BACKUP_STORE.

    Raises:
        Unusable: the setting is empty.
        InvalidAddress
    """
    if not settings.CRAWLCTL_BACKUP_STORE:
        raise Unusable(
            f"no place of backups is set. Set {BACKUP_STORE.environment} to a directory or s3://bucket/prefix"
        )
    return open_place(settings.CRAWLCTL_BACKUP_STORE, creates=True)


def make_backup(store: Store, *, passphrase: str, announce: Announce) -> Backup:
    """
    Store a verified backup of the database, and note its time.

    Raises:
        Unusable, BackupError, StoreError
    """
    variables = {setting.environment for setting in settings.CRAWLCTL_SETTINGS.settings}
    environment = {
        name: os.environ[name] for name in variables - {BACKUP_PASSPHRASE.environment} if os.environ.get(name)
    }
    backup = take(
        store, dsn=database_dsn(), binaries=find_binaries(), work=work_folder(), version=__version__,
        secrets=Secrets(secret_key=settings.SECRET_KEY, environment=environment), passphrase=passphrase,
        announce=announce,
    )  # fmt: skip
    note_backup()
    return backup


def find_new_backup(store: Store, *, system: str, since: dt.datetime) -> Backup | None:
    """Return the newest complete backup of a server that began after a moment; None if there is none."""
    for name in reversed(catalogue.names(store)):
        if name < catalogue.name_at(since):
            return None
        with contextlib.suppress(Damaged):
            backup = catalogue.read(store, name)
            if backup.system == system and not catalogue.why_incomplete(store, backup):
                return backup
    return None


def prune(store: Store, *, keep: int, announce: Announce) -> None:
    """
    Delete all backups but the newest complete ones, and the log that no kept backup needs.

    Raises:
        Unusable: no backup would be left.
        StoreError
    """
    if keep < 1:
        raise Unusable(f"--keep {keep} would delete every backup. Keep at least 1")
    for name in catalogue.prune(store, keep=keep, now=dt.datetime.now(dt.UTC)):
        announce(f"Deleted {name}.")
    if deleted := wal.prune(store, catalogue.readable(store)):
        announce(f"Deleted segments of the write-ahead log: {deleted}.")


def ways(store: Store) -> list[Way]:
    """Return the ways (`restorable_moments.Way`) of all readable backups, oldest first."""
    return [way for backup, log in _with_logs(store) for way in restorable_moments.ways_of(backup, log)]


def choose(store: Store, *, until: dt.datetime | None = None, name: str | None = None) -> Way:
    """
    Return the way from the backup of that name, or from the best one, to a moment or to the end of the log.

    Raises: Unusable: there is no such backup, or no backup reaches that moment.
        Damaged: the description of the backup is damaged.
    """
    if name is not None:
        backup = catalogue.read(store, name)
        backups = [(backup, wal.read_log(store, backup.system, segment_bytes=backup.segment_bytes))]
    else:
        backups = _with_logs(store)
    return restorable_moments.choose(backups, until=until, place=store.address)


def _with_logs(store: Store) -> list[tuple[Backup, wal.Log]]:
    logs: dict[str, wal.Log] = {}
    found = []
    for backup in catalogue.readable(store):
        if backup.system not in logs:
            logs[backup.system] = wal.read_log(store, backup.system, segment_bytes=backup.segment_bytes)
        found.append((backup, logs[backup.system]))
    return found
