"""
One request to one address, which always ends: with a response, or with a `FetchFailed` and its code.

With any server, a request ends by its deadline, uses limited memory, and connects only to permitted addresses. The
address is checked when its socket is created, so the checked address is the one used. This protects against names that
resolve differently the second time, odd spellings of addresses, and numeric addresses in links. If a host has public
and private addresses, requests go to the public ones.

The environment is ignored: no proxy, no netrc. No cookie is stored. Redirects are answers. The caller decides how many
requests may be open to a host, and when.
"""

import asyncio
import contextlib
import logging
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Protocol, Self
from urllib.parse import urlencode, urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver
from aiohttp.http import HttpProcessingError

from jobs.archive.records import RawExchange
from jobs.connectors.repository.web import decoding
from jobs.connectors.repository.web.addresses import is_public
from jobs.connectors.repository.web.deadlines import Deadline, Deadlines
from jobs.connectors.repository.web.error_codes import AddressForbidden, code_of
from jobs.connectors.repository.web.exchange import Answer, Exchange
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.names import ThreadedNames
from jobs.connectors.repository.web.responses import TolerantConnector
from jobs.connectors.repository.web.tee import Tee

logger = logging.getLogger(__name__)

# Largest number of bytes that decide whether a body is needed, as in WHATWG's sniffing.
SNIFFED_BYTES: Final = 1445
# Largest number of bytes, and of seconds, for which an unneeded body is read, so that its connection can be used again.
# A longer body closes the connection.
_DISCARDED_BYTES: Final = 64 * 1024
_DISCARDED_SECONDS: Final = 1.0

# Lifetime of a resolved name (seconds): long enough for a burst of connections to one host, short enough for changes.
_NAME_KEPT_SECONDS: Final = 30

# Predicate: True if the rest of a body should be read, by status, headers and the first bytes of the body. It is also
# called with the status alone, without headers and bytes, before a body is read.
IsWanted = Callable[[int, Mapping[str, str], bytes], bool]


class FetchFailed(Exception):
    """
    The request gave no complete response. `code` is the document's result code.

    `exchange` is set if the body exceeded the limit, and the caller asked to keep the exchange.
    """

    def __init__(self, code: str, detail: str) -> None:
        self.code, self.detail = code, detail
        self.exchange: RawExchange | None = None
        super().__init__(f"{code}: {detail}" if detail else code)


@dataclass(frozen=True, slots=True)
class Response:
    """
    The answer of a server.

    `body` is decoded. If the caller needed only the beginning, the rest is missing (`whole` is False). `bytes_read`
    counts the body as it came over the wire. `set_cookies` are the values of Set-Cookie, as sent.
    """

    status: int
    headers: Mapping[str, str]
    robots_tags: tuple[str, ...]
    body: bytes
    bytes_read: int
    whole: bool
    set_cookies: tuple[str, ...] = ()
    # The raw exchange, if the caller asked to keep it.
    exchange: RawExchange | None = None


class Fetches(Protocol):
    """An object that fetches an address as a `Fetcher` does."""

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        is_wanted: IsWanted,
        most_bytes: int | None = None,
        form: Mapping[str, str] | None = None,
        keeps_exchange: bool = False,
    ) -> Response:
        """
        Fetch an address and return the response, with the raw exchange if `keeps_exchange`.

        Raises:
            FetchFailed: the request gave no complete response.
        """


