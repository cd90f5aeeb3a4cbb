"""Long-lived tokens of services and of users: their form in a request and in the database."""

import hashlib
import secrets
from typing import Final

# Prefixes by which people, and scanners of secrets, recognize a token.
OF_A_SERVICE: Final = "crawlctl_"
OF_A_USER: Final = "crawlctl_api_"
_SCHEME: Final = "bearer"


def new_token(prefix: str) -> str:
    """Return the text of a new token."""
    return prefix + secrets.token_urlsafe(32)


def digest_of(token: str) -> str:
    """Return the stored form of a token. Its text is random, so the digest needs no salt."""
    return hashlib.sha256(token.encode(errors="replace")).hexdigest()


def token_in(header: str) -> str:
    """Return the token of a header `Authorization`, or "" if it has none."""
    scheme, _blank, token = header.partition(" ")
    return token.strip() if scheme.lower() == _SCHEME else ""


def is_of_a_user(token: str) -> bool:
    """True if the text begins like the token of a user."""
    return token.startswith(OF_A_USER)
