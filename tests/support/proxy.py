"""
A TCP proxy in front of PostgreSQL or a site. It can cut, heal and delay its connections, and lose answers.

It simulates a partition without network namespaces, with one difference: the kernels at both ends see a healthy
neighbour. So neither keepalives nor TCP's own timeouts end a connection that hangs here. A program that recovers from
this has its own timeouts, and also recovers from a lost machine.
"""

import asyncio
import contextlib
import dataclasses
import enum
import socket
import threading
from concurrent.futures import Future

from psycopg.conninfo import conninfo_to_dict, make_conninfo

_CHUNK = 65_536
# The message that ends and commits one transaction in PostgreSQL's pipeline.
SYNC = b"S\0\0\0\4"


class Direction(enum.Flag):
    """Directions of the bytes: `ASKED` towards the server, `ANSWERED` back to the client."""

    ASKED = enum.auto()
    ANSWERED = enum.auto()
    BOTH = ASKED | ANSWERED


class Proxy:
    """
    A proxy that listens on a loopback `port` and forwards to `target`: the path of a socket, or (host, port).

    It runs in its own thread. All methods may be called from other threads, and return when they have taken effect.
    """

    def __init__(self, target):
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="proxy", daemon=True)
        self._thread.start()
        self._calls = set()
        self._marks = []
        self._rewritten = []
        self._delay = 0.0
        self._flows = {}
        self._server = None
        self.port = self._do(self._open)

    @classmethod
    def of_database(cls, dsn):
        """Return a proxy in front of the server of a libpq address."""
        facts = conninfo_to_dict(dsn)
        host, port = str(facts.get("host", "")), int(facts.get("port", 5432))
        return cls(f"{host}/.s.PGSQL.{port}" if host.startswith("/") else (host, port))

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self._do(self._close)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def dsn(self, dsn):
        """Return the address of the same database through this proxy."""
        return make_conninfo(dsn, host="127.0.0.1", port=self.port)

    def cut(self, direction=Direction.BOTH, *, refuses=False):
        """
        Stop all bytes in this direction. Open connections hang, and new ones hang or are refused (`refuses`).

        Bytes that arrive meanwhile are kept, so a connection that is healed soon loses nothing.
        """
        self._do(self._set_flow, direction, False)
        if refuses:
            self._do(self._refuse)

    def delay(self, seconds):
        """Delay all bytes from now on, in both directions."""
        self._do(self._set_delay, seconds)

    def heal(self):
        """Forward everything again immediately, including the kept bytes."""
        self._do(self._set_delay, 0.0)
        self._do(self._accept)
        self._do(self._set_flow, Direction.BOTH, True)

    def kill(self):
        """Reset all open connections at both ends, and lose the kept bytes. Return the number of connections."""
        return self._do(self._kill)

    def lose_answer(self, asked):
        """
        Send the next bytes that contain `asked` (such as b"COMMIT") to the server, and reset the connection instead of
        forwarding the answer. The request is then done, and the client cannot know.

        Return a future that is done when this has happened.
        """
        lost = Future()
        self._do(self._marks.append, (asked, lost))
        return lost

    def keep_answers(self):
        """Lose no more answers. A loss that has not happened yet is cancelled."""
        self._do(self._marks.clear)

    def rewrite(self, asked, instead):
        """
        Send `instead` to the server wherever a client sends `asked`, like a faulty network device. Both have the same
        length.
        """
        assert len(asked) == len(instead)
        self._do(self._rewritten.append, (asked, instead))

    @property
    def connections(self):
        """Return the number of open connections."""
        return self._do(lambda: len(self._calls))

    # --- In the loop's thread --------------------------------------------------------------------

    def _do(self, function, *arguments):
        async def call():
            made = function(*arguments)
            return await made if asyncio.iscoroutine(made) else made

        return asyncio.run_coroutine_threadsafe(call(), self._loop).result(10)

    async def _open(self):
        for direction in Direction:
            self._flows[direction] = asyncio.Event()
            self._flows[direction].set()
        await self._accept(port=0)
        return self._server.sockets[0].getsockname()[1]

    async def _accept(self, port=None):
        if self._server is None:
            self._server = await asyncio.start_server(
                self._converse, "127.0.0.1", self.port if port is None else port, limit=_CHUNK
            )

    def _refuse(self):
        if self._server is not None:
            self._server.close()
            self._server = None

    def _set_flow(self, direction, flows):
        for one in direction:
            (self._flows[one].set if flows else self._flows[one].clear)()

    def _set_delay(self, seconds):
        self._delay = seconds

    def _kill(self):
        for call in self._calls:
            call.reset()
        return len(self._calls)

    async def _close(self):
        self._refuse()
        self._kill()
        while self._calls:
            await asyncio.gather(*(call.task for call in self._calls), return_exceptions=True)

    async def _converse(self, reader, writer):
        call = _Call(asyncio.current_task(), [writer])
        self._calls.add(call)
        try:
            # A new connection hangs like an old one: it is accepted, and gets no answer.
            await self._flows[Direction.ASKED].wait()
            server_reader, server_writer = await self._connect()
            call.writers.append(server_writer)
            await asyncio.gather(
                self._hand_on(reader, server_writer, Direction.ASKED, call),
                self._hand_on(server_reader, writer, Direction.ANSWERED, call),
            )
        except (OSError, asyncio.CancelledError):
            call.abort()
        finally:
            self._calls.discard(call)
            for open_ in call.writers:
                open_.close()

    async def _connect(self):
        if isinstance(self._target, str):
            return await asyncio.open_unix_connection(self._target)
        return await asyncio.open_connection(*self._target)

    async def _hand_on(self, reader, writer, direction, call):
        flow = self._flows[direction]
        while data := await reader.read(_CHUNK):
            if self._delay:
                await asyncio.sleep(self._delay)
            await flow.wait()
            if direction is Direction.ASKED:
                self._look_for_marks(data, call)
                for asked, instead in self._rewritten:
                    data = data.replace(asked, instead)
            elif call.lost is not None:
                call.lost.set_result(None)
                call.reset()
                return
            writer.write(data)
            await writer.drain()
        await flow.wait()
        with contextlib.suppress(OSError):
            writer.write_eof()

    def _look_for_marks(self, data, call):
        for mark in self._marks:
            asked, lost = mark
            if asked in data:
                self._marks.remove(mark)
                call.lost = lost
                return


@dataclasses.dataclass(eq=False)
class _Call:
    """One connection through the proxy: its task, and its open ends."""

    task: asyncio.Task
    writers: list[asyncio.StreamWriter]
    lost: Future | None = None

    def reset(self):
        """End the connection with a TCP reset instead of a close."""
        self.abort()
        self.task.cancel()

    def abort(self):
        for writer in self.writers:
            peer = writer.transport.get_extra_info("socket")
            if peer is not None and peer.family == socket.AF_INET:
                with contextlib.suppress(OSError):
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
            writer.transport.abort()


@contextlib.contextmanager
def silent_database(dsn, *, given_to):
    """
    Put a proxy in front of a database, and call `given_to` with the address of the proxy. After that, the proxy holds
    back all bytes.
    """
    with Proxy.of_database(dsn) as proxy:
        given_to(proxy.dsn(dsn))
        proxy.cut()
        yield