class Fetcher:
    """The connections of one process, shared by its jobs; created and closed inside the running loop."""

    def __init__(
        self,
        *,
        allow_private_networks: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        resolver: AbstractResolver | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._limits = limits
        self._resolver = ThreadedNames() if resolver is None else resolver
        connector = TolerantConnector(
            limit=0,
            resolver=self._resolver,
            ttl_dns_cache=_NAME_KEPT_SECONDS,
            ssl=True if tls is None else tls,
            socket_factory=_socket if allow_private_networks else _public_socket,
        )
        self._exchange = Exchange(connector, limits=limits)
        self._deadlines = Deadlines()
        self._is_closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def address_of(self, host: str) -> str | None:
        """Return the address that was used for a host; None if it is unknown."""
        return self._resolver.address_of(host) if isinstance(self._resolver, ThreadedNames) else None

    async def find_address(self, host: str) -> str | None:
        """Return the network address of a host; None if its name has no address."""
        known = self.address_of(host)
        if known is None:
            with contextlib.suppress(OSError):
                await self._resolver.resolve(host)
        return known or self.address_of(host)

    async def close(self) -> None:
        self._is_closed = True
        await self._exchange.close()
        await self._resolver.close()

    async def fetch(
        self,
        url: str,
        *,
        headers: Mapping[str, str],
        is_wanted: IsWanted,
        most_bytes: int | None = None,
        form: Mapping[str, str] | None = None,
        keeps_exchange: bool = False,
        most_seconds: float | None = None,
        before_sent: Callable[[], None] | None = None,
        on_sent: Callable[[], None] | None = None,
        on_read: Callable[[int], None] | None = None,
    ) -> Response:
        """
        Fetch a canonical address, or send a form to it. With `most_bytes`, a longer body is cut there without an error.
        `most_seconds` may shorten the time that the limits allow.

        `before_sent` is called just before the request leaves. That may be late, because a connection has to be opened
        first. An exception of `before_sent` stops the request. `on_sent` is called after the request has left. At the
        end, `on_read` gets the number of bytes of a body that arrived, whatever the result.

        With `keeps_exchange`, the response has the raw exchange. Requests with a form never have one.

        Raises:
            FetchFailed: the request gave no complete response.
        """
        seconds = min(self._limits.request_seconds, most_seconds or self._limits.request_seconds)
        deadline = asyncio.get_running_loop().time() + seconds
        timer = self._deadlines.at(deadline)
        begun = asyncio.Event()
        sent_at = time.monotonic()
        headers = {"Accept-Encoding": decoding.ACCEPTED, **headers}
        try:
            async with timer:
                answer = await self._exchange.ask(
                    url,
                    headers=headers,
                    form=None if form is None else urlencode(form).encode(),
                    before_sent=before_sent,
                    on_sent=on_sent,
                    on_begun=begun.set,
                )
                tee = None
                if keeps_exchange and form is None:
                    address = self.address_of(urlsplit(url).hostname or "") or ""
                    tee = Tee(url, headers, answer, began=sent_at, address=address)
                body = _Body(answer, limits=self._limits, timer=timer, deadline=deadline, tee=tee)
                try:
                    return await body.read(is_wanted, most_bytes=most_bytes)
                finally:
                    answer.give_back()
                    if on_read is not None:
                        on_read(body.wire)
        except TimeoutError as error:
            if timer.has_expired and _is_before(timer.when, deadline):
                raise FetchFailed("TOO_SLOW", f"less than {self._limits.least_rate} bytes a second") from error
            if begun.is_set():
                # No retry: another attempt would take equally long, and end in the same way.
                raise FetchFailed("TOO_SLOW", f"the response began, but was incomplete after {seconds:g} s") from error
            raise FetchFailed("DEADLINE", f"no response in {seconds:g} s") from error
        except (aiohttp.ClientError, HttpProcessingError, OSError, ValueError) as error:
            raise FetchFailed(*code_of(error)) from error
        except FetchFailed:
            raise
        except Exception as error:
            if self._is_closed:
                raise
            # Libraries parse untrusted bytes too: an unforeseen exception ends this request only.
            logger.exception("defect in a request for %s", url)
            raise FetchFailed("PROTOCOL", type(error).__name__) from error


class _Body:
    """Reads one body under its limits."""

    def __init__(
        self, answer: Answer, *, limits: Limits, timer: Deadline, deadline: float, tee: Tee | None = None
    ) -> None:
        self._answer = answer
        self._tee = tee
        self._limits = limits
        self._timer = timer
        self._deadline = deadline
        self._begun = asyncio.get_running_loop().time()
        # Bytes of the body that have arrived.
        self.wire = 0

    async def read(self, is_wanted: IsWanted, *, most_bytes: int | None) -> Response:
        answer = self._answer
        if not answer.content.is_eof():
            self._keep_pace()
        try:
            body, whole = await self._collect(is_wanted, most_bytes=most_bytes)
        except decoding.UnknownCoding as error:
            raise FetchFailed("PROTOCOL", f"Content-Encoding: {error}") from error
        except decoding.BadCoding as error:
            raise FetchFailed("INCOMPLETE", str(error)) from error
        except FetchFailed as failure:
            # The body is too large, so the raw exchange has only its beginning.
            failure.exchange = None if self._tee is None else self._tee.exchange()
            raise
        return Response(
            status=answer.status,
            headers=answer.headers,
            robots_tags=answer.all_of("X-Robots-Tag"),
            body=body,
            bytes_read=self.wire,
            whole=whole,
            set_cookies=answer.all_of("Set-Cookie"),
            exchange=None if self._tee is None else self._tee.exchange(),
        )

    async def _collect(self, is_wanted: IsWanted, *, most_bytes: int | None) -> tuple[bytes, bool]:
        """Return the decoded body, or its beginning, and True if it is complete."""
        answer = self._answer
        if not is_wanted(answer.status, {}, b""):
            # The body is not needed for this status, so errors in it do not count.
            await self._discard()
            return b"", False
        decoder = decoding.decoder_for(_codings_of(answer.headers))
        pieces: list[bytes] = []
        size, judged = 0, False
        limit = max(self._limits.body_bytes, most_bytes or 0)
        while raw := await self._next_piece():
            for piece in (raw,) if decoder is None else decoder.decode(raw):
                pieces.append(piece)
                size += len(piece)
                if not judged and size >= SNIFFED_BYTES:
                    judged = True
                    if not is_wanted(answer.status, answer.headers, b"".join(pieces)):
                        await self._discard()
                        return b"".join(pieces), False
                if most_bytes is not None and size >= most_bytes:
                    return b"".join(pieces)[:most_bytes], False
                _check_size(size, limit)
            # A stream that never decodes to any bytes must also end at the limit.
            _check_size(self.wire, limit)
        if decoder is not None:
            decoder.finish()
        return pieces[0] if len(pieces) == 1 else b"".join(pieces), True

    async def _next_piece(self) -> bytes:
        """Return the bytes that came over the wire since the last call; b"" at the end."""
        content = self._answer.content
        raw: bytes = await content.readany()
        self._note(raw)
        if not content.at_eof():
            self._keep_pace()
        return raw

    def _note(self, raw: bytes) -> None:
        self.wire += len(raw)
        if self._tee is not None:
            self._tee.add(raw)

    def _keep_pace(self) -> None:
        """Let the timer end the request when the average rate since the headers falls below the minimum."""
        limits = self._limits
        too_slow_at = self._begun + max(limits.least_rate_after, self.wire / limits.least_rate)
        self._timer.when = min(self._deadline, too_slow_at)

    async def _discard(self) -> None:
        """Read the rest of a body if it is short, so that the connection can be used again. Errors are ignored."""
        if self._answer.content.at_eof():
            return
        left = _DISCARDED_BYTES
        # This reading has its own deadline.
        self._timer.when = None
        with contextlib.suppress(TimeoutError, aiohttp.ClientError, HttpProcessingError, OSError):
            async with asyncio.timeout(_DISCARDED_SECONDS):
                while left > 0 and (raw := await self._answer.content.readany()):
                    self._note(raw)
                    left -= len(raw)


def _codings_of(headers: Mapping[str, str]) -> str:
    """
    Return the codings of a body, from Content-Encoding and Transfer-Encoding. The coding `chunked` is left out, because
    it is already decoded.
    """
    content, transfer = headers.get("Content-Encoding", ""), headers.get("Transfer-Encoding", "")
    if transfer in {"", "chunked"}:
        return content
    return ",".join([content, *(name for name in transfer.split(",") if name.strip().lower() != "chunked")])


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise FetchFailed("TOO_LARGE", f"over {limit} bytes")


def _socket(address: aiohttp.AddrInfoType) -> socket.socket:
    family, kind, proto, _, _ = address
    return socket.socket(family=family, type=kind, proto=proto)


def _public_socket(address: aiohttp.AddrInfoType) -> socket.socket:
    """Return the socket for an address to connect to. Raise an error if the address is not public."""
    if not is_public(str(address[4][0])):
        raise AddressForbidden
    return _socket(address)


def _is_before(when: float | None, deadline: float) -> bool:
    return when is not None and when < deadline
