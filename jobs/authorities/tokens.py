"""The form of a service's token in a request and in the database."""

import hashlib
import secrets
from typing import Final

# Prefix of each token, by which people and scanners of secrets recognize one.
_PREFIX: Final = "crawlctl_"
_SCHEME: Final = "bearer"


def new_token() -> str:
    """Return the text of a new token."""
    return _PREFIX + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Return the stored form of a token. Its text is random, so the digest needs no salt."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def token_in(header: str) -> str:
    """Return the token of a header `Authorization`, or "" if it has none."""
    scheme, _blank, token = header.partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else ""
