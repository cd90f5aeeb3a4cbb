"""
HTTP/1.1 with limits on the time in which a client sends a request, and takes the answer.

uvicorn waits without a limit for the rest of a request, and for a client that reads nothing more. So a visitor without
a login could hold all connections that the server may have open. A client that stops reading a download would hold its
view. A proxy in front of the server has such limits, but not each installation has a proxy.
"""

import asyncio
from typing import ClassVar, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

# Names of h11 for the states of the client before the end of its head, and of its body.
_HEAD: Final = "IDLE"
_BODY: Final = "SEND_BODY"


class PatientProtocol(H11Protocol):
    """Closes the connection of a client that sends its request or takes its answer too slowly."""

    # Time for the head of a request, from the start of the connection or the end of the answer before it (seconds).
    head_within: ClassVar[float] = 30.0
    # Time for the body (seconds). The longest body needs 55 kB/s.
    body_within: ClassVar[float] = 300.0
    # Time in which a client must take some of an answer that waits for it (seconds), and that amount (bytes).
    taken_within: ClassVar[float] = 60.0
    least_taken: ClassVar[int] = 32_768

    _awaited: str = ""
    _limit: asyncio.TimerHandle | None = None
    _next_look: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._follow()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._follow()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._follow()
        # The rest of an answer is in the buffer, which a closed connection keeps until the client took it.
        self._watch_buffer()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_buffer()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end_watch()

    def connection_lost(self, exc: Exception | None) -> None:
        self._await("")
        self._end_watch()
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

    def _watch_buffer(self) -> None:
        """
        Check the buffer of the connection at intervals, until it is empty, or the client has taken too little of it.
        """
        self._end_watch()
        left = self.transport.get_write_buffer_size()
        if left:
            self._next_look = self.loop.call_later(self.taken_within, self._look_at_buffer, left)

    def _look_at_buffer(self, before: int) -> None:
        left = self.transport.get_write_buffer_size()
        if left and before - left < self.least_taken:
            # Not `close`, which waits for the client to take the rest.
            self.transport.abort()
        else:
            self._watch_buffer()

    def _end_watch(self) -> None:
        if self._next_look is not None:
            self._next_look.cancel()
            self._next_look = None
