"""The backups in a store: their names, their descriptions, and which of them may be deleted."""

import contextlib
import datetime as dt
import hashlib
import json
import re
import secrets
import tempfile
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Final

from crawlctl.backups.descriptions import FOLDER, LARGEST_DESCRIPTION, SEALED_DATA, Backup, File, described
from crawlctl.backups.errors import Damaged, Unusable
from nodes.stores.port import KeyMissing, Store, digest_of

# The description is written last and deleted first: a backup without it does not count.
_DESCRIPTION: Final = "backup.json"
_DATA: Final = "data.tar.zst"
_SEALED: Final = "secrets.sealed"
_NAME: Final = re.compile(r"\d{8}T\d{6}Z-[0-9a-f]{6}")
_FORMAT: Final = 1
# Age after which a backup without description counts as interrupted.
_INTERRUPTED_AFTER: Final = dt.timedelta(days=2)


def new_name(started: dt.datetime) -> str:
    """
    Return the name of a backup that starts now. Names sort by time, also names of backups in the same second.

    The name ends with the microsecond (hex) and a random digit. The digit distinguishes backups of two servers that
    share a store.
    """
    return f"{name_at(started)}-{started.microsecond:05x}{secrets.token_hex(1)[0]}"


def name_at(moment: dt.datetime) -> str:
    """Return the beginning of the names of backups that start at a moment."""
    return f"{moment.astimezone(dt.UTC):%Y%m%dT%H%M%SZ}"


def store_data(store: Store, name: str, path: Path, *, is_sealed: bool) -> File:
    return _stored(store, f"{FOLDER}/{name}/{SEALED_DATA if is_sealed else _DATA}", path)


def store_sealed(store: Store, name: str, content: bytes) -> File:
    return stored_content(store, f"{FOLDER}/{name}/{_SEALED}", content)


def publish(store: Store, backup: Backup) -> None:
    """Store the description. From now on the backup counts."""
    content = json.dumps({"format": _FORMAT, **asdict(backup)}, indent=2).encode() + b"\n"
    stored_content(store, f"{FOLDER}/{backup.name}/{_DESCRIPTION}", content)


def stored_content(store: Store, key: str, content: bytes) -> File:
    with tempfile.TemporaryDirectory(prefix="crawlctl-") as folder:
        path = Path(folder) / "content"
        path.write_bytes(content)
        return _stored(store, key, path)


def _stored(store: Store, key: str, path: Path) -> File:
    file = File(key=key, size=path.stat().st_size, sha256=digest_of(path))
    store.put(key, path, sha256=file.sha256, only_if_absent=True)
    found = store.head(key)
    if found is None or (found.size, found.sha256) != (file.size, file.sha256):
        raise Damaged(
            f"{store.address} does not return {key} as it was stored. Check the store, and make the backup again"
        )
    return file


def names(store: Store) -> list[str]:
    """Return the names of all backups that have a description, oldest first. Without it, a backup is incomplete."""
    return sorted(
        name
        for listed in store.list(f"{FOLDER}/")
        if listed.key.endswith(f"/{_DESCRIPTION}") and _NAME.fullmatch(name := listed.key.split("/")[1])
    )


def read(store: Store, name: str) -> Backup:
    """
    Return the description of a backup.

    Raises:
        Unusable: there is no backup with that name.
        Damaged: the description cannot be read, or a newer version wrote it.
    """
    if not _NAME.fullmatch(name):
        raise Unusable(f"{name!r} is not the name of a backup. `crawlctl backup list` prints the names")
    try:
        content = b"".join(store.get(f"{FOLDER}/{name}/{_DESCRIPTION}", length=LARGEST_DESCRIPTION + 1))
    except KeyMissing:
        raise Unusable(f"{store.address} has no backup {name}. `crawlctl backup list` prints the names") from None
    if len(content) > LARGEST_DESCRIPTION:
        raise Damaged(f"the description of the backup {name} in {store.address} is damaged: it is too large")
    try:
        description = json.loads(content)
        if description["format"] != _FORMAT:
            raise Damaged(
                f"the description of the backup {name} has format {description['format']!r}, and this version reads {_FORMAT}. "
                "Use the version of crawlctl that made the backup"
            )
        return described(description, name=name)
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Damaged(f"the description of the backup {name} in {store.address} is damaged") from None


