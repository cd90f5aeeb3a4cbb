"""
The synthetic site's own log: what was asked for, in order, as the site saw it.

One line for each request, its fields separated by tabs:

    time    nanoseconds of the machine's monotonic clock, when the request had arrived
    host    address and port that it was sent to
    path    as in the request
    status  of the answer
    open    requests of this host then unanswered, this one included
    method
    agent   its User-Agent, which tells who of several asked

Requests for robots.txt are logged like all others, those below /-/ are not.

A second log may tell of the end of each request: when it was answered or given up. There `status` is 0 for a client
that left without its answer, `open` does not count the request any more, and a line has one field more:

    size    bytes of the body that was sent
"""

from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple


class LoggedRequest(NamedTuple):
    time: int
    host: str
    path: str
    status: int
    open_requests: int
    method: str
    agent: str
    size: int = 0

    @property
    def url(self) -> str:
        return f"http://{self.host}{self.path}"


class RequestLog:
    """Writes the log, from its beginning; lines reach the file with the next flush at the latest."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("wb")
        self.lines = 0

    def write(
        self,
        *,
        at: int,
        host: str,
        path: str,
        status: int,
        open_requests: int,
        method: str,
        agent: str,
        size: int | None = None,
    ) -> None:
        """
        Write a line of what happened `at` these nanoseconds of the monotonic clock.

        `size` only if it is known; neither `path`, `method` nor `agent` may hold a control character.
        """
        line = f"{at}\t{host}\t{path}\t{status}\t{open_requests}\t{method}\t{agent}"
        self._file.write((line if size is None else f"{line}\t{size}").encode("latin-1") + b"\n")
        self.lines += 1

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self._file.close()


def read_log(path: Path, *, skip: int = 0) -> Iterator[LoggedRequest]:
    """
    Yield the requests of a site's log without the first `skip`.

    The site may still be writing: a last line without its end is left out.
    """
    with path.open(encoding="latin-1", newline="\n") as lines:
        for line in islice(lines, skip, None):
            if not line.endswith("\n"):
                return
            at, host, requested, status, open_requests, method, agent, *size = line[:-1].split("\t")
            yield LoggedRequest(
                int(at), host, requested, int(status), int(open_requests), method, agent, *map(int, size)
            )
