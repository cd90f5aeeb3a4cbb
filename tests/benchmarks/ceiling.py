"""
The fastest durable crawl loop that we know how to write. It leaves out most of a crawler, so its speed is an upper
bound for ours.

Two processes claim addresses from one table, fetch, parse, and write the absent links before they mark their pages
done, each in batches. There is no robots.txt, pace, redirect, encoding, limit, output, retry, owner, history or count.
Started by `python -m tests.benchmarks.ceiling START_URL DATABASE CONNECTIONS`.
"""

import asyncio
import multiprocessing
import sys
from collections import deque
from hashlib import blake2b

import aiohttp
import psycopg
import turbohtml
import uvloop
from ada_url import join_url

PROCESSES = 2
_BATCH = 100
# Largest number of keys that a process remembers as written. At this number it clears its memory.
_REMEMBERED = 200_000
_PAUSE = 0.005

_TABLE = """
CREATE TABLE ceiling (key uuid PRIMARY KEY, url text NOT NULL, state smallint NOT NULL, priority float NOT NULL);
CREATE INDEX ceiling_waiting ON ceiling (priority) WHERE state = 0;
"""
_ADD = """
INSERT INTO ceiling (key, url, state, priority)
SELECT key, url, 0, random() FROM unnest(%b::text[]::uuid[], %b::text[]) AS found(key, url) ORDER BY key
ON CONFLICT (key) DO NOTHING
"""
_CLAIM = """
UPDATE ceiling SET state = 1
 WHERE key IN (SELECT key FROM ceiling WHERE state = 0 ORDER BY priority LIMIT %b FOR UPDATE SKIP LOCKED)
RETURNING key, url
"""
_END = "UPDATE ceiling SET state = 2 WHERE key = ANY(%b::uuid[])"
_LEFT = "SELECT EXISTS (SELECT FROM ceiling WHERE state < 2)"


def main(start: str, database: str, connections: int) -> int:
    with psycopg.connect(database, autocommit=True) as connection:
        connection.execute(_TABLE)
        connection.execute(_ADD, ([_key_of(start)], [start]), binary=True)
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_run, args=(database, connections // PROCESSES)) for _ in range(PROCESSES)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    return max(process.exitcode or 0 for process in processes)


def _run(database: str, connections: int) -> None:
    uvloop.run(_Crawl(connections).run(database))


class _Crawl:
    """One of the two processes."""

    def __init__(self, connections: int) -> None:
        self._connections = connections
        self._waiting: deque[tuple[object, str]] = deque()
        self._ended: list[object] = []
        self._found: dict[str, str] = {}
        self._known: set[str] = set()
        self._wanted = asyncio.Semaphore(0)
        self._under_way = 0

    async def run(self, database: str) -> None:
        queue = await psycopg.AsyncConnection.connect(database, autocommit=True)
        connector = aiohttp.TCPConnector(limit=0)
        async with (
            queue,
            aiohttp.ClientSession(
                connector=connector, auto_decompress=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as web,
        ):
            readers = [asyncio.create_task(self._read(web)) for _ in range(self._connections)]
            await self._feed(queue)
            for reader in readers:
                reader.cancel()

    async def _read(self, web: aiohttp.ClientSession) -> None:
        while True:
            await self._wanted.acquire()
            key, url = self._waiting.popleft()
            self._under_way += 1
            async with web.get(url, allow_redirects=False) as response:
                body = await response.read()
            links = {
                join_url(url, href).partition("#")[0]
                for link in turbohtml.parse(body.decode(), positions=False).iter_elements("a")
                if (href := link.attr("href"))
            }
            for found in links:
                named = _key_of(found)
                if named not in self._known:
                    self._known.add(named)
                    self._found[named] = found
            self._ended.append(key)
            self._under_way -= 1

    async def _feed(self, queue: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        while True:
            is_busy = self._under_way or self._waiting
            if len(self._ended) >= _BATCH or (self._ended and not is_busy):
                await self._write(queue)
            if len(self._waiting) >= self._connections:
                await asyncio.sleep(_PAUSE / 5)
                continue
            claimed = await (await queue.execute(_CLAIM, (_BATCH,), binary=True)).fetchall()
            self._waiting.extend((key, str(url)) for key, url in claimed)
            for _ in claimed:
                self._wanted.release()
            if not claimed:
                if not is_busy and not self._ended and not await self._is_left(queue):
                    return
                await asyncio.sleep(_PAUSE)

    async def _write(self, queue: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        found, ended = self._found, self._ended
        self._found, self._ended = {}, []
        if len(self._known) > _REMEMBERED:
            self._known.clear()
        # Links are written before their pages are marked done, in two transactions. So a crash repeats work but loses
        # none, and the two processes do not wait for each other.
        await queue.execute(_ADD, (list(found), list(found.values())), binary=True)
        await queue.execute(_END, (ended,), binary=True)

    async def _is_left(self, queue: psycopg.AsyncConnection[tuple[object, ...]]) -> bool:
        row = await (await queue.execute(_LEFT)).fetchone()
        assert row is not None
        return bool(row[0])


def _key_of(url: str) -> str:
    return blake2b(url.encode(), digest_size=16).hexdigest()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
