"""The value types of archives: an exchange before it is archived, and an exchange that was read from an archive."""

import base64
import datetime as dt
import enum
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha1
from typing import Final

# Request headers that never enter an archive, in lower case.
_SECRET_REQUEST_HEADERS: Final = frozenset({"cookie", "cookie2", "authorization", "proxy-authorization"})
# Response headers that never enter an archive, in lower case.
_SECRET_RESPONSE_HEADERS: Final = frozenset({b"set-cookie", b"set-cookie2"})
# The body is stored without its chunks. So Transfer-Encoding is stored under another name, and no reader looks for
# chunks.
_TRANSFER_ENCODING: Final = b"transfer-encoding"
_RENAMED_TRANSFER_ENCODING: Final = b"X-Archive-Orig-Transfer-Encoding"

Headers = Sequence[tuple[bytes, bytes]]


class Format(enum.StrEnum):
    """The format of an archive file."""

    WARC = "warc"
    BARC = "barc"


class RecordKind(enum.StrEnum):
    """The kind of an archived answer; a revisit has no body, because an earlier record has it."""

    RESPONSE = "response"
    SAME_PAYLOAD = "same_payload"
    NOT_MODIFIED = "not_modified"

    @property
    def is_revisit(self) -> bool:
        return self is not RecordKind.RESPONSE


class BadArchive(ValueError):
    """A file is not an archive, or a record of it is damaged. The message says where."""


class TooLarge(BadArchive):
    """A record is larger than its reader accepts."""


@dataclass(frozen=True, slots=True)
class RawExchange:
    """
    A request for a document and its answer, without secrets.

    `began` is a moment of this process's `time.monotonic()`. `body` is the body as it arrived, without chunks, before
    its Content-Encoding is decoded. `truncated` is "" for a complete body, otherwise the reason in WARC's words.
    """

    url: str
    began: float
    request_head: bytes
    status: int
    status_line: bytes
    headers: Headers
    body: bytes
    truncated: str = ""
    # The network address of the server, if it is known.
    address: str = ""

    @property
    def response_head(self) -> bytes:
        return head_of(self.status_line, self.headers)


@dataclass(frozen=True, slots=True)
class Stored:
    """The place and the facts of an exchange that was appended to an archive file."""

    file_id: int
    offset: int
    length: int
    kind: RecordKind
    status: int
    digest: str
    date: dt.datetime


@dataclass(frozen=True, slots=True)
class Original:
    """The earlier record that has the body of a revisit."""

    url: str
    date: dt.datetime


@dataclass(frozen=True, slots=True)
class Archived:
    """
    An exchange as the archive stores it.

    `date` is the time of the request. For a revisit, `digest` is the digest of the original body. `facts` are lines for
    people, which programs skip.
    """

    url: str
    date: dt.datetime
    kind: RecordKind
    status: int
    request_head: bytes
    response_head: bytes
    body: bytes
    digest: str
    truncated: str = ""
    original: Original | None = None
    address: str = ""
    facts: Sequence[tuple[str, str]] = ()
    # The place of the record in its file, if the exchange was read from a file.
    offset: int = 0
    length: int = 0


def digest_of(body: bytes) -> str:
    """Return the payload digest of a body, in the form that WARC files and their tools use."""
    return f"sha1:{base64.b32encode(sha1(body, usedforsecurity=False).digest()).decode()}"


def without_secrets(headers: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return the request headers that may be archived."""
    return {name: value for name, value in headers if name.lower() not in _SECRET_REQUEST_HEADERS}


def archivable(headers: Headers) -> Headers:
    """Return the response headers that may be archived. Transfer-Encoding gets another name."""
    kept = [(name, value) for name, value in headers if name.lower() not in _SECRET_RESPONSE_HEADERS]
    return [(_RENAMED_TRANSFER_ENCODING if name.lower() == _TRANSFER_ENCODING else name, value) for name, value in kept]


def head_of(first_line: bytes, headers: Headers) -> bytes:
    """Return the head of a message: its first line, its headers, and an empty line."""
    return b"\r\n".join([first_line, *(b": ".join(header) for header in headers), b"", b""])


def parse_head(head: bytes) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """Return the first line of a head and its headers. Lines without a colon are skipped."""
    first, *lines = head.split(b"\n")
    headers = []
    for line in lines:
        name, colon, value = line.partition(b":")
        if colon:
            headers.append((name.strip(), value.strip()))
    return first.strip(), headers


def status_of(status_line: bytes) -> int:
    """Return the status of a status line; 0 if it has none."""
    parts = status_line.split(None, 2)
    return int(parts[1]) if len(parts) > 1 and parts[1].isdigit() and len(parts[1]) < 6 else 0


def date_text(moment: dt.datetime) -> str:
    """Return a moment as both formats write it: UTC, in whole seconds."""
    return moment.astimezone(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def moment_of(text: str) -> dt.datetime:
    """
    Return the moment that a record gives, or the start of 1970 if its text is not a date. A text without a time zone is
    UTC.
    """
    try:
        moment = dt.datetime.fromisoformat(text)
    except ValueError:
        return dt.datetime.fromtimestamp(0, dt.UTC)
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)
