"""Copies a complete archive file to stores. Each copy is sent once, and confirmed by its size and its SHA-256."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from jobs.archive.files import locked, sha256_of
from nodes.stores.port import KeyTaken, Store, StoreError, WrongContent


@dataclass(slots=True)
class Attempt:
    """
    The result of one attempt to store a file.

    `confirmed` has the addresses of stores that have the file, and `failures` the errors of the other stores. If
    `problem` is not "", the local file is wrong for this reason, and was not stored.
    """

    sha256: str = ""
    confirmed: list[str] = field(default_factory=list)
    failures: dict[str, StoreError] = field(default_factory=dict)
    problem: str = ""
    # True if another process is storing the file now.
    is_taken: bool = False


def store_file(path: Path, *, key: str, length: int, sha256: str, stores: Mapping[str, Store]) -> Attempt:
    """
    Put a file into these stores (address to store), and confirm each copy. `sha256` is "" before the first attempt.

    Raises:
        OSError: the file is missing, or cannot be read.
    """
    attempt = Attempt(sha256=sha256)
    with locked(path) as is_mine:
        if not is_mine:
            attempt.is_taken = True
            return attempt
        size = path.stat().st_size
        if size != length:
            attempt.problem = f"The file has {size:,} bytes, and it was completed with {length:,}."
            return attempt
        attempt.sha256 = sha256 or sha256_of(path)
        for address, store in stores.items():
            try:
                put_copy(store, key, path, sha256=attempt.sha256, length=length)
            except WrongContent:
                attempt.problem = "The file changed after it was completed, or its disk damaged it."
                return attempt
            except StoreError as error:
                attempt.failures[address] = error
            else:
                attempt.confirmed.append(address)
    return attempt


def put_copy(store: Store, key: str, path: Path, *, sha256: str, length: int) -> None:
    """
    Put a file into a store unless the store already has the key, and confirm the stored content.

    Raises:
        StoreError: the store refuses, does not answer, or has other content under the key.
    """
    # The key may already exist, because an earlier attempt stored the file and did not get the answer.
    with suppress(KeyTaken):
        store.put(key, path, sha256=sha256, only_if_absent=True)
    found = store.head(key)
    if found != (length, sha256):
        raise StoreError(f"{store.address} has other content under {key}. Verify the archive with repair")
