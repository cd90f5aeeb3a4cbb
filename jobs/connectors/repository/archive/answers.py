"""Reads an archived answer as a response of the web. All calls here block."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from jobs.archive.reading import read_answer
from jobs.archive.records import Archived, BadArchive, RecordKind, TooLarge, parse_head
from jobs.connectors.repository.archive.library import Library
from jobs.connectors.repository.archive.locations import Location
from jobs.connectors.repository.archive.originals import Originals
from jobs.connectors.repository.filesystem.tree import TreeError
from jobs.connectors.repository.web.decoding import BadCoding, UnknownCoding, decoder_for
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.limits import Limits
from jobs.reading.text import Kind, kind_of, media_type

_HEADERS: Final = {"content-type": "Content-Type", "content-encoding": "Content-Encoding"}
_ROBOTS_TAG: Final = "x-robots-tag"


class Unusable(Exception):
    """An answer cannot be read. If this is true of all answers of a document, its result is this `code`."""

    def __init__(self, code: str, detail: str = "") -> None:
        self.code, self.detail = code, detail
        super().__init__(f"{code}: {detail}")


class Answers:
    """Reads the archived answers of one job."""

    def __init__(self, library: Library, originals: Originals, *, limits: Limits) -> None:
        self._library = library
        self._originals = originals
        self._limits = limits

    def read(
        self, location: Location, others: Sequence[Location], *, reads: Callable[[str], bool] = lambda _type: False
    ) -> Response:
        """
        Return the answer at a location. A revisit has the body of the answer to which it refers.

        `others` are known locations of the same address, the newest first. A body that is not text is left out, unless
        the job `reads` its media type.

        Raises:
            Unusable: the answer, or the body to which it refers, cannot be read.
        """
        archived = self._read(location)
        headers, body_of = archived, archived
        if location.kind.is_revisit:
            body_of = self._original_of(archived, location, others)
            if not 200 <= archived.status < 300:
                headers = body_of
        said, tags = _headers_of(headers)
        if headers.status == 206:
            raise Unusable("INCOMPLETE", "a part of the body")
        content_type = said.get("Content-Type", "")
        is_text = kind_of(content_type, b"") is not Kind.OTHER or reads(media_type(content_type))
        if body_of.truncated and is_text:
            raise Unusable("TRUNCATED", "the archive has only the beginning of the body")
        body = self._decoded(body_of.body, said.get("Content-Encoding", "")) if is_text else b""
        return Response(
            status=headers.status,
            headers=said,
            robots_tags=tags,
            body=body,
            bytes_read=len(body_of.body),
            whole=is_text,
        )

    def _read(self, location: Location) -> Archived:
        try:
            with self._library.opened(location.path) as file:
                archived, fingerprint = read_answer(file, location.offset, most=self._limits.body_bytes)
        except TreeError as error:
            raise Unusable(error.code, error.detail) from error
        except TooLarge as error:
            raise Unusable("TOO_LARGE", str(error)) from error
        except BadArchive as error:
            raise Unusable("BAD_RECORD", str(error)) from error
        if fingerprint != location.fingerprint:
            raise Unusable("CHANGING", "another record is at its place")
        return archived

    def _original_of(self, revisit: Archived, at: Location, others: Sequence[Location]) -> Archived:
        """Return the answer with the body of a revisit."""
        own = [other for other in others if other.has_body and other < at]
        named = revisit.original
        if named is not None:
            # The answer that the revisit names is tried first.
            own.sort(key=lambda other: abs(other.date - named.date))
        for other in own:
            try:
                found = self._read(other)
            except Unusable:
                continue
            if _is_original(found, of=revisit):
                return found
        location = self._originals.find(named, revisit.digest)
        if location is None:
            raise Unusable("NO_ORIGINAL", "the archive lacks the body to which the record refers")
        return self._read(location)

    def _decoded(self, body: bytes, coding: str) -> bytes:
        """Return a body without its Content-Encoding."""
        try:
            decoder = decoder_for(coding)
            if decoder is None:
                return body
            pieces, size = [], 0
            for piece in decoder.decode(body):
                pieces.append(piece)
                size += len(piece)
                if size > self._limits.body_bytes:
                    raise Unusable("TOO_LARGE", f"more than {self._limits.body_bytes} bytes")
            decoder.finish()
        except UnknownCoding as error:
            raise Unusable("PROTOCOL", f"Content-Encoding: {error}") from error
        except BadCoding as error:
            if kind_of("", body[:1024]) is not Kind.OTHER:
                # Some tools decode the body before they store it, and keep its Content-Encoding.
                return body
            raise Unusable("INCOMPLETE", str(error)) from error
        return b"".join(pieces)


def _is_original(answer: Archived, *, of: Archived) -> bool:
    """True if this answer is the one to which a revisit refers. The caller checks that both have the same address."""
    if of.original is not None and of.original.url != of.url:
        return of.digest.upper() == answer.digest.upper()
    is_not_modified = of.kind is not RecordKind.SAME_PAYLOAD
    return is_not_modified or not of.digest or of.digest.upper() == answer.digest.upper()


def _headers_of(archived: Archived) -> tuple[Mapping[str, str], tuple[str, ...]]:
    """Return the headers that are needed to read a body, and all headers with directives for robots."""
    headers: dict[str, str] = {}
    tags: list[str] = []
    for name, value in parse_head(archived.response_head)[1]:
        key = name.decode("latin-1").lower()
        if key == _ROBOTS_TAG:
            tags.append(value.decode("utf-8", "replace"))
        elif key in _HEADERS:
            headers.setdefault(_HEADERS[key], value.decode("utf-8", "replace"))
    return headers, tuple(tags)
