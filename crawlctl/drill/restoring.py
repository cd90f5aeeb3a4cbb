"""
The drill of a restore: the newest backup is restored into a separate directory, while the crawl continues.

Nothing of the live installation changes, and nothing is written to the store. The restored server has a separate socket.
It runs only until its documents are counted, and is deleted.
"""

import datetime as dt
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import psycopg
from django.conf import settings
from django.db import connection

from crawlctl.backups.errors import BackupError, Unusable
from crawlctl.backups.restorable_moments import Way
from crawlctl.backups.restoring import restore
from crawlctl.backups.verbs import choose, store_of_setting
from crawlctl.drill.models import RESTORE, Drill
from crawlctl.postgres.account import choose_account
from crawlctl.postgres.binaries import Binaries, find_binaries
from crawlctl.postgres.errors import EmbeddedPostgresError
from crawlctl.postgres.home import Home, address_of
from crawlctl.postgres.server import Server
from nodes.database.clock import read_clock
from nodes.settings.node_settings import DATABASE_URL
from nodes.stores.port import Store, StoreError

_COUNT: Final = "SELECT count(*) FROM jobs_queueitem"
_READ_SINCE: Final = "SELECT count(*) FROM jobs_queueitem WHERE fetched_at > %s"


@dataclass
class RestoreReport:
    """
    The result of a drill. Times are in seconds.

    `lost` is the time between the restored moment and the start of the drill. `recovery` ends when the restored server
    takes connections. `read_again` counts documents that were read since the restored moment. `is_sealed` is False if
    nothing proves the origin of a part of the backup (decision 0189). `missing` has sentences on failures.
    """

    backup: str = ""
    reached: str = ""
    lost: float | None = None
    recovery: float | None = None
    documents: int | None = None
    read_again: int | None = None
    is_sealed: bool | None = None
    missing: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.missing

    def as_facts(self) -> dict[str, Any]:
        return asdict(self)


def perform_restore(
    *, until: dt.datetime | None, store: Store | None = None, passphrase: str, write_line: Callable[[str], None]
) -> RestoreReport:
    """
    Restore the newest state, or the state of a moment, in a sandbox. Store and return the report, also after a failure.

    Raises:
        Unusable: there is no store, or the database is on an external server.
        InvalidAddress
    """
    if settings.CRAWLCTL_ENVIRONMENT.get(DATABASE_URL.path):
        raise Unusable(
            "DATABASE_URL names a server of your own, and this drill restores backups of the embedded one only. "
            "docs/deploying.md shows a drill with pgBackRest"
        )
    store = store or store_of_setting()
    report = RestoreReport()
    began = read_clock()
    folder = Path(settings.VAR_DIR).absolute() / "drills" / f"restore-{uuid.uuid4()}"
    folder.mkdir(parents=True, mode=0o700)
    try:
        way = choose(store, until=until)
        report.backup, report.is_sealed = way.backup.name, way.is_sealed
        _restore(
            report, store, way, until=until, folder=folder, passphrase=passphrase, began=began, write_line=write_line
        )
    except (BackupError, StoreError, EmbeddedPostgresError, psycopg.Error, OSError) as error:
        report.missing.append(str(error).strip().splitlines()[0])
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    Drill.objects.create(
        fault=RESTORE,
        whom="database",
        node=report.backup,
        where="sandbox",
        is_good=report.is_good,
        report=report.as_facts(),
    )
    return report


def _restore(
    report: RestoreReport,
    store: Store,
    way: Way,
    *,
    until: dt.datetime | None,
    folder: Path,
    passphrase: str,
    began: dt.datetime,
    write_line: Callable[[str], None],
) -> None:
    binaries = find_binaries()
    begun = time.monotonic()
    restored = restore(
        store, way, directory=folder, binaries=binaries, keep_old=None, passphrase=passphrase,
        announce=write_line, until=until, is_drill=True,
    )  # fmt: skip
    report.documents = _count_documents(folder, binaries=binaries)
    report.recovery = time.monotonic() - begun
    reached = until or restored.reached or way.until
    report.reached = reached.astimezone(dt.UTC).isoformat()
    report.lost = (began - reached).total_seconds()
    with connection.cursor() as cursor:
        cursor.execute(_READ_SINCE, [reached])
        (report.read_again,) = cursor.fetchone()


def _count_documents(folder: Path, *, binaries: Binaries) -> int:
    """Start the restored server as after a restore, and return the number of its documents."""
    home = Home(folder)
    account = choose_account(home=home, binaries=binaries, announce=lambda _line: None)
    server = Server(home=home, binaries=binaries, account=account)
    server.take_over_cluster()
    home.log.touch(mode=0o600)
    sockets = home.claim_socket_directory(owner=account.uid)
    try:
        account.take_over(sockets)
        with home.log.open("ab") as log:
            postmaster = server.start(socket_directory=sockets, log=log)
        try:
            with psycopg.connect(address_of(sockets), autocommit=True) as opened:
                row = opened.execute(_COUNT).fetchone()
        finally:
            postmaster.stop()
    finally:
        home.remove_socket_directory(sockets)
    assert row is not None
    return int(row[0])
