"""
HTTP/1.1 with a limit on the time in which a client sends a request.

uvicorn waits for the rest of a request without a limit. So a visitor without a login could hold each connection that
the server may have open. A proxy in front of the server has such limits, but not each installation has a proxy.
"""

import asyncio
from typing import ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

# Names of h11 for the states of the client before the end of its head, and of its body.
_HEAD: Final = "IDLE"
_BODY: Final = "SEND_BODY"


class PatientProtocol(H11Protocol):
    """Closes the connection of a client that sends its request too slowly."""

    # Time for the head of a request, from the start of the connection or the end of the answer before it (seconds).
    head_within: ClassVar[float] = 30.0
    # Time for the body (seconds). The longest body needs 55 kB/s.
    body_within: ClassVar[float] = 300.0

    _awaited: str = ""
    _limit: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._follow()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("")
        super().connection_lost(exc)

    def _follow(self) -> None:
        """Begin a new limit if the client has begun another part of a request."""
        state = str(self.conn.their_state)
        self._await(state if state in {_HEAD, _BODY} and not self.transport.is_closing() else "")

    def _await(self, state: str) -> None:
        if state == self._awaited:
            return
        if self._limit is not None:
            self._limit.cancel()
        self._awaited, self._limit = state, None
        if state:
            within = self.head_within if state == _HEAD else self.body_within
            self._limit = self.loop.call_later(within, self.transport.close)
