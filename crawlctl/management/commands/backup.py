"""`manage.py backup`: backups of the database, their checks, and their restore."""

import argparse
import datetime as dt
import getpass
import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from crawlctl.backups import catalogue
from crawlctl.backups.checking import check
from crawlctl.backups.errors import BackupError, Damaged, Unusable
from crawlctl.backups.keys import restore_key_files
from crawlctl.backups.places import log_folder, open_place, work_folder
from crawlctl.backups.restorable_moments import Way, spoken
from crawlctl.backups.restoring import restore
from crawlctl.backups.shipping import Shipper, run_until
from crawlctl.backups.verbs import choose, given_passphrase, make_backup, parse_moment, prune, store_of_setting, ways
from crawlctl.postgres.binaries import find_binaries
from jobs.queries.backups import file_of_log_state
from jobs.settings.backups import BACKUP_PASSPHRASE, BACKUP_STORE
from nodes.database.address import database_dsn
from nodes.management.database import check_database
from nodes.settings.node_settings import DATABASE_URL
from nodes.stores.port import InvalidAddress, Store, StoreError, StoreRefused

_USAGE: Final = 2
_FAILED: Final = 1
_PLACE: Final = "a directory, dir:/path or s3://bucket/prefix"


class Command(BaseCommand):
    help = (
        "Back up the database, and with a passphrase also the secret key; list, check and delete backups; restore one. "
        "Without an action: make a backup."
    )
    # A restore needs no database, and the checks would start one.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--to",
            metavar="PLACE",
            dest="place",
            help=f"place of the new backup: {_PLACE} (default: {BACKUP_STORE.environment})",
        )
        actions = parser.add_subparsers(dest="action", metavar="ACTION")
        for name, text in (
            ("list", "print the backups, oldest first"),
            ("check", "read backups, unpack and verify them"),
            ("prune", "delete all but the newest complete backups"),
            ("restore", "restore a backup as the embedded database"),
            ("ship", "store the write-ahead log of the server of DATABASE_URL continuously, until Ctrl-C"),
        ):
            action = actions.add_parser(name, help=text, description=text[:1].upper() + text[1:] + ".")
            word = "--to" if name == "ship" else "--from"
            action.add_argument(
                word, metavar="PLACE", dest="place_of_action",
                help=f"place of the backups: {_PLACE} (default: {BACKUP_STORE.environment})",
            )  # fmt: skip
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
                    help="moment to restore, such as 2030-01-31T12:00+00:00 (default: the end of the write-ahead log)",
                )
                action.add_argument(
                    "--keep-old", type=Path, metavar="DIRECTORY", help="new place of the present data directory"
                )
                action.add_argument(
                    "--unsealed",
                    action="store_true",
                    help=f"restore a backup that is not sealed although {BACKUP_PASSPHRASE.environment} is set",
                )

    def handle(self, *_args: Any, action: str | None, place: str | None, **given: Any) -> None:
        place = given.get("place_of_action") or place
        with _errors_as_exit_codes():
            store = open_place(place, creates=action in {None, "ship"}) if place else store_of_setting()
            match action:
                case None:
                    self._take(store)
                case "list":
                    self._list(store, as_json=given["json"])
                case "check":
                    self._check(store, name=given["backup"], all_of_them=given["all"])
                case "prune":
                    prune(store, keep=given["keep"], announce=self.stdout.write)
                    self.stdout.write(f"Backups in {store.address}: {len(catalogue.names(store))}.")
                case "ship":
                    self._ship(store)
                case _:
                    self._restore(store, given)

    def _take(self, store: Store) -> None:
        check_database()
        passphrase = _passphrase(
            "Passphrase to seal the backup (empty: not sealed, without the secret key): ", twice=True
        )
        backup = make_backup(store, passphrase=passphrase, announce=self._announce)
        self.stdout.write(f"Backup {backup.name} is in {store.address}.")
        if backup.sealed is None:
            self.stdout.write(
                f"It is not sealed, and the secret key is not in it. Set {BACKUP_PASSPHRASE.environment} to change both, "
                "or keep the key yourself."
            )

    def _list(self, store: Store, *, as_json: bool) -> None:
        all_ways = ways(store)
        for name in catalogue.names(store):
            try:
                backup = catalogue.read(store, name)
            except Damaged as damaged:
                self.stdout.write(f"{name}  damaged: {damaged}")
                continue
            problem = catalogue.why_incomplete(store, backup)
            of_backup = [way for way in all_ways if way.backup.name == name]
            if as_json:
                facts = [
                    {"timeline": way.timeline, "until": way.until.isoformat(), "gap": way.gap} for way in of_backup
                ]
                found = {**asdict(backup), "is_sealed": backup.has_sealed_data, "problem": problem, "ways": facts}
                self.stdout.write(json.dumps(found))
                continue
            key = ("sealed, " if backup.has_sealed_data else "not sealed: origin not proven, ") + (
                "with the secret key" if backup.sealed else "without the secret key"
            )
            self.stdout.write(
                f"{name}  {backup.ended_at:%Y-%m-%d %H:%M:%S} UTC  {backup.data.size / 1e6:>9,.1f} MB  crawlctl {backup.version}  "
                f"PostgreSQL {backup.server_version}  {key}" + (f"  damaged: {problem}" if problem else "")
            )
            for way in of_backup:
                on = f" on timeline {way.timeline}" if len(of_backup) > 1 else ""
                self.stdout.write(f"  restores{on}: {spoken(way)}")
                if backup.has_sealed_data and not way.is_sealed:
                    self.stdout.write("  not sealed: a part of the write-ahead log, whose origin is not proven")
                if way.gap:
                    self.stdout.write(f"  gap: {way.gap}")

    def _check(self, store: Store, *, name: str | None, all_of_them: bool) -> None:
        wanted = catalogue.names(store) if all_of_them else [name or catalogue.newest(store).name]
        if not wanted:
            raise Unusable(f"{store.address} has no backup")
        damaged, all_ways = 0, ways(store)
        has_sealed = any(way.backup.has_sealed_data for way in all_ways if way.backup.name in wanted)
        passphrase = _passphrase("Passphrase of the backup (empty: compare its SHA-256 only): ", asks=has_sealed)
        for each in wanted:
            try:
                of_backup = [way for way in all_ways if way.backup.name == each] or [choose(store, name=each)]
                is_opened = check(store, of_backup, binaries=find_binaries(), work=work_folder(), passphrase=passphrase)
            except Damaged as error:
                damaged += 1
                self.stdout.write(f"{each}: damaged. {_sentence(error)}")
            else:
                self.stdout.write(f"{each}: complete and unchanged.")
                if not all(way.is_sealed for way in of_backup):
                    self.stdout.write(
                        "  It is not sealed as a whole, so nothing proves its origin: its SHA-256 is in the same store."
                    )
                if not is_opened:
                    self.stdout.write(
                        f"  Sealed parts were not opened. Set {BACKUP_PASSPHRASE.environment} to check them, too."
                    )
        if damaged:
            raise CommandError(
                f"Damaged backups: {damaged} of {len(wanted)}. Make a new backup, and check the disk of {store.address}.",
                returncode=_FAILED,
            )

    def _ship(self, store: Store) -> None:
        if not settings.CRAWLCTL_ENVIRONMENT.get(DATABASE_URL.path):
            raise Unusable(
                f"the embedded server stores its log by itself. Set {BACKUP_STORE.environment} for `crawlctl run`"
            )
        check_database()
        shipper = Shipper(
            dsn=database_dsn(), folder=log_folder(), state_file=file_of_log_state(), store=store,
            passphrase=given_passphrase(), every=settings.CRAWLCTL_BACKUP_SHIP_EVERY, binaries=find_binaries(),
        )  # fmt: skip
        stop = threading.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, lambda *_: stop.set())
        self.stdout.write(f"Storing the write-ahead log in {store.address}.")
        run_until(stop.wait, shipper)

    def _restore(self, store: Store, given: dict[str, Any]) -> None:
        if settings.CRAWLCTL_ENVIRONMENT.get(DATABASE_URL.path):
            raise Unusable(
                "DATABASE_URL names a server of your own, and this command restores the embedded one only. "
                "docs/deploying.md shows restores of other servers"
            )
        until = parse_moment(given["until"]) if given["until"] else None
        way = choose(store, until=until, name=given["backup"])
        _warn_of_origin(way, allows_unsealed=given["unsealed"], write=self.stdout.write)
        needs_key = way.backup.sealed is not None or any(segment.is_sealed for segment in way.segments)
        restored = restore(
            store, way, until=until, directory=settings.VAR_DIR / "postgres", binaries=find_binaries(),
            keep_old=given["keep_old"].absolute() if given["keep_old"] else None,
            passphrase=_passphrase("Passphrase of the backup: ") if needs_key else "", announce=self._announce,
        )  # fmt: skip
        reached = until or way.until
        last = f" The last change in it is of {restored.reached:%Y-%m-%d %H:%M:%S} UTC." if restored.reached else ""
        self.stdout.write(
            f"Restored the database as it was at {reached.astimezone(dt.UTC):%Y-%m-%d %H:%M:%S} UTC.{last} Later changes are not in it."
        )
        if way.gap:
            self.stdout.write(f"The write-ahead log has a gap: {way.gap}. It was restored up to the gap.")
        restore_key_files(restored.secrets, write_line=self.stdout.write)
        self.stdout.write("Start crawlctl again: runs continue from that moment.")

    def _announce(self, line: str) -> None:
        self.stderr.write(line)


def _warn_of_origin(way: Way, *, allows_unsealed: bool, write: Callable[[str], object]) -> None:
    if way.is_sealed:
        return
    problem = f"the backup {way.backup.name} is not sealed as a whole, so nothing proves its origin"
    if given_passphrase() and not allows_unsealed:
        # Otherwise an unsealed backup in the store would take the place of a sealed one.
        raise Unusable(
            f"{problem}, and {BACKUP_PASSPHRASE.environment} is set. Choose a sealed backup (`backup list`), or add --unsealed"
        )
    write(_sentence(Unusable(problem)))


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


def _passphrase(prompt: str, *, asks: bool = True, twice: bool = False) -> str:
    """Return the passphrase of the environment, or of the person at the terminal; '' if there is none."""
    given = given_passphrase()
    if given or not asks or not sys.stdin.isatty():
        return given
    typed = getpass.getpass(prompt)
    if twice and typed and getpass.getpass("Again: ") != typed:
        raise Unusable("the passphrases differ. Nothing was done")
    return typed
