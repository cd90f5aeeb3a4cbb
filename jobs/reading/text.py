"""
Finds the kind of a response's content, and its text.

The server's Content-Type counts, unless the first bytes show that the body is not text at all. `charset.py` finds the
encoding.
"""

import enum
import re
from typing import Final

from jobs.reading.charset import text_of


class Kind(enum.Enum):
    """The kind of a document, which decides how its text is read."""

    HTML = "html"
    PLAIN = "plain"
    OTHER = "other"


_HTML_TYPES: Final = frozenset({"text/html", "application/xhtml+xml"})
_XML_TYPES: Final = frozenset({"text/xml", "application/xml"})
_PLAIN_TYPES: Final = frozenset({"text/plain", "text/markdown"})

_CHARSET: Final = re.compile(r"charset\s*=\s*[\"']?([\w.:+-]{1,40})", re.IGNORECASE)
# Number of bytes that are searched for the start of HTML.
_HTML_WITHIN: Final = 1024
_SIGNATURES: Final = (
    b"%PDF-", b"\x89PNG", b"GIF8", b"\xff\xd8\xff", b"PK\x03\x04", b"\x1f\x8b", b"RIFF", b"\x7fELF",
    b"OggS", b"wOFF", b"wOF2", b"\x00\x00\x01\x00", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"%!PS-Adobe-",
    b"\x00asm", b"\xca\xfe\xba\xbe", b"ID3", b"fLaC", b"\x28\xb5\x2f\xfd", b"Rar!",
)  # fmt: skip
_CONTROLS: Final = bytes(code for code in range(0x20) if code not in b"\t\n\x0c\r\x1b")

# The expression does not backtrack (`*+`, `(?>`). Otherwise, the time would double with each comment.
_HTML_START: Final = re.compile(
    rb"^\s*+(?:<\?xml[^>]*+>\s*+)?+(?:(?><!--.*?-->)\s*+)*+<(?:!doctype\s+html|html|head|body|title|meta|script|h1|div|p|a|table|br)[\s>/]",
    re.IGNORECASE | re.DOTALL,
)


def kind_of(content_type: str, first: bytes) -> Kind:
    """Return the kind of a body, by its Content-Type (may be '') and its first bytes."""
    name = media_type(content_type)
    if name in _HTML_TYPES:
        kind = Kind.HTML
    elif name in _PLAIN_TYPES:
        kind = Kind.PLAIN
    elif name in _XML_TYPES:
        kind = Kind.HTML if b"<html" in first[:_HTML_WITHIN].lower() else Kind.OTHER
    elif not name or "/" not in name:
        kind = Kind.HTML if _HTML_START.match(first[:_HTML_WITHIN]) else Kind.PLAIN
    else:
        return Kind.OTHER
    return Kind.OTHER if _is_binary(first, content_type) else kind


def charset_of(content_type: str) -> str:
    """Return the charset that a Content-Type names; '' without one."""
    found = _CHARSET.search(content_type)
    return found[1].lower() if found else ""


def media_type(content_type: str) -> str:
    return content_type.partition(";")[0].strip().lower()


def decoded(body: bytes, content_type: str) -> str:
    """Return the text of a body, without byte order mark, NUL and lone surrogates."""
    text = text_of(body, content_type)
    return text.replace("\x00", "") if "\x00" in text else text


def _is_binary(first: bytes, content_type: str) -> bool:
    """True if the bytes are not text: a known signature, or many control characters."""
    if first.startswith(_SIGNATURES) or first[4:8] == b"ftyp":
        return True
    if first[:2] in {b"\xff\xfe", b"\xfe\xff"} or "utf-16" in content_type.lower():
        return False
    sample = first[:512]
    if sample[1:2] == b"\x00" == sample[3:4] or sample[:1] == b"\x00" == sample[2:3]:
        return b"\x00\x00" in sample
    return len(sample) - len(sample.translate(None, _CONTROLS)) > len(sample) // 10
