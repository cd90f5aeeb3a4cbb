"""
The proof of control by a file on the host, read with the fetcher of crawls.

It connects to public addresses only, follows no redirect, and reads a few bytes. It tries https first, and then http,
because the certificates of some hosts cannot be checked. Plain http is safe enough, because a false proof can only slow
the crawler down.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from jobs.connectors.repository.web.fetch import Fetcher, FetchFailed, Response
from jobs.settings.table import USER_AGENT
from nodes.settings.running import current

# Time limits of one request and of both together (seconds), and the number of bytes that are read of the file.
_SECONDS: Final = 5.0
_DEADLINE: Final = 12.0
_MOST_BYTES: Final = 1_024


def problem_of_file(host: str, path: str, token: str, *, fetcher: Callable[[], Fetcher] = Fetcher) -> str:
    """
    Return the reason why the file of a host does not prove control, as a sentence; '' if it does. It blocks for some
    seconds.
    """
    return asyncio.run(_problem(host, path, token, fetcher))


async def _problem(host: str, path: str, token: str, make: Callable[[], Fetcher]) -> str:
    problems = []
    try:
        async with asyncio.timeout(_DEADLINE), make() as fetcher:
            for scheme in ("https", "http"):
                problem = await _problem_at(f"{scheme}://{host}{path}", token, fetcher)
                if not problem:
                    return ""
                problems.append(problem)
    except TimeoutError:
        problems.append("The host answered too slowly.")
    return " ".join(problems)


async def _problem_at(address: str, token: str, fetcher: Fetcher) -> str:
    try:
        response: Response = await fetcher.fetch(
            address,
            headers={"User-Agent": current()[USER_AGENT], "Accept": "text/plain"},
            is_wanted=lambda status, _headers, _first: status == 200,
            most_bytes=_MOST_BYTES,
            most_seconds=_SECONDS,
        )
    except FetchFailed as failed:
        return f"{address} could not be read ({failed.code})."
    if response.status != 200:
        return f"{address} answered {response.status}. Redirects are not followed."
    return "" if response.body.strip() == token.encode() else f"{address} has another text."