def newest(store: Store) -> Backup:
    """
    Return the newest backup.

    Raises:
        Unusable: there is no backup.
    """
    found = names(store)
    if not found:
        raise Unusable(f"{store.address} has no backup. `crawlctl backup --to {store.address}` makes one")
    return read(store, found[-1])


def readable(store: Store) -> list[Backup]:
    """Return all backups whose description can be read, oldest first."""
    found = []
    for name in names(store):
        with contextlib.suppress(Damaged):
            found.append(read(store, name))
    return found


def why_incomplete(store: Store, backup: Backup) -> str:
    """Return the reason why the backup is not complete in the store, by names and sizes only; '' if it is."""
    sizes = {listed.key: listed.size for listed in store.list(f"{FOLDER}/{backup.name}/")}
    for file in (backup.data, backup.sealed):
        if file is not None and sizes.get(file.key) != file.size:
            return f"{file.key} is missing" if file.key not in sizes else f"{file.key} has another size"
    return ""


def fetch(store: Store, file: File, path: Path) -> None:
    """
    Write a file of a backup to the path.

    Raises:
        Damaged: the content of the file has changed or is missing.
    """
    digest = hashlib.sha256()
    try:
        with path.open("xb") as writable:
            for chunk in store.get(file.key):
                digest.update(chunk)
                writable.write(chunk)
    except KeyMissing:
        raise Damaged(f"{file.key} is missing in {store.address}") from None
    if digest.hexdigest() != file.sha256:
        raise Damaged(
            f"{file.key} in {store.address} was changed: its SHA-256 is {digest.hexdigest()}, not {file.sha256}"
        )


def prune(store: Store, *, keep: int, now: dt.datetime) -> Iterator[str]:
    """
    Keep the newest complete backups of each server. Delete the server's other backups, and leftovers of interrupted
    backups. Yield the deleted names.

    A backup that is newer than the oldest kept one stays, complete or not. Several servers may share a store, such as
    those of partitions: the backups of one server never cause the deletion of another server's backups.
    """
    counting = names(store)
    servers = {name: _server_of(store, name) for name in counting}
    complete: dict[str, list[str]] = {server: [] for server in servers.values() if server is not None}
    for name in reversed(counting):
        server = servers[name]
        if server is not None and len(complete[server]) < keep and not why_incomplete(store, read(store, name)):
            complete[server].append(name)
    firsts = {server: kept[-1] for server, kept in complete.items() if len(kept) == keep}
    for name in counting:
        server = servers[name]
        # A damaged description names no server. Such a backup is deleted if it is older than the kept backups of every
        # server.
        limits = firsts.values() if server is None else [firsts[server]] if server in firsts else []
        if limits and name < min(limits) and (server is not None or len(firsts) == len(complete)):
            delete(store, name)
            yield name
    before = name_at(now - _INTERRUPTED_AFTER)
    found = {listed.key.split("/")[1] for listed in store.list(f"{FOLDER}/")}
    for name in sorted(found - set(counting)):
        if _NAME.fullmatch(name) and name < before:
            delete(store, name)
            yield name


def _server_of(store: Store, name: str) -> str | None:
    """Return the identity of the server of a backup; None if its description is damaged."""
    try:
        return read(store, name).system
    except Damaged:
        return None


def delete(store: Store, name: str) -> None:
    """
    Delete a backup, its description first. So after an interrupted deletion, the rest no longer counts as a backup.
    """
    store.delete(f"{FOLDER}/{name}/{_DESCRIPTION}")
    for listed in list(store.list(f"{FOLDER}/{name}/")):
        store.delete(listed.key)
