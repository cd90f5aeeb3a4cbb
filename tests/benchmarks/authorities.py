"""
Measures the authority service: `python -m tests.benchmarks.authorities`.

`runauthority` asks 12 authorities, each of which answers after 20 milliseconds. The first figure is the time of a
request about a new user, so nothing is in the cache. The second one is the number of requests a second about users that
are in the cache, over several connections. The exit code is non-zero if a request about a new user takes longer than 40
milliseconds (median), or if there are fewer than 500 requests a second.
"""

import argparse
import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import aiohttp
import django

from tests.benchmarks import databases
from tests.benchmarks.databases import ROOT

_AUTHORITIES: Final = 12
_SECONDS: Final = 0.02
_MOST_SECONDS: Final = 0.04
_LEAST_A_SECOND: Final = 500.0
# Largest number of simultaneous questions: to all authorities for two requests. With the default of 10, 12 authorities
# take two rounds.
_CHECKS: Final = 24
_KIND: Final = "tests.support.slow_authority:SLOW"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="authorities", description="Measure the authority service.")
    parser.add_argument("--questions", type=int, default=200, help="requests about new users (%(default)s)")
    parser.add_argument("--users", type=int, default=500, help="users in the cache (%(default)s)")
    parser.add_argument("--connections", type=int, default=8, help="connections at once (%(default)s)")
    parser.add_argument("--seconds", type=float, default=10, help="seconds of requests to the cache (%(default)s)")
    options = parser.parse_args(arguments)
    home = ROOT / "var" / "bench"
    home.mkdir(parents=True, exist_ok=True)
    with (
        tempfile.TemporaryDirectory(prefix="authorities-", dir=home) as name,
        databases.embedded(Path(name)) as database,
    ):
        os.environ.update(database.environment)
        os.environ.update({"CRAWLCTL_AUTHORITIES": _KIND, "CRAWLCTL_AUTHORITY_CHECKS": str(_CHECKS)})
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "crawlctl.settings")
        django.setup()
        token = _set_up()
        with _running() as address:
            return asyncio.run(_measure(address, token, options))


def _set_up() -> str:
    from jobs.authorities import verbs
    from jobs.authorities.models import AuthorityConnection

    group = verbs.create_group(name="g", made_by="a benchmark").pk
    for number in range(_AUTHORITIES):
        verbs.create(
            AuthorityConnection,
            name=f"authority {number}",
            kind="slow",
            group=group,
            configuration={"seconds": _SECONDS},
            made_by="a benchmark",
        )
    return verbs.create_token(name="a benchmark", made_by="a benchmark")[1]


@contextlib.contextmanager
def _running() -> Iterator[str]:
    command = [sys.executable, "manage.py", "runauthority", "--port", "0"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


async def _measure(address: str, token: str, options: argparse.Namespace) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with aiohttp.ClientSession(headers=headers) as session:
        # The first request opens the connections.
        await _ask(session, address, "nobody")
        seconds = [await _ask(session, address, f"new {number}") for number in range(options.questions)]
        for number in range(0, options.users, 4):
            await asyncio.gather(*(_ask(session, address, f"user {number + more}") for more in range(4)))
        rate = await _rate(session, address, options)
    median, longest = statistics.median(seconds), statistics.quantiles(seconds, n=100)[98]
    sys.stdout.write(f"new user: median {median * 1000:.1f} ms, p99 {longest * 1000:.1f} ms\n")
    sys.stdout.write(f"cached users: {rate:,.0f} requests/s over {options.connections} connections\n")
    if median > _MOST_SECONDS:
        sys.stderr.write(f"a request about a new user takes more than {_MOST_SECONDS * 1000:.0f} ms\n")
    if rate < _LEAST_A_SECOND:
        sys.stderr.write(f"fewer than {_LEAST_A_SECOND:.0f} requests/s\n")
    return int(median > _MOST_SECONDS or rate < _LEAST_A_SECOND)


async def _rate(session: aiohttp.ClientSession, address: str, options: argparse.Namespace) -> float:
    began = time.monotonic()
    ends = began + options.seconds

    async def client(number: int) -> int:
        done = 0
        while time.monotonic() < ends:
            await _ask(session, address, f"user {(number * 61 + done) % options.users}")
            done += 1
        return done

    done = await asyncio.gather(*map(client, range(options.connections)))
    return sum(done) / (time.monotonic() - began)


async def _ask(session: aiohttp.ClientSession, address: str, user: str) -> float:
    began = time.monotonic()
    async with session.get(address, params={"username": user}) as answer:
        text = await answer.text()
        assert answer.status == 200, text
    taken = time.monotonic() - began
    assert text.count("AUTHORIZED:") == _AUTHORITIES, text
    return taken


if __name__ == "__main__":
    sys.exit(main())
