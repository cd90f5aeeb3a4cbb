"""A copy of a database server in one compressed file, which may be sealed, and PostgreSQL's check of the copy."""

import os
import subprocess
import tarfile
from pathlib import Path

from backports import zstd

from crawlctl.backups.errors import Damaged
from crawlctl.backups.sealed_files import open_sealed, open_to_seal
from crawlctl.postgres.binaries import Binaries


def pack(directory: Path, path: Path, *, passphrase: str, name: str) -> None:
    """Write the content of the directory to a compressed file. With a passphrase, seal it under that name."""
    with (
        open_to_seal(path, passphrase=passphrase, name=name) if passphrase else path.open("xb") as file,
        zstd.open(file, "wb") as compressed,
        tarfile.open(fileobj=compressed, mode="w|") as archive,
    ):
        for entry in sorted(directory.iterdir()):
            archive.add(entry, arcname=entry.name)


def unpack(path: Path, directory: Path, *, is_sealed: bool, passphrase: str, name: str) -> None:
    """
    Write the content of a compressed file to the new directory.

    Raises:
        Damaged: the file is not a compressed copy, or it was changed.
        Unusable: the content is sealed, and the passphrase is missing or wrong.
    """
    directory.mkdir(mode=0o700, parents=True)
    try:
        with (
            open_sealed(path, passphrase=passphrase, name=name) if is_sealed else path.open("rb") as file,
            zstd.open(file, "rb") as compressed,
            tarfile.open(fileobj=compressed, mode="r|") as archive,
        ):
            archive.extractall(directory, filter="data")
    except (zstd.ZstdError, tarfile.TarError, EOFError) as error:
        raise Damaged(f"the copy of the database cannot be unpacked: {error}") from None


def verify(directory: Path, *, binaries: Binaries) -> None:
    """
    Compare each file with the manifest of the copy, and check that its write-ahead log is readable.

    Raises:
        Damaged: the files differ from the manifest. The message ends with the message of pg_verifybackup.
    """
    result = subprocess.run(
        [str(binaries.path_of("pg_verifybackup")), "--exit-on-error", str(directory)],
        env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if result.returncode != 0:
        raise Damaged(f"the copy of the database is damaged. Errors of pg_verifybackup: {result.stderr.strip()}")


def size_of(directory: Path) -> int:
    """Return the total size of the files (bytes)."""
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
