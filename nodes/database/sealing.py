"""
Secrets in their stored form: sealed with a key that is derived from the secret key of all machines.

A sealed text can be stored and shown. Only a process that knows `CRAWLCTL_SECRET_KEY` can open it.
"""

import base64
from typing import Final

from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from django.conf import settings

# Prefix of each sealed text.
MARK: Final = "sealed:"


class Unreadable(ValueError):
    """This machine's key does not open a sealed text. The message does not reveal its content."""

    def __init__(self) -> None:
        super().__init__("was sealed with another CRAWLCTL_SECRET_KEY; enter it again")


def seal(text: str) -> str:
    """Return the text sealed. A text that is already sealed is returned unchanged."""
    return text if is_sealed(text) else MARK + _cipher().encrypt(text.encode()).decode()


def unseal(text: str) -> str:
    """
    Return the content of a sealed text. A text that is not sealed is returned unchanged.

    Raises:
        Unreadable
    """
    if not is_sealed(text):
        return text
    try:
        return _cipher().decrypt(text.removeprefix(MARK)).decode()
    except InvalidToken:
        raise Unreadable from None


def can_open(text: str) -> bool:
    """True if `unseal` returns the content of the text."""
    try:
        unseal(text)
    except Unreadable:
        return False
    return True


def is_sealed(text: str) -> bool:
    return text.startswith(MARK)


def _cipher() -> Fernet:
    kdf = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"crawlctl: secrets of connections")
    return Fernet(base64.urlsafe_b64encode(kdf.derive(settings.SECRET_KEY.encode())))
