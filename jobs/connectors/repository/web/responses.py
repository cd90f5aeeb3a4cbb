"""
Reading of responses on aiohttp connections, as tolerant as in other clients.

aiohttp's parser refuses many responses that curl and browsers read. In this module it parses only heads. `framing.py`
rewrites a refused head for another attempt, and finds the ends of bodies.

The rest of a response with errors could look like the answer to the next request on the same connection. So that
connection is never used again.
"""

import asyncio
import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.http import HttpProcessingError, HttpResponseParser, RawResponseMessage
from aiohttp.http_exceptions import BadHttpMessage, BadStatusLine, ContentLengthError, TransferEncodingError

from jobs.connectors.repository.web.framing import (
    BadFraming,
    Body,
    BodyByLength,
    BodyInChunks,
    BodyToTheEnd,
    repaired_head,
)

_Message = tuple[RawResponseMessage, aiohttp.StreamReader]
# Messages with complete heads, True if the connection changes its protocol, and bytes for the new protocol.
_Parsed = tuple[list[_Message], bool, bytes]

_VERSION: Final = b"HTTP/"
_END_OF_HEAD: Final = re.compile(rb"\n\r?\n")
# Limit of a whole head, as a multiple of the longest line.
_LINES_OF_A_HEAD: Final = 8


class TolerantHandler(ResponseHandler):
    """The client side of a connection in aiohttp, with the reader of responses of this module."""

    # Called once, when the first bytes of a response come.
    on_begun: Callable[[], None] | None = None
    _reader: "_ResponseReader | None" = None

    def set_response_params(self, **options: Any) -> None:
        # Bytes that arrived before any request go to the reader of this module, too.
        early, self._tail = self._tail, b""
        super().set_response_params(**options)
        self._reader = _ResponseReader(self, cast("HttpResponseParser", self._parser), options)
        self._parser = cast("HttpResponseParser", self._reader)
        self._tail = early
        self._drain_tail()

    def new_parser(self, options: dict[str, Any]) -> HttpResponseParser:
        """Return a new parser of aiohttp."""
        super().set_response_params(**options)
        parser, self._parser = self._parser, cast("HttpResponseParser", self._reader)
        return cast("HttpResponseParser", parser)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._reader is not None and exc is not None:
            self._reader.is_broken = True
        super().connection_lost(exc)
        self._reader = None


class TolerantConnector(aiohttp.TCPConnector):
    """Opens connections that read responses as other clients do."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._factory = cast("Any", partial(TolerantHandler, loop=asyncio.get_running_loop()))


class _ResponseReader:
    """Reads the answer to one request: interim responses, then the response. It replaces aiohttp's parser."""

    __slots__ = ("_body", "_content", "_handler", "_head", "_is_over", "_most_head", "_options", "_parser", "is_broken")

    def __init__(self, handler: TolerantHandler, parser: HttpResponseParser, options: dict[str, Any]) -> None:
        """`options` are the options of the aiohttp parser that this reader replaces."""
        self._handler = handler
        self._parser = parser
        self._options = options
        self._most_head = _LINES_OF_A_HEAD * options["max_field_size"]
        self._head = b""
        self._body: Body | None = None
        self._content: aiohttp.StreamReader | None = None
        self._is_over = False
        # True after the connection was lost instead of closed.
        self.is_broken = False

    def feed_data(self, data: bytes) -> _Parsed:
        """
        Parse bytes of the answer.

        Raises:
            HttpProcessingError: the head cannot be read.
        """
        messages: list[_Message] = []
        if data and (on_begun := self._handler.on_begun) is not None:
            self._handler.on_begun = None
            on_begun()
        while data:
            if self._body is not None:
                data = self._read_body(self._body, data)
            elif self._is_over:
                # A stray line break after a response is harmless. After other bytes the connection is closed, because
                # they could look like the next response.
                if data.strip(b"\r\n"):
                    self._close()
                break
            else:
                data, upgraded = self._read_head(data, messages)
                if upgraded:
                    self._is_over = True
                    return messages, True, data
        return messages, False, b""

    def feed_eof(self) -> None:
        """
        End the answer, because the connection has ended.

        Raises:
            HttpProcessingError: the body is not complete.
        """
        body, content = self._body, self._content
        if body is None or content is None:
            return
        self._body = None
        if self.is_broken or not body.may_end_here():
            raise ContentLengthError("the body ended early")
        content.feed_eof()

    def pause_reading(self) -> None:
        """Do nothing: aiohttp pauses the transport, and data that has arrived is passed on immediately."""

    def _read_head(self, data: bytes, messages: list[_Message]) -> tuple[bytes, bool]:
        """
        Read a head if it has arrived completely. Return the bytes after the head, and True if another protocol begins
        there.
        """
        began = max(len(self._head) - 3, 0)
        head = self._head + data if self._head else data.lstrip(b"\r\n")
        if not head.startswith(_VERSION) and not _VERSION.startswith(head[: len(_VERSION)].upper()):
            raise BadStatusLine(repr(head[:40]))
        found = _END_OF_HEAD.search(head, began)
        end = len(head) if found is None else found.end()
        if end > self._most_head:
            raise BadHttpMessage(f"headers of more than {self._most_head} bytes")
        if found is None:
            self._head = head
            return b"", False
        self._head = b""
        parsed, upgraded, _ = self._parse(head[:end])
        if len(parsed) != 1:
            raise BadHttpMessage("no response")
        messages += parsed
        message, content = parsed[0]
        if upgraded or not 100 <= message.code < 200:
            self._begin_body(message, content)
        return head[end:], upgraded

    def _parse(self, head: bytes) -> _Parsed:
        try:
            return self._parser.feed_data(head)
        except HttpProcessingError:
            repaired = repaired_head(head)
            if repaired == head:
                raise
            self._parser = self._handler.new_parser(self._options)
            parsed = self._parser.feed_data(repaired)
            self._handler.force_close()
            return parsed

    def _begin_body(self, message: RawResponseMessage, content: aiohttp.StreamReader) -> None:
        self._is_over = True
        if content.is_eof():
            return
        lengths = message.headers.getall("Content-Length", [])
        if len(lengths) > 1:
            if len(set(lengths)) > 1:
                raise BadHttpMessage("several values of Content-Length")
            self._handler.force_close()
        if message.chunked:
            self._body = BodyInChunks()
        elif lengths:
            self._body = BodyByLength(int(lengths[0]))
        else:
            self._body = BodyToTheEnd()
        self._content = content

    def _read_body(self, body: Body, data: bytes) -> bytes:
        """Pass on the content in the data. Return the bytes after the body."""
        content = self._content
        assert content is not None
        try:
            part, rest = body.take(data)
        except BadFraming as error:
            content.set_exception(TransferEncodingError(str(error)))
            self._body = None
            self._close()
            return b""
        content.feed_data(part)
        if body.is_whole:
            self._body = None
            content.feed_eof()
        return rest

    def _close(self) -> None:
        self._handler.force_close()
        if self._handler.transport is not None:
            self._handler.transport.close()
