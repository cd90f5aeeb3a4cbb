"""`manage.py backup`: backups of the database, their checks, and their restore."""

import argparse
import datetime as dt
import getpass
import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.utils.dateparse import parse_datetime

from crawlctl import __version__
from crawlctl.backups import catalogue
from crawlctl.backups.checking import check
from crawlctl.backups.errors import BackupError, Damaged, Unusable
from crawlctl.backups.last import note_backup
from crawlctl.backups.restoring import restore
from crawlctl.backups.sealing import Secrets
from crawlctl.backups.taking import take
from crawlctl.postgres.binaries import find_binaries
from jobs.settings.table import BACKUP_PASSPHRASE, SECRET_KEY
from nodes.database.address import database_dsn
from nodes.management.database import check_database
from nodes.settings.of_nodes import DATABASE_URL
from nodes.stores.opening import open_store
from nodes.stores.port import InvalidAddress, Store, StoreError, StoreRefused

_USAGE: Final = 2
_FAILED: Final = 1
_PLACE: Final = "a directory, dir:/path or s3://bucket/prefix"


class Command(BaseCommand):
    help = (
        "Back up the database with the secret key; list, check and delete backups; restore one. "
        "Without an action: make a backup."
    )
    # A restore needs no database, and the checks would start one.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--to", metavar="PLACE", dest="place", help=f"place of the new backup: {_PLACE}")
        actions = parser.add_subparsers(dest="action", metavar="ACTION")
        for name, text in (
            ("list", "print the backups, oldest first"),
            ("check", "read backups, unpack and verify them"),
            ("prune", "delete all but the newest complete backups"),
            ("restore", "restore a backup as the embedded database"),
        ):
            action = actions.add_parser(name, help=text, description=text.capitalize() + ".")
            action.add_argument(
                "--from", metavar="PLACE", dest="place", required=True, help=f"place of the backups: {_PLACE}"
            )
            if name == "list":
                action.add_argument("--json", action="store_true", help="print one line of JSON for each backup")
            if name in {"check", "restore"}:
                action.add_argument("--backup", metavar="NAME", help="name of the backup (default: the newest)")
            if name == "check":
                action.add_argument("--all", action="store_true", help="check all backups")
            if name == "prune":
                action.add_argument("--keep", type=int, required=True, metavar="N", help="number of backups to keep")
            if name == "restore":
                action.add_argument(
                    "--to",
                    metavar="TIME",
                    dest="until",
                    help="restore the newest backup that ended before this time, such as 2030-01-31T12:00+00:00",
                )
                action.add_argument(
                    "--keep-old", type=Path, metavar="DIRECTORY", help="new place of the present data directory"
                )

    def handle(self, *_args: Any, action: str | None, place: str | None, **given: Any) -> None:
        if place is None:
            raise CommandError(f"Name the place of the backup: --to {_PLACE}.", returncode=_USAGE)
        with _errors_as_exit_codes():
            store = open_store(_address(place, creates=action is None))
            match action:
                case None:
                    self._take(store)
                case "list":
                    self._list(store, as_json=given["json"])
                case "check":
                    self._check(store, name=given["backup"], all_of_them=given["all"])
                case "prune":
                    self._prune(store, keep=given["keep"])
                case _:
                    self._restore(store, given)

    def _take(self, store: Store) -> None:
        check_database()
        passphrase = _passphrase(twice=True)
        variables = {setting.environment for setting in settings.CRAWLCTL_SETTINGS.settings}
        environment = {
            name: os.environ[name] for name in variables - {BACKUP_PASSPHRASE.environment} if os.environ.get(name)
        }
        backup = take(
            store, dsn=database_dsn(), binaries=find_binaries(), work=_work(), version=__version__,
            secrets=Secrets(secret_key=settings.SECRET_KEY, environment=environment), passphrase=passphrase,
            announce=self._announce,
        )  # fmt: skip
        note_backup()
        self.stdout.write(f"Backup {backup.name} is in {store.address}.")
        if backup.sealed is None:
            self.stdout.write(
                f"The secret key is not in it. Set {BACKUP_PASSPHRASE.environment} to add it, or keep the key yourself."
            )

    def _list(self, store: Store, *, as_json: bool) -> None:
        for name in catalogue.names(store):
            try:
                backup = catalogue.read(store, name)
            except Damaged as damaged:
                self.stdout.write(f"{name}  damaged: {damaged}")
                continue
            if as_json:
                self.stdout.write(json.dumps({**asdict(backup), "problem": catalogue.why_incomplete(store, backup)}))
                continue
            problem = catalogue.why_incomplete(store, backup)
            key = "with the secret key" if backup.sealed else "without the secret key"
            self.stdout.write(
                f"{name}  {backup.ended_at:%Y-%m-%d %H:%M:%S} UTC  {backup.data.size / 1e6:>9,.1f} MB  crawlctl {backup.version}  "
                f"PostgreSQL {backup.server_version}  {key}" + (f"  damaged: {problem}" if problem else "")
            )

    def _check(self, store: Store, *, name: str | None, all_of_them: bool) -> None:
        passphrase = _passphrase(asks=False)
        wanted = catalogue.names(store) if all_of_them else [name or catalogue.choose(store).name]
        if not wanted:
            raise Unusable(f"{store.address} has no backup")
        damaged = 0
        for each in wanted:
            try:
                check(store, catalogue.read(store, each), binaries=find_binaries(), work=_work(), passphrase=passphrase)
            except Damaged as error:
                damaged += 1
                self.stdout.write(f"{each}: damaged. {_sentence(error)}")
            else:
                self.stdout.write(f"{each}: complete and unchanged.")
        if damaged:
            raise CommandError(
                f"Damaged backups: {damaged} of {len(wanted)}. Make a new backup, and check the disk of {store.address}.",
                returncode=_FAILED,
            )

    def _prune(self, store: Store, *, keep: int) -> None:
        if keep < 1:
            raise Unusable(f"--keep {keep} would delete every backup. Keep at least 1")
        for name in catalogue.prune(store, keep=keep, now=dt.datetime.now(dt.UTC)):
            self.stdout.write(f"Deleted {name}.")
        self.stdout.write(f"Backups in {store.address}: {len(catalogue.names(store))}.")

    def _restore(self, store: Store, given: dict[str, Any]) -> None:
        if settings.CRAWLCTL_ENVIRONMENT.get(DATABASE_URL.path):
            raise Unusable(
                "DATABASE_URL names a server of your own, and this command restores the embedded one only. "
                "docs/deploying.md shows restores of other servers"
            )
        until = _moment(given["until"]) if given["until"] else None
        if until and given["backup"]:
            raise Unusable("--backup and --to exclude each other. Give one of them")
        backup = catalogue.read(store, given["backup"]) if given["backup"] else catalogue.choose(store, until=until)
        restored = restore(
            store, backup, directory=settings.VAR_DIR / "postgres", binaries=find_binaries(),
            keep_old=given["keep_old"].absolute() if given["keep_old"] else None,
            passphrase=_passphrase() if backup.sealed else "", announce=self._announce,
        )  # fmt: skip
        self.stdout.write(
            f"Restored the database as it was at {backup.ended_at:%Y-%m-%d %H:%M:%S} UTC. Later changes are not in it."
        )
        self._put_key_back(restored.secrets)
        self.stdout.write("Start crawlctl again: runs continue from that moment.")

    def _put_key_back(self, secrets: Secrets | None) -> None:
        if secrets is None:
            self.stdout.write(
                "The secret key was not restored. Put the old one into var/secret-key or CRAWLCTL_SECRET_KEY; "
                "without it, passwords of connections must be entered again."
            )
            return
        path: Path = settings.VAR_DIR / "secret-key"
        if settings.CRAWLCTL_ENVIRONMENT.get(SECRET_KEY.path):
            is_same = secrets.secret_key == settings.SECRET_KEY
            self.stdout.write(
                "CRAWLCTL_SECRET_KEY is the key of the backup."
                if is_same
                else "CRAWLCTL_SECRET_KEY is another key than that of the backup. Unset it: the key of the backup is in var/secret-key."
            )
        if not path.exists() or path.read_text() != secrets.secret_key:
            if path.exists():
                path.replace(path.with_name("secret-key.before-restore"))
            path.touch(mode=0o600)
            path.write_text(secrets.secret_key)
        self.stdout.write("The secret key is restored.")
        missing = sorted(name for name in secrets.environment if not os.environ.get(name))
        if missing:
            # The values may be secrets, so they are in a file that only its owner can read.
            kept = settings.VAR_DIR / "settings-of-the-backup.env"
            kept.touch(mode=0o600)
            kept.write_text("".join(f"{name}={secrets.environment[name]}\n" for name in sorted(secrets.environment)))
            self.stdout.write(
                f"Settings of the backup that are not set now: {', '.join(missing)}. Their values are in {kept}."
            )

    def _announce(self, line: str) -> None:
        self.stderr.write(line)


