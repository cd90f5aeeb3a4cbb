"""Finds the type of a file, first by its content. The name and the headers of the source are only hints."""

import enum
import re
from typing import Final

from jobs.reading.text import Kind, kind_of, media_type


class Format(enum.Enum):
    """The format of a file, recognized by its content."""

    PDF = "pdf"
    # A ZIP container: Office, OpenDocument, or an archive. Its members show the kind.
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
# Number of bytes within which a PDF must begin. A mail gateway may have put some bytes before it.
_PDF_WITHIN: Final = 1024
_TAR_MARK: Final = slice(257, 262)
_MAIL_TYPES: Final = frozenset({"message/rfc822", "application/mbox"})
_MAIL_NAMES: Final = (".eml", ".mht", ".mhtml")
_MAIL_HEADER: Final = re.compile(rb"(?:[!-9;-~]{1,60}:[^\n]*\n(?:[ \t][^\n]*\n)*)", re.ASCII)
# Headers of which an e-mail has several. One is not enough, because a plain text may begin with `From:`.
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
    # If a Content-Type says that the content is binary, the bytes decide, so that a wrong type does not hide a text.
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


# Beginnings of media types that no reader of this package knows.
_UNREAD: Final = ("image/", "audio/", "video/", "font/", "model/", "text/")
_UNREAD_TYPES: Final = frozenset(
    {"application/xhtml+xml", "application/javascript", "application/json", "application/xml"}
)
# Types that say nothing about a file. For these types, the name of the file decides.
_ANY_TYPES: Final = frozenset({"", "application/octet-stream", "binary/octet-stream", "application/x-download"})
_PARTED_TYPES: Final = frozenset(
    {
        "application/zip", "application/x-zip-compressed", "application/x-tar", "application/gzip", "application/x-gzip",
        "application/x-bzip2", "application/x-xz", "message/rfc822", "application/vnd.ms-outlook",
    }
)  # fmt: skip
_PARTED_NAMES: Final = (".zip", ".tar", ".gz", ".tgz", ".bz2", ".xz", ".eml", ".msg")
_READ_NAMES: Final = (
    *_PARTED_NAMES,
    ".pdf",
    ".docx",
    ".xlsx",
    ".pptx",
    ".odt",
    ".ods",
    ".odp",
    ".docm",
    ".xlsm",
    ".pptm",
)
_READ_PREFIXES: Final = (
    "application/pdf",
    "application/vnd.openxmlformats-officedocument.",
    "application/vnd.oasis.",
    "application/vnd.ms-",
)


def is_text_type(content_type: str) -> bool:
    """True if a source reads documents of this type as texts without an extraction."""
    return content_type.startswith("text/") or content_type == "application/xhtml+xml"


def may_be_read(content_type: str, name: str) -> bool:
    """True if a reader may know the format of a file with this type and this name."""
    if content_type in _ANY_TYPES:
        return _path_of(name).endswith(_READ_NAMES)
    if content_type.startswith(_UNREAD) or content_type in _UNREAD_TYPES:
        return False
    return content_type in _PARTED_TYPES or content_type.startswith(_READ_PREFIXES)


def may_have_parts(content_type: str, name: str) -> bool:
    """True if a file with this type and this name may be an e-mail or an archive."""
    return content_type in _PARTED_TYPES or (content_type in _ANY_TYPES and _path_of(name).endswith(_PARTED_NAMES))


def _path_of(name: str) -> str:
    return name.partition("?")[0].partition("#")[0].lower()
