"""The check of a stored backup: everything that a restore needs, without a server."""

from pathlib import Path

from crawlctl.backups import catalogue, packing
from crawlctl.backups.catalogue import Backup
from crawlctl.backups.sealing import unseal
from crawlctl.backups.workspace import workspace
from crawlctl.postgres.binaries import Binaries
from nodes.stores.port import Store


def check(store: Store, backup: Backup, *, binaries: Binaries, work: Path, passphrase: str) -> None:
    """
    Read all files of the backup, unpack the copy of the database, and verify it. `work` has room for all of it.

    With a passphrase, also open the secret key.

    Raises:
        Damaged: a restore of the backup would fail.
        Unusable: the passphrase is another one.
    """
    with workspace(work) as folder:
        packed, copy, sealed = folder / "data.tar.zst", folder / "data", folder / "sealed"
        if backup.sealed is not None:
            catalogue.fetch(store, backup.sealed, sealed)
            if passphrase:
                unseal(sealed.read_bytes(), passphrase=passphrase, backup=backup.name)
        catalogue.fetch(store, backup.data, packed)
        packing.unpack(packed, copy)
        packing.verify(copy, binaries=binaries)
