"""
The synthetic site's own log: its requests, in order, as the site saw them.

One line for each request, its fields separated by tabs:

    time    nanoseconds of the machine's monotonic clock, when the request had arrived
    host    address and port to which it was sent
    path    as in the request
    status  of the answer
    open    unanswered requests of this host at that time, including this one
    method
    agent   its User-Agent, which distinguishes several crawlers

Requests for robots.txt are logged like all others. Requests below /-/ are not logged.

A second log may record the end of each request, answered or given up. There `status` is 0 for a client that left
without its answer, `open` does not count the request any more, and a line has one more field:

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
    """Writes the log, from its beginning. Lines reach the file with the next flush at the latest."""

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
        Write a line for an event `at` these nanoseconds of the monotonic clock.

        Pass `size` only if it is known. `path`, `method` and `agent` must not contain control characters.
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

    The site may still be writing: an incomplete last line is left out.
    """
    with path.open(encoding="latin-1", newline="\n") as lines:
        for line in islice(lines, skip, None):
            if not line.endswith("\n"):
                return
            at, host, requested, status, open_requests, method, agent, *size = line[:-1].split("\t")
            yield LoggedRequest(
                int(at), host, requested, int(status), int(open_requests), method, agent, *map(int, size)
            )
