"""
A large file, sealed with a passphrase in chunks, so that a backup of any size takes little memory.

The construction is STREAM: the nonce of a chunk has its number, and a mark for the last chunk. So chunks that are
exchanged, left out or cut off are found, and content is returned only after its chunk is verified. scrypt derives a key
for each file, so no nonce occurs twice with one key.
"""

import contextlib
import io
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from crawlctl.backups.errors import Damaged, Unusable
from crawlctl.backups.sealing import SALT_BYTES, derive_cipher

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_HEADER: Final = b"crawlctl sealed file 1\n"
# Numbers of bytes: of the content in a chunk, and of the proof after the chunk.
_CHUNK: Final = 1024 * 1024
_PROOF: Final = 16


@contextlib.contextmanager
def open_to_seal(path: Path, *, passphrase: str, name: str) -> Iterator[io.BufferedIOBase]:
    """Yield a file to which content is written. It is sealed under that name at the path."""
    with path.open("xb") as file:
        sealing = _Sealing(file, passphrase=passphrase, name=name)
        yield sealing
        sealing.finish()


@contextlib.contextmanager
def open_sealed(path: Path, *, passphrase: str, name: str) -> Iterator[io.BufferedIOBase]:
    """
    Yield a file with the content that was sealed under that name. At the end, verify the part that was not read.

    Raises:
        Unusable: the passphrase is missing or wrong.
        Damaged: the content was not sealed by this program, or it was changed.
    """
    with path.open("rb") as file:
        unsealing = _Unsealing(file, passphrase=passphrase, name=name)
        yield unsealing
        while unsealing.read(_CHUNK):
            pass


class _Sealing(io.BufferedIOBase):
    def __init__(self, file: BinaryIO, *, passphrase: str, name: str) -> None:
        salt = os.urandom(SALT_BYTES)
        self._file, self._cipher, self._associated = file, derive_cipher(passphrase, salt), _HEADER + name.encode()
        self._content, self._number = bytearray(), 0
        file.write(_HEADER + salt)

    def writable(self) -> bool:
        return True

    def write(self, content: "ReadableBuffer", /) -> int:
        part = memoryview(content).cast("B")
        self._content += part
        # Only the end of the content shows which chunk is the last, so one chunk is always held back.
        while len(self._content) > _CHUNK:
            self._seal(bytes(self._content[:_CHUNK]), is_last=False)
            del self._content[:_CHUNK]
        return len(part)

    def finish(self) -> None:
        self._seal(bytes(self._content), is_last=True)
        self._content.clear()

    def _seal(self, chunk: bytes, *, is_last: bool) -> None:
        self._file.write(self._cipher.encrypt(_nonce(self._number, is_last=is_last), chunk, self._associated))
        self._number += 1


class _Unsealing(io.BufferedIOBase):
    def __init__(self, file: BinaryIO, *, passphrase: str, name: str) -> None:
        if not passphrase:
            raise Unusable(f"{name} is sealed. Give the passphrase of its time in CRAWLCTL_BACKUP_PASSPHRASE")
        if file.read(len(_HEADER)) != _HEADER:
            raise Damaged(f"{name} is damaged: it does not start with its header")
        self._cipher: AESGCM = derive_cipher(passphrase, file.read(SALT_BYTES))
        self._file, self._name, self._associated = file, name, _HEADER + name.encode()
        self._content, self._number = b"", 0
        self._next = file.read(_CHUNK + _PROOF)
        self._is_over = False

    def readable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        parts, wanted = [], size if size is not None and size >= 0 else None
        while wanted is None or wanted > 0:
            if not self._content and not self._advance():
                break
            part, self._content = self._content[:wanted], self._content[wanted:] if wanted is not None else b""
            parts.append(part)
            wanted = None if wanted is None else wanted - len(part)
        return b"".join(parts)

    def _advance(self) -> bool:
        """Read the next chunk. Return False at the end."""
        if self._is_over:
            return False
        chunk, self._next = self._next, self._file.read(_CHUNK + _PROOF)
        self._is_over = not self._next
        try:
            self._content = self._cipher.decrypt(_nonce(self._number, is_last=self._is_over), chunk, self._associated)
        except (InvalidTag, ValueError):
            if self._number == 0:
                raise Unusable(
                    f"the passphrase does not open {self._name}, or {self._name} was changed. "
                    "Give the passphrase of its time in CRAWLCTL_BACKUP_PASSPHRASE"
                ) from None
            raise Damaged(f"{self._name} was changed or cut after {self._number} MiB") from None
        self._number += 1
        return bool(self._content)


def _nonce(number: int, *, is_last: bool) -> bytes:
    return number.to_bytes(11, "big") + bytes([is_last])
