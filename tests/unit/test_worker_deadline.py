"""Proves that a `Deadline` is due at the earliest of all requested moments."""

import asyncio

import uvloop

from jobs.loops.worker.deadline import Deadline


def test_the_earliest_of_several_requested_moments_counts() -> None:
    async def wait_for_it() -> float:
        loop, event = asyncio.get_running_loop(), asyncio.Event()
        due = Deadline(loop, event)
        began = loop.time()
        due.within(60.0)
        due.within(0.01)
        due.within(30.0)
        await event.wait()
        assert due.is_over
        return loop.time() - began

    assert asyncio.run(wait_for_it()) < 5.0


def test_a_cleared_moment_does_not_fire() -> None:
    async def look() -> bool:
        event = asyncio.Event()
        due = Deadline(asyncio.get_running_loop(), event)
        due.within(0.0)
        due.clear()
        await asyncio.sleep(0)
        return due.is_over or event.is_set()

    assert not asyncio.run(look())


def test_a_request_for_now_is_due_immediately() -> None:
    async def look() -> bool:
        event = asyncio.Event()
        due = Deadline(asyncio.get_running_loop(), event)
        due.now()
        return due.is_over and event.is_set()

    assert asyncio.run(look())


def test_a_due_time_shows_whether_it_is_near() -> None:
    async def look() -> list[bool]:
        due = Deadline(asyncio.get_running_loop(), asyncio.Event())
        before = due.comes_within(100.0)
        due.within(50.0)
        near = [due.comes_within(100.0), due.comes_within(10.0)]
        due.clear()
        return [before, *near, due.comes_within(100.0)]

    assert asyncio.run(look()) == [False, True, False, False]


def test_a_request_for_now_is_due_immediately_on_the_loop_of_workers() -> None:
    async def look() -> list[bool]:
        due = Deadline(asyncio.get_running_loop(), asyncio.Event())
        due.within(0.0)
        due.within(1.0)
        return [due.is_requested, due.comes_within(0.1)]

    assert uvloop.run(look()) == [True, True]


def test_an_open_request_is_known_until_it_is_done() -> None:
    async def look() -> list[bool]:
        due = Deadline(asyncio.get_running_loop(), asyncio.Event())
        seen = [due.is_requested]
        for ask in (lambda: due.within(60.0), due.now):
            ask()
            seen.append(due.is_requested)
            due.clear()
            seen.append(due.is_requested)
        return seen

    assert asyncio.run(look()) == [False, True, False, True, False]