@contextmanager
def _errors_as_exit_codes() -> Iterator[None]:
    try:
        yield
    except (Unusable, InvalidAddress, StoreRefused) as error:
        raise CommandError(_sentence(error), returncode=_USAGE) from error
    except (BackupError, StoreError) as error:
        raise CommandError(_sentence(error), returncode=_FAILED) from error
    except OSError as error:
        raise CommandError(f"{error.filename}: {error.strerror}.", returncode=_FAILED) from error


def _sentence(error: Exception) -> str:
    text = str(error)
    return (
        f"{text[:1].upper()}{text[1:]}{'' if text.endswith('.') else '.'}"
        if not text.startswith(("dir:", "s3:"))
        else f"{text}."
    )


def _address(place: str, *, creates: bool) -> str:
    """Return the address of a store for a place, which may also be the path of a directory."""
    if ":" in place.split("/", 1)[0]:
        return place
    path = Path(place).absolute()
    if creates and path.parent.is_dir():
        path.mkdir(mode=0o700, exist_ok=True)
    return f"dir:{path}"


def _work() -> Path:
    path: Path = settings.VAR_DIR / "backups"
    return path


def _passphrase(*, asks: bool = True, twice: bool = False) -> str:
    """Return the passphrase of the environment, or of the person at the terminal; '' if there is none."""
    given = str(settings.CRAWLCTL_ENVIRONMENT.get(BACKUP_PASSPHRASE.path) or "")
    if given or not asks or not sys.stdin.isatty():
        return given
    said = getpass.getpass("Passphrase of the secret key (empty: without the key): ")
    if twice and said and getpass.getpass("Again: ") != said:
        raise Unusable("the passphrases differ. Nothing was done")
    return said


def _moment(text: str) -> dt.datetime:
    try:
        found = parse_datetime(text)
    except ValueError:
        found = None
    if found is None or found.tzinfo is None:
        raise Unusable(f"--to {text} is not a time with a time zone, such as 2030-01-31T12:00+00:00")
    return found
