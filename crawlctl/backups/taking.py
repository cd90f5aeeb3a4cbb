"""Makes a backup: copies, verifies, packs, stores and publishes it."""

import datetime as dt
import json
import os
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psycopg
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import class_row

from crawlctl.backups import catalogue, packing
from crawlctl.backups.descriptions import Backup
from crawlctl.backups.errors import BackupError, Unusable
from crawlctl.backups.sealing import Secrets, seal
from crawlctl.backups.workspace import workspace
from crawlctl.postgres.binaries import Binaries
from nodes.stores.port import Store

Announce = Callable[[str], None]

_LEAD: Final = "docs/deploying.md shows backups of other servers"
_FACTS: Final = """
SELECT clock_timestamp() AS now, split_part(current_setting('server_version'), ' ', 1) AS version, nodes_incarnation() AS incarnation,
       current_setting('server_version_num')::int / 10000 AS major,
       (SELECT setting::int FROM pg_settings WHERE name = 'wal_segment_size') AS segment_bytes,
       (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user) AS may_replicate
"""


@dataclass(frozen=True)
class _Facts:
    now: dt.datetime
    version: str
    incarnation: str
    major: int
    segment_bytes: int
    may_replicate: bool


def take(
    store: Store,
    *,
    dsn: str,
    binaries: Binaries,
    work: Path,
    version: str,
    secrets: Secrets,
    passphrase: str,
    announce: Announce,
) -> Backup:
    """
    Store a backup of the server at `dsn` and return its description. `work` has room for two copies of the database.

    With a passphrase the copy and the secrets are sealed. Without one, the secrets are not in the backup.

    Raises:
        Unusable: the account or the version of the server does not allow it.
        BackupError: the copy failed. Nothing that counts as a backup was stored.
        StoreError
    """
    # Check the store before the long work, so that an unusable store fails early.
    catalogue.names(store)
    begun = _ask(dsn, binaries=binaries)
    name = catalogue.new_name(begun.now)
    with workspace(work) as folder:
        copy, packed = folder / "data", folder / "data.tar.zst"
        announce(f"Copying the database server (PostgreSQL {begun.version})")
        _copy(dsn, copy, binaries=binaries)
        size = packing.size_of(copy)
        announce(f"Verifying the copy: {size / 1e6:,.1f} MB")
        packing.verify(copy, binaries=binaries)
        announce("Packing and sealing the copy" if passphrase else "Packing the copy")
        packing.pack(copy, packed, passphrase=passphrase, name=name)
        announce(f"Storing {packed.stat().st_size / 1e6:,.1f} MB in {store.address}")
        data = catalogue.store_data(store, name, packed, is_sealed=bool(passphrase))
        sealed = None
        if passphrase:
            sealed = catalogue.store_sealed(store, name, seal(secrets, passphrase=passphrase, backup=name))
        ranges = json.loads((copy / "backup_manifest").read_text(encoding="utf-8"))["WAL-Ranges"]
    ended = _ask(dsn, binaries=binaries)
    if ended.incarnation != begun.incarnation:
        raise BackupError("the database was replaced during the backup. Make the backup again")
    cluster = begun.incarnation.split("/")[0]
    backup = Backup(
        name=name, version=version, server_version=begun.version, system=cluster,
        timeline=ranges[-1]["Timeline"], incarnation=begun.incarnation,
        started=begun.now.astimezone(dt.UTC).isoformat(), ended=ended.now.astimezone(dt.UTC).isoformat(),
        bytes=size, data=data, sealed=sealed, start_lsn=ranges[-1]["Start-LSN"], end_lsn=ranges[-1]["End-LSN"],
        segment_bytes=begun.segment_bytes,
    )  # fmt: skip
    catalogue.publish(store, backup)
    return backup


def _ask(dsn: str, *, binaries: Binaries) -> _Facts:
    try:
        with psycopg.connect(dsn, autocommit=True, row_factory=class_row(_Facts)) as connection:
            facts = connection.execute(_FACTS).fetchone()
    except psycopg.OperationalError as error:
        raise BackupError(f"the database cannot be reached: {str(error).strip()}. Nothing was stored") from None
    assert facts is not None
    if not facts.may_replicate:
        raise Unusable(
            f"the account of DATABASE_URL may not copy its server. Give it the right by ALTER ROLE … REPLICATION; {_LEAD}"
        )
    if facts.major > binaries.major:
        raise Unusable(
            f"the server is PostgreSQL {facts.major}, and the installed pg_basebackup copies servers up to {binaries.major}; {_LEAD}"
        )
    return facts


def _copy(dsn: str, target: Path, *, binaries: Binaries) -> None:
    facts = {name: str(value) for name, value in conninfo_to_dict(dsn).items()}
    # An argument is visible to all users of the machine.
    password = facts.pop("password", "")
    command = [
        str(binaries.path_of("pg_basebackup")), "-d", make_conninfo(**facts), "-D", str(target), "--format=plain",
        "--checkpoint=fast", "--wal-method=stream", "--manifest-checksums=SHA256", "--no-password", "--label=crawlctl",
    ]  # fmt: skip
    environment = {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"}
    if password:
        environment["PGPASSWORD"] = password
    result = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        errors = " ".join(line.removeprefix("pg_basebackup: ") for line in result.stderr.strip().splitlines())
        raise BackupError(
            f"the server was not copied, and nothing was stored. Errors of pg_basebackup: {errors}. {_LEAD}"
        )
