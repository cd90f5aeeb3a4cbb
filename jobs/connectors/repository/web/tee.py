"""Collects the raw exchange of a document's own request for the archive, while the body is read."""

from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from jobs.archive.records import RawExchange, archivable, head_of, without_secrets
from jobs.connectors.repository.web.exchange import Answer

# The word of the WARC format for a body that was cut at a limit.
_CUT: Final = "length"


class Tee:
    """Collects one exchange. A request that sends a form must not have a tee, so that logins never enter an archive."""

    __slots__ = ("_address", "_answer", "_began", "_headers", "_pieces", "_url")

    def __init__(self, url: str, headers: Mapping[str, str], answer: Answer, *, began: float, address: str) -> None:
        """`headers` are those of the request. `began` is a moment of `time.monotonic()`."""
        self._url = url
        self._headers = headers
        self._answer = answer
        self._began = began
        self._address = address
        self._pieces: list[bytes] = []

    def add(self, raw: bytes) -> None:
        """Add bytes of the body, as they came over the wire without chunks."""
        self._pieces.append(raw)

    def exchange(self) -> RawExchange:
        """Return the exchange. It is truncated unless the body was read to its end."""
        answer, parts = self._answer, urlsplit(self._url)
        target = self._url[self._url.index("/", 8) :]
        headers = [("Host", parts.netloc), *without_secrets(self._headers.items()).items()]
        return RawExchange(
            url=self._url,
            began=self._began,
            request_head=head_of(
                f"GET {target} HTTP/1.1".encode(), [(name.encode(), value.encode()) for name, value in headers]
            ),
            status=answer.status,
            status_line=answer.status_line,
            headers=archivable(answer.raw_headers),
            body=b"".join(self._pieces),
            truncated="" if answer.content.at_eof() else _CUT,
            address=self._address,
        )
