"""Proves that idle connections are reused while they are open, and otherwise closed a few at a time."""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

from jobs.connectors.repository.web.kept_connections import KeptConnections

ORIGIN, OTHER = "https://a.example", "https://b.example"


class FakeConnection:
    def __init__(self):
        self.closed = False
        self.protocol = SimpleNamespace(should_close=False)

    def close(self):
        self.closed = True


def on_a_loop(test):
    async def run():
        return await test(asyncio.get_running_loop())

    return asyncio.run(run())


def test_the_latest_connection_is_reused_by_only_one_request():
    async def keep_two(loop):
        kept, first, last = KeptConnections(loop), FakeConnection(), FakeConnection()
        kept.keep(ORIGIN, first)
        kept.keep(ORIGIN, last)
        return kept.take(OTHER), kept.take(ORIGIN) is last, kept.take(ORIGIN) is first, kept.take(ORIGIN)

    assert on_a_loop(keep_two) == (None, True, True, None)


def test_a_connection_closed_by_the_server_is_not_reused():
    async def lose_one(loop):
        kept, open_, lost = KeptConnections(loop), FakeConnection(), FakeConnection()
        kept.keep(ORIGIN, open_)
        kept.keep(ORIGIN, lost)
        lost.closed = True
        return kept.take(ORIGIN) is open_, len(kept)

    assert on_a_loop(lose_one) == (True, 0)


def test_a_connection_with_unexpected_bytes_is_closed():
    async def receive_unexpected_bytes(loop):
        kept, spoken = KeptConnections(loop), FakeConnection()
        kept.keep(ORIGIN, spoken)
        spoken.protocol.should_close = True
        return kept.take(ORIGIN), spoken.closed

    assert on_a_loop(receive_unexpected_bytes) == (None, True)


def test_the_longest_unused_connection_is_closed_if_there_are_too_many():
    async def keep_three(loop):
        kept, connections = KeptConnections(loop, most=2), [FakeConnection() for _ in range(3)]
        for number, connection in enumerate(connections):
            kept.keep(f"https://{number}.example", connection)
        return [connection.closed for connection in connections]

    assert on_a_loop(keep_three) == [True, False, False]


def test_unused_connections_are_closed_a_few_at_a_time():
    async def leave_idle(loop):
        kept, connections = KeptConnections(loop, idle_seconds=0.0), [FakeConnection() for _ in range(100)]
        for connection in connections:
            kept.keep(ORIGIN, connection)
        steps = [0]
        while steps[-1] < len(connections):
            await asyncio.sleep(0)
            if (closed := sum(connection.closed for connection in connections)) > steps[-1]:
                steps.append(closed)
        return max(after - before for before, after in pairwise(steps)), len(kept)

    at_once, left = on_a_loop(leave_idle)

    assert at_once < 20
    assert left == 0


def test_all_connections_are_closed_at_the_end():
    async def close(loop):
        kept, connection = KeptConnections(loop), FakeConnection()
        kept.keep(ORIGIN, connection)
        kept.close()
        return connection.closed, len(kept)

    assert on_a_loop(close) == (True, 0)
