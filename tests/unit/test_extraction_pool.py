"""
Proves with real child processes that extraction survives hostile files, and that the children end with their worker.
"""

import asyncio
import signal
import socket
import subprocess
import sys
from contextlib import asynccontextmanager
from pathlib import Path
from unittest.mock import ANY

import psutil
import pytest

from jobs.extraction.pool import ChildPool, ChildrenBroken, PoolLimits
from jobs.extraction.result import ExtractionFailed, Reason
from tests.support import files
from tests.support.waiting import wait_until

_WORK = "tests.support.hostile_work:HOSTILE"


@asynccontextmanager
async def children(*, work=_WORK, arguments=None, **limits):
    pool = ChildPool(
        PoolLimits(**{"processes": 1, "seconds": 1, "memory": 512, "output": 1, **limits}),
        work=work,
        arguments=arguments,
    )
    try:
        yield pool
    finally:
        await pool.close()


def files_open_in(process):
    return sorted(entry.name for entry in Path(f"/proc/{process}/fd").iterdir())


async def answer_of(pool, does, **facts):
    return (await pool.ask({"does": does, **facts}, b""))["said"]


async def test_a_child_reads_files_of_all_formats_without_opening_any():
    async with children(work="jobs.extraction.work:EXTRACTION", seconds=30) as pool:
        texts = [
            (await pool.extract(body)).text
            for body in (files.pdf("Rye"), files.docx("Rye"), files.xlsx(), files.odt("Rye"), files.outlook("Rye"))
        ]
        letter = await pool.extract(
            files.mail("Grün", attachments={"a.zip": files.zipped({"b.pdf": files.pdf("Rye")})})
        )
        greek = await pool.extract(
            "Σιτάρι και κριθάρι".encode("iso-8859-7"), content_type="text/plain; charset=iso-8859-7"
        )
        with pytest.raises(ExtractionFailed, match="The file is encrypted"):
            await pool.extract(files.pdf("x", is_encrypted=True))

    assert texts == ["Rye", "Rye", "Yields\nBarley 42.5 2023-03-15 tons", "Rye", "Rye"]
    assert [part.id for part in letter.parts] == ["a.zip", "a.zip!/b.pdf"]
    assert greek.text == "Σιτάρι και κριθάρι"


async def test_a_file_that_ends_its_child_fails_and_the_next_file_does_not():
    expected = {
        "exits": (Reason.CRASH, "exit code 3"),
        # On a busy machine, the limit of time ends the file before the limit of computing time does.
        "computes": (Reason.TIME, ANY),
        "hangs": (Reason.TIME, "no result within 4 s"),
        "allocates": (Reason.MEMORY, ""),
        "talks": (Reason.OUTPUT, "more than 1 MiB"),
        "prints_garbage": (Reason.CRASH, "SIGKILL"),
        "floods": (Reason.CRASH, "SIGKILL"),
        "nests": (Reason.CRASH, "SIGKILL"),
        "raises": (Reason.CRASH, "ZeroDivisionError"),
    }
    found, survivors = {}, []
    opened_before = files_open_in("self")
    async with children() as pool:
        for does in expected:
            with pytest.raises(ExtractionFailed) as failure:
                await answer_of(pool, does)
            found[does] = (failure.value.reason, failure.value.detail)
            survivors.append(await answer_of(pool, "answers"))
            assert len(pool.processes) == 1

    assert found == expected
    assert len(set(survivors)) == len(expected)
    assert files_open_in("self") == opened_before


async def test_a_reason_given_by_a_child_does_not_end_the_child():
    async with children() as pool:
        first = await answer_of(pool, "answers")
        with pytest.raises(ExtractionFailed, match="encrypted"):
            await answer_of(pool, "refuses")
        again = await answer_of(pool, "answers")

    assert first == again


async def test_a_reason_of_a_child_has_no_characters_that_postgresql_refuses():
    async with children() as pool:
        with pytest.raises(ExtractionFailed) as failure:
            await answer_of(pool, "mumbles")

    assert failure.value.detail == "ab?"


async def test_a_child_knows_charsets_without_an_alias():
    letter = files.mail("Rye").replace(b"The title", b"=?utf-8-sig?b?77u/R3LDvG4=?= =?idna?q?x?=")
    async with children(work="jobs.extraction.work:EXTRACTION", seconds=30) as pool:
        found = await pool.extract(letter)

    assert (found.title, found.text) == ("Grünx", "Rye")


async def test_a_hanging_file_delays_no_other_child():
    async with children(processes=2) as pool:
        hanging = asyncio.create_task(answer_of(pool, "hangs"))
        answers = [await answer_of(pool, "answers") for _ in range(3)]
        assert not hanging.done()
        with pytest.raises(ExtractionFailed):
            await hanging

    assert len(set(answers)) == 1


async def test_a_child_has_no_network_no_files_and_no_environment(monkeypatch):
    monkeypatch.setenv("CRAWLCTL_SECRET_KEY", "secret")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        async with children() as pool:
            tried = [
                await answer_of(pool, "connects", port=listener.getsockname()[1]),
                await answer_of(pool, "reads"),
                await answer_of(pool, "writes"),
            ]
            environment = await answer_of(pool, "environment")
            opened = files_open_in(pool.processes[0])

    assert tried == ["OSError"] * 3
    assert environment == ["LANG", "LC_ALL"]
    assert opened == ["0", "1", "2"]


async def test_no_child_runs_before_the_first_file_or_after_the_last():
    async with children() as pool:
        assert pool.processes == []
        child = psutil.Process(await answer_of(pool, "answers"))

    assert not child.is_running()


async def test_a_worker_that_stops_ends_the_child_of_an_open_file():
    async with children() as pool:
        hanging = asyncio.create_task(answer_of(pool, "hangs"))
        async with asyncio.timeout(60):
            while not pool.processes:  # noqa: ASYNC110 (a pool has no event for a test)
                await asyncio.sleep(0)
        child = psutil.Process(pool.processes[0])
        hanging.cancel()
        with pytest.raises(asyncio.CancelledError):
            await hanging
        assert not child.is_running()


async def test_children_that_cannot_start_are_no_fault_of_a_file():
    async with children(arguments={"breaks": True}) as pool:
        with pytest.raises(ChildrenBroken, match="ended at its start"):
            await answer_of(pool, "answers")


_WORKER = """
import asyncio, sys, uvloop
from jobs.extraction.pool import ChildPool, PoolLimits
async def work():
    pool = ChildPool(PoolLimits(processes=2, seconds=100), work="tests.support.hostile_work:HOSTILE")
    await pool.ask({"does": "answers"}, b"")
    computing = asyncio.create_task(pool.ask({"does": "computes"}, b""))
    await asyncio.sleep(0)
    await pool.ask({"does": "answers"}, b"")
    print(*pool.processes, flush=True)
    await computing
uvloop.run(work())
"""


def test_children_die_with_a_worker_that_is_killed():
    root = Path(__file__).resolve().parents[2]
    worker = subprocess.Popen([sys.executable, "-c", _WORKER], cwd=root, stdout=subprocess.PIPE, text=True)
    assert worker.stdout is not None
    with worker.stdout:
        found = [psutil.Process(int(number)) for number in worker.stdout.readline().split()]
    assert len(found) == 2

    worker.send_signal(signal.SIGKILL)
    worker.wait()

    wait_until(lambda: not any(child.is_running() for child in found))
