"""The type of a file, by its content first: names and headers of the source are only a hint."""

import enum
import re
from typing import Final

from jobs.reading.text import Kind, kind_of, media_type


class Format(enum.Enum):
    PDF = "pdf"
    # A ZIP container: Office, OpenDocument, or an archive. Its members tell which.
    ZIP = "zip"
    # An OLE file: an e-mail of Outlook, or an old Office file.
    OLE = "ole"
    TAR = "tar"
    GZIP = "gzip"
    BZIP2 = "bzip2"
    XZ = "xz"
    MAIL = "mail"
    HTML = "html"
    PLAIN = "plain"
    UNKNOWN = "unknown"


_SIGNATURES: Final = (
    (b"PK\x03\x04", Format.ZIP),
    (b"PK\x05\x06", Format.ZIP),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", Format.OLE),
    (b"\x1f\x8b\x08", Format.GZIP),
    (b"BZh", Format.BZIP2),
    (b"\xfd7zXZ\x00", Format.XZ),
)
# A PDF may begin after some bytes of a mail gateway.
_PDF_WITHIN: Final = 1024
_TAR_MARK: Final = slice(257, 262)
_MAIL_TYPES: Final = frozenset({"message/rfc822", "application/mbox"})
_MAIL_NAMES: Final = (".eml", ".mht", ".mhtml")
_MAIL_HEADER: Final = re.compile(rb"(?:[!-9;-~]{1,60}:[^\n]*\n(?:[ \t][^\n]*\n)*)", re.ASCII)
# Headers that together show an e-mail: a plain text may begin with `From:`.
_MAIL_SIGNS: Final = (b"from:", b"date:", b"message-id:", b"mime-version:", b"received:", b"subject:")
_LEAST_SIGNS: Final = 3
_MAIL_WITHIN: Final = 16 * 1024


def format_of(body: bytes, content_type: str, name: str) -> Format:
    """Return the format of a file. `content_type` and `name` may be ""."""
    for signature, found in _SIGNATURES:
        if body.startswith(signature):
            return found
    if b"%PDF-" in body[:_PDF_WITHIN]:
        return Format.PDF
    if body[_TAR_MARK] == b"ustar":
        return Format.TAR
    if _is_mail(body, content_type, name):
        return Format.MAIL
    # A wrong header for binary content must not hide a text: the bytes decide.
    kind = kind_of(content_type, body)
    if kind is Kind.OTHER:
        kind = kind_of("", body)
    return {Kind.HTML: Format.HTML, Kind.PLAIN: Format.PLAIN, Kind.OTHER: Format.UNKNOWN}[kind]


def _is_mail(body: bytes, content_type: str, name: str) -> bool:
    beginning = body[:_MAIL_WITHIN]
    if not _MAIL_HEADER.match(beginning):
        return False
    if media_type(content_type) in _MAIL_TYPES or name.lower().endswith(_MAIL_NAMES):
        return True
    headers = beginning.lower().partition(b"\r\n\r\n")[0].partition(b"\n\n")[0]
    starts = {line[: line.find(b":") + 1] for line in headers.splitlines()}
    return sum(sign in starts for sign in _MAIL_SIGNS) >= _LEAST_SIGNS
