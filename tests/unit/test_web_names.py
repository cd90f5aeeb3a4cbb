"""Proves that host names are looked up in reused threads, and that a slow name does not delay others."""

import asyncio
import socket
import threading

import pytest

from jobs.connectors.repository.web import names
from jobs.connectors.repository.web.names import ThreadedNames


@pytest.fixture
async def resolver():
    resolver = ThreadedNames()
    yield resolver
    await resolver.close()


async def test_the_addresses_of_a_host_name_are_found(resolver):
    rows = await resolver.resolve("localhost", 80)

    assert ("127.0.0.1", 80) in {(row["host"], row["port"]) for row in rows}


async def test_a_name_without_an_address_fails_no_other_name(resolver, monkeypatch):
    def look_up(host, port, family):
        if host == "bad.test":
            raise socket.gaierror(socket.EAI_NONAME, "no")
        return [] if host == "empty.test" else [{"host": "127.0.0.1", "port": port}]

    monkeypatch.setattr(names, "_look_up", look_up)
    results = await asyncio.gather(
        *(resolver.resolve(f"{name}.test", 80) for name in ("bad", "empty", "good")), return_exceptions=True
    )

    assert isinstance(results[0], socket.gaierror)
    assert isinstance(results[1], OSError)
    assert results[2][0]["host"] == "127.0.0.1"


async def test_names_without_an_answer_delay_no_other_name(resolver, monkeypatch):
    answer = threading.Event()

    def look_up(host, port, family):
        if host.startswith("dead"):
            answer.wait(60)
        return [{"host": "127.0.0.1", "port": port}]

    monkeypatch.setattr(names, "_look_up", look_up)
    dead = [asyncio.create_task(resolver.resolve(f"dead{n}.test")) for n in range(20)]

    assert await asyncio.wait_for(resolver.resolve("alive.test"), timeout=5)

    for task in dead[:10]:
        task.cancel()
    answer.set()
    assert len(await asyncio.gather(*dead[10:])) == 10


async def test_a_thread_that_has_resolved_a_name_is_used_again(resolver, monkeypatch):
    monkeypatch.setattr(names, "_look_up", lambda host, port, family: [{"host": "127.0.0.1", "port": port}])

    for _ in range(50):
        await resolver.resolve("a.test")

    assert resolver._threads <= 5
