"""Proves that deadlines, which share one timer, end only the code that they surround."""

import asyncio
import time

import pytest
import uvloop

from jobs.connectors.repository.web.deadlines import Deadlines


def run(test):
    """Run a test with deadlines; return what it returns and the seconds that it took."""

    async def main():
        began_at = time.monotonic()
        return await test(Deadlines(), asyncio.get_running_loop()), time.monotonic() - began_at

    return uvloop.run(main())


def test_code_that_passes_its_deadline_ends_with_a_timeout():
    async def test(deadlines, loop):
        with pytest.raises(TimeoutError):
            async with deadlines.at(loop.time() + 0.1):
                await asyncio.sleep(60)
        assert asyncio.current_task().cancelling() == 0

    _, seconds = run(test)
    # Two clocks are read, a moment apart.
    assert 0.09 <= seconds < 10


def test_code_that_ends_in_time_is_not_disturbed_later():
    async def test(deadlines, loop):
        async with deadlines.at(loop.time() + 0.05) as deadline:
            pass
        await asyncio.sleep(0.2)
        return deadline.has_expired

    assert run(test)[0] is False


def test_a_deadline_that_is_moved_to_later_ends_nothing():
    async def test(deadlines, loop):
        async with deadlines.at(loop.time() + 0.05) as deadline:
            deadline.when = None
            await asyncio.sleep(0.2)
        return deadline.has_expired

    assert run(test)[0] is False


def test_each_of_many_deadlines_ends_its_own_code():
    async def test(deadlines, loop):
        async def wait(seconds):
            try:
                async with deadlines.at(loop.time() + seconds):
                    await asyncio.sleep(0.5)
            except TimeoutError:
                return "late"
            return "in time"

        return await asyncio.gather(wait(0.1), wait(30), wait(0.2))

    assert run(test)[0] == ["late", "in time", "late"]


def test_a_task_that_was_cancelled_from_elsewhere_stays_cancelled():
    async def test(deadlines, loop):
        async def wait():
            async with deadlines.at(loop.time() + 60):
                await asyncio.sleep(60)

        task = loop.create_task(wait())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    run(test)
