"""
The secret key, the settings and the write-ahead log of an installation, sealed with a passphrase.

scrypt derives the key of the cipher, so that each guess of a passphrase costs 128 MiB of memory and a quarter of a
second. AES-256-GCM also proves that the content belongs to its backup and was not changed.
"""

import json
import os
from dataclasses import asdict, dataclass
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from crawlctl.backups.errors import Damaged, Unusable

_HEADER: Final = b"crawlctl sealed 1\n"
SALT_BYTES: Final = 16
_NONCE: Final = 12
# Cost of scrypt: 128 * _N * _R bytes of memory.
_N: Final = 2**17
_R: Final = 8


@dataclass(frozen=True)
class Secrets:
    """The secret key, and the settings that were given in the environment, by variable."""

    secret_key: str
    environment: dict[str, str]


def seal(secrets: Secrets, *, passphrase: str, backup: str) -> bytes:
    """Return the secrets sealed for the backup with that name."""
    salt, nonce = os.urandom(SALT_BYTES), os.urandom(_NONCE)
    content = json.dumps(asdict(secrets)).encode()
    return _HEADER + salt + nonce + derive_cipher(passphrase, salt).encrypt(nonce, content, _HEADER + backup.encode())


def unseal(sealed: bytes, *, passphrase: str, backup: str) -> Secrets:
    """
    Return the secrets of a backup.

    Raises:
        Unusable: the passphrase is wrong, or the content was changed.
        Damaged: the content was not sealed by this program.
    """
    if not sealed.startswith(_HEADER):
        raise Damaged(f"the sealed key of the backup {backup} is damaged: it does not start with its header")
    rest = sealed.removeprefix(_HEADER)
    salt, nonce, content = rest[:SALT_BYTES], rest[SALT_BYTES : SALT_BYTES + _NONCE], rest[SALT_BYTES + _NONCE :]
    try:
        return Secrets(**json.loads(derive_cipher(passphrase, salt).decrypt(nonce, content, _HEADER + backup.encode())))
    except (InvalidTag, ValueError):
        raise Unusable(
            f"the passphrase does not open the secret key of the backup {backup}. Give the passphrase of the time of the backup "
            "in CRAWLCTL_BACKUP_PASSPHRASE"
        ) from None


class Sealer:
    """Seals and opens many files with one passphrase. It derives each key once, because that is slow on purpose."""

    def __init__(self, passphrase: str) -> None:
        self._passphrase = passphrase
        self._salt = os.urandom(SALT_BYTES)
        self._ciphers: dict[bytes, AESGCM] = {}

    def seal(self, content: bytes, *, name: str) -> bytes:
        """Return the content sealed under that name."""
        nonce = os.urandom(_NONCE)
        sealed = self._cipher_of(self._salt).encrypt(nonce, content, _HEADER + name.encode())
        return _HEADER + self._salt + nonce + sealed

    def unseal(self, sealed: bytes, *, name: str) -> bytes:
        """
        Return the content that was sealed under that name.

        Raises:
            Unusable: the passphrase is missing or wrong.
            Damaged: the content was not sealed by this program, or it was changed.
        """
        if not self._passphrase:
            raise Unusable(f"{name} is sealed. Give the passphrase of its time in CRAWLCTL_BACKUP_PASSPHRASE")
        if not sealed.startswith(_HEADER):
            raise Damaged(f"{name} is damaged: it does not start with its header")
        rest = sealed.removeprefix(_HEADER)
        salt, nonce, content = rest[:SALT_BYTES], rest[SALT_BYTES : SALT_BYTES + _NONCE], rest[SALT_BYTES + _NONCE :]
        try:
            return self._cipher_of(salt).decrypt(nonce, content, _HEADER + name.encode())
        except (InvalidTag, ValueError):
            raise Unusable(
                f"the passphrase does not open {name}, or {name} was changed. Give the passphrase of its time in "
                "CRAWLCTL_BACKUP_PASSPHRASE"
            ) from None

    def _cipher_of(self, salt: bytes) -> AESGCM:
        if salt not in self._ciphers:
            self._ciphers[salt] = derive_cipher(self._passphrase, salt)
        return self._ciphers[salt]


def derive_cipher(passphrase: str, salt: bytes) -> AESGCM:
    """Return the cipher of a passphrase. The derivation is slow on purpose."""
    return AESGCM(Scrypt(salt=salt, length=32, n=_N, r=_R, p=1).derive(passphrase.encode()))
