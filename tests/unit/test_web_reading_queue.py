"""Proves the order in which pages that have arrived are read, and that other work of the loop goes on between them."""

import asyncio
from itertools import pairwise

import uvloop

from jobs.connectors.repository.web.reading_queue import ReadingQueue


def read_all(pages, *, meanwhile=lambda _read: None):
    """Let pages, as (name, seconds of its answer), arrive at once. Return the names in the order of their reading."""
    read = []

    async def main():
        queue = ReadingQueue()

        async def read_one(name, seconds):
            await queue.turn(seconds=seconds)
            read.append(name)

        tasks = [asyncio.create_task(read_one(*page)) for page in pages]
        await asyncio.sleep(0)
        while not all(task.done() for task in tasks):
            meanwhile(read)
            await asyncio.sleep(0)

    uvloop.run(main())
    return read


def test_pages_of_slow_hosts_are_read_first():
    arrived = [("first", 0.1), ("second", 0.1), *((f"fast {number}", 0.1) for number in range(10)), ("slow", 1.0)]

    read = read_all(arrived)

    assert set(read[:3]) == {"first", "second", "slow"}
    assert sorted(read) == sorted(name for name, _ in arrived)


def test_equal_pages_are_read_in_the_order_of_their_arrival():
    names = [f"page {number:02}" for number in range(40)]

    assert read_all([(name, 0.2) for name in names]) == names


def test_the_loop_does_other_work_between_pages():
    seen = []

    read_all([(f"page {number}", 0.1) for number in range(100)], meanwhile=lambda read: seen.append(len(read)))

    assert all(later - earlier <= 4 for earlier, later in pairwise(seen))


def test_a_page_that_is_no_longer_wanted_holds_up_no_other():
    async def main():
        queue = ReadingQueue()
        tasks = [asyncio.create_task(queue.turn(seconds=0.1)) for _ in range(20)]
        await asyncio.sleep(0)
        for task in tasks[5:15]:
            task.cancel()
        ended = await asyncio.gather(*tasks, return_exceptions=True)
        return [one is None for one in ended]

    assert uvloop.run(main()).count(True) >= 10


def test_a_page_alone_is_read_at_once():
    async def main():
        queue = ReadingQueue()
        turn = queue.turn(seconds=0.1)
        try:
            turn.send(None)
        except StopIteration:
            return True
        return False

    assert uvloop.run(main())
