"""The contract of a store, and its errors."""

import hashlib
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple, Protocol

# Bytes that one read takes from a file or a store.
CHUNK: Final = 1024 * 1024

# Parts of a key, separated by slashes. A part that starts with a dot could leave the directory, or be a temporary file.
_KEY: Final = re.compile(r"(?!\.)[A-Za-z0-9_.=+@:,~-]+(/(?!\.)[A-Za-z0-9_.=+@:,~-]+)*")
_SHA256: Final = re.compile(r"[0-9a-f]{64}")


class StoreError(Exception):
    """A request to a store failed. The message names the store, the fault and its remedy."""


class InvalidAddress(StoreError):
    """The text is not the address of a store."""


class StoreUnavailable(StoreError):
    """The store does not answer or has no room. The same request may succeed later."""


class StoreRefused(StoreError):
    """The store refuses the request until an operator changes its permissions, its credentials or its address."""


class KeyTaken(StoreError):
    """The store has the key already, and the request was to put it only if it is absent."""


class KeyMissing(StoreError):
    """The store does not have the key."""


class WrongContent(StoreError):
    """The content does not have the expected SHA-256. Nothing was stored under the key."""


class Stored(NamedTuple):
    """A stored file: its bytes, and the SHA-256 of its content in hex; '' if another program stored it without one."""

    size: int
    sha256: str


class Listed(NamedTuple):
    key: str
    size: int


class Store(Protocol):
    """
    Files by key. A key has parts of letters, digits and `_.=+@:,~-`, separated by slashes; no part starts with a dot.

    A key appears only with its whole content. All operations raise subclasses of `StoreError`. Several threads
    may use one store.
    """

    # The address, which has no secrets.
    address: str

    def put(self, key: str, path: Path, *, sha256: str, only_if_absent: bool = False) -> None:
        """
        Store the file's content under the key, durably.

        Raises:
            WrongContent: the file's SHA-256 is not `sha256` (hex).
            KeyTaken: the key exists, and `only_if_absent` is set.
        """

    def head(self, key: str) -> Stored | None:
        """Return the facts of the content under the key. A directory reads the file to compute its SHA-256."""

    def get(self, key: str, offset: int = 0, length: int | None = None) -> Iterator[bytes]:
        """
        Return the content in chunks: `length` bytes from `offset` on, or fewer at the end.

        Raises:
            KeyMissing
        """

    def list(self, prefix: str = "") -> Iterator[Listed]:
        """Return the keys that start with the prefix, in order."""

    def delete(self, key: str) -> None:
        """Delete the key. An absent key is not an error."""


def check_key(address: str, key: str) -> str:
    """
    Return the key.

    Raises:
        StoreError: the key is invalid.
    """
    if not _KEY.fullmatch(key):
        raise StoreError(
            f"{address}: the key {key!r} is invalid. Use letters, digits and _.=+@:,~- in parts separated by slashes; "
            "no part starts with a dot"
        )
    return key


def check_digest(address: str, key: str, *, expected: str, found: str) -> None:
    """
    Check that the content that was read has the expected SHA-256.

    Raises:
        WrongContent
    """
    if not _SHA256.fullmatch(expected):
        raise StoreError(f"{address}: {expected!r} is not a SHA-256. It has 64 hexadecimal digits in lower case")
    if expected != found:
        raise WrongContent(
            f"{address}: the content for {key} has the SHA-256 {found}, and {expected} was expected. "
            "The file changed, or it is damaged. Nothing was stored"
        )


def digest_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
