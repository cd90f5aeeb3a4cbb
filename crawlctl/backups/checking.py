"""The check of a stored backup and of the log after it: everything that a restore needs, without a server."""

from pathlib import Path

from crawlctl.backups import catalogue, packing, wal
from crawlctl.backups.errors import Damaged
from crawlctl.backups.restorable_moments import Way
from crawlctl.backups.sealing import Sealer, unseal
from crawlctl.backups.workspace import workspace
from crawlctl.postgres.binaries import Binaries
from nodes.stores.port import Store


def check(store: Store, ways: list[Way], *, binaries: Binaries, work: Path, passphrase: str) -> bool:
    """
    Read all files of a backup, unpack the copy of the database, and verify it. Read the write-ahead log of each way
    (`restorable_moments.Way`) that begins at the backup.

    `work` has room for the backup. Return False if sealed parts were not opened, because there is no passphrase. The
    copy is compared with its SHA-256 in any case.

    Raises:
        Damaged: a restore of the backup would fail.
        Unusable: the passphrase is wrong.
    """
    backup = ways[0].backup
    with workspace(work) as folder:
        packed, copy, sealed = folder / "data.tar.zst", folder / "data", folder / "sealed"
        if backup.sealed is not None:
            catalogue.fetch(store, backup.sealed, sealed)
            if passphrase:
                unseal(sealed.read_bytes(), passphrase=passphrase, backup=backup.name)
        catalogue.fetch(store, backup.data, packed)
        if passphrase or not backup.has_sealed_data:
            packing.unpack(packed, copy, is_sealed=backup.has_sealed_data, passphrase=passphrase, name=backup.name)
            packing.verify(copy, binaries=binaries)
        sealer = Sealer(passphrase)
        for segment in {segment.key: segment for way in ways for segment in way.segments}.values():
            if passphrase or not segment.is_sealed:
                path = folder / segment.name
                wal.fetch_segment(store, segment, path, sealer=sealer, segment_bytes=backup.segment_bytes)
                path.unlink()
    if gaps := [way.gap for way in ways if way.gap]:
        raise Damaged(f"the write-ahead log after the backup has a gap: {gaps[-1]}. Make a new backup")
    has_sealed = backup.sealed is not None or any(segment.is_sealed for way in ways for segment in way.segments)
    return bool(passphrase) or not has_sealed
