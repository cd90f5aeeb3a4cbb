"""
Signatures of webhooks, by the specification Standard Webhooks.

The secret is `whsec_` and base64 of 24 to 64 bytes. The signature is the HMAC-SHA256 of the id, the time and the body.
"""

import base64
import binascii
import hashlib
import hmac
import secrets
from typing import Final

_PREFIX: Final = "whsec_"
_BYTES: Final = range(24, 65)


def new_secret() -> str:
    """Return a new secret of 32 bytes."""
    return _PREFIX + base64.b64encode(secrets.token_bytes(32)).decode()


def read_secret(secret: str) -> bytes:
    """
    Return the bytes of a secret.

    Raises:
        ValueError: the secret has another form or length.
    """
    try:
        key = base64.b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or len(key) not in _BYTES:
        raise ValueError("a secret must be whsec_ and the base64 of 24 to 64 bytes")
    return key


def signed_headers(secret: str, *, message: str, timestamp: int, body: bytes) -> dict[str, str]:
    """Return the headers of a signed request."""
    signed = f"{message}.{timestamp}.".encode() + body
    digest = hmac.new(read_secret(secret), signed, hashlib.sha256).digest()
    return {
        "webhook-id": message,
        "webhook-timestamp": str(timestamp),
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }
