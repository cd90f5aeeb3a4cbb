"""
Serves a plan over HTTP/1.1, GET and HEAD, with keep-alive and pipelining.

The site runs on the same machine as the crawler that it measures. So it has its own protocol and no framework, and a
request costs only some 50 microseconds.

Requests below /-/ control the site and are not logged. Any host answers them:

    /-/set?revision=1&change=10&gone=4&broken=17    see crawlctl.demo.plan
    /-/set?revision=0                               back to the site without revisions
    /-/flush                                        writes all answers so far to the log's file

Both answer JSON: the revision, the number of log lines, and how many pages the revision changed.
"""

import asyncio
import json
import time
from dataclasses import dataclass
from email.utils import formatdate, parsedate_to_datetime
from functools import lru_cache, partial
from http import HTTPStatus
from typing import NamedTuple, cast
from urllib.parse import parse_qsl, urlsplit

from crawlctl.demo.log import RequestLog
from crawlctl.demo.page import PageWriter, write_robots
from crawlctl.demo.plan import Outline, Revision, SitePlan, Trap, path_of

# Last-Modified of a page that no revision changed (1 January 2025). Each revision is a day later.
_FIRST_DAY = 1_735_689_600
_ONE_DAY = 86_400

# Longest request head of a well-behaved client (bytes).
_LONGEST_HEAD = 65_536


@dataclass(frozen=True, kw_only=True)
class BusyHost:
    """A host that answers its first requests, except for robots.txt, with 429."""

    host: int  # index in the plan's origins
    answers: int
    retry_after: int  # seconds


@dataclass(frozen=True, kw_only=True)
class SlowPages:
    """One in `every` pages is answered after `latency` seconds."""

    every: int
    latency: float


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """The site's behaviour, independent of its content."""

    latency: float = 0  # seconds between a request and its answer
    crawl_delay: float | None = None  # seconds, in the robots.txt of every host
    busy: BusyHost | None = None
    slow: SlowPages | None = None


class Answer(NamedTuple):
    """An answer, to be sent after `latency` seconds."""

    status: int
    head: bytes
    body: bytes = b""
    latency: float = 0


class Asked(NamedTuple):
    """A logged request that has not ended."""

    path: str
    method: str
    agent: str
    answer: Answer


class Site:
    """The running site: its plan and its memory of the requests so far."""

    def __init__(self, *, plan: SitePlan, behaviour: Behaviour, log: RequestLog, ends: RequestLog) -> None:
        """`ends` is the log of how requests ended."""
        self.behaviour = behaviour
        self.open_requests = [0] * len(plan.origins)
        self._log, self._ends = log, ends
        self._host_names = [urlsplit(origin).netloc for origin in plan.origins]
        self._robots = write_robots(crawl_delay=behaviour.crawl_delay)
        self._busy_answers_left = behaviour.busy.answers if behaviour.busy else 0
        self._failed_once: set[int] = set()
        self._show(plan)

    def _show(self, plan: SitePlan) -> None:
        self._plan = plan
        self._writer = PageWriter(plan)

    def begin(self, *, method: str, path: str, head: bytes, host: int) -> Asked:
        """Count a request as open, compute its answer, and log it with its time of arrival."""
        # The time of arrival: the first pages take tens of milliseconds to compute, which is not the client's delay.
        arrived = time.monotonic_ns()
        self.open_requests[host] += 1
        answer = self._answer(method=method, path=path, head=head, host=host)
        answer = answer._replace(body=b"" if method == "HEAD" else answer.body, latency=self._latency(path, host))
        asked = Asked(path, method, _agent_of(head), answer)
        self._write(self._log, asked, at=arrived, host=host, status=answer.status)
        return asked

    def end(self, asked: Asked, *, host: int, is_answered: bool) -> None:
        """Note that a request has ended: it was answered, or its client left."""
        self.open_requests[host] -= 1
        status, size = (asked.answer.status, len(asked.answer.body)) if is_answered else (0, 0)
        self._write(self._ends, asked, at=time.monotonic_ns(), host=host, status=status, size=size)

    def _write(
        self, log: RequestLog, asked: Asked, *, at: int, host: int, status: int, size: int | None = None
    ) -> None:
        log.write(
            at=at,
            host=self._host_names[host],
            path=asked.path,
            status=status,
            open_requests=self.open_requests[host],
            method=asked.method,
            agent=asked.agent,
            size=size,
        )

    def _latency(self, path: str, host: int) -> float:
        slow = self.behaviour.slow
        if slow and (page := self._page_at(path, host)) is not None and page % slow.every == 0:
            return slow.latency
        return self.behaviour.latency

    def _answer(self, *, method: str, path: str, head: bytes, host: int) -> Answer:
        if method not in {"GET", "HEAD"}:
            return _plain(HTTPStatus.METHOD_NOT_ALLOWED, fields=b"Allow: GET, HEAD\r\n")
        if path == "/robots.txt":
            return _reply(HTTPStatus.OK, self._robots, kind=b"text/plain")
        busy = self.behaviour.busy
        if busy and busy.host == host and self._busy_answers_left:
            self._busy_answers_left -= 1
            return _plain(HTTPStatus.TOO_MANY_REQUESTS, fields=b"Retry-After: %d\r\n" % busy.retry_after)
        if (page := self._page_at(path, host)) is not None:
            return self._page(page, head)
        return self._trap(path, host)

    # Pages

    def _page_at(self, path: str, host: int) -> int | None:
        if path == "/":
            page = 0
        elif path.startswith("/p/") and path.endswith(".html"):
            page = _number(path[3:-5])
        else:
            return None
        return page if self._lives_on(page, host) and path == path_of(page) else None

    def _lives_on(self, page: int, host: int) -> bool:
        return 0 <= page < self._plan.pages and page % len(self.open_requests) == host

    def _page(self, page: int, head: bytes) -> Answer:
        if page == self._plan.broken:
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        if self._plan.is_gone(page):
            return _plain(HTTPStatus.NOT_FOUND)
        outline = self._plan.outline(page)
        if outline.is_flaky and page not in self._failed_once:
            self._failed_once.add(page)
            return _plain(HTTPStatus.INTERNAL_SERVER_ERROR)
        return self._page_or_not_modified(page, outline, head)

    def _page_or_not_modified(self, page: int, outline: Outline, head: bytes) -> Answer:
        revision = self._plan.modified_in(page)
        etag = b'"%x-%x"' % (page, self._plan.stamp(revision))
        validators = b"ETag: %s\r\nLast-Modified: %s\r\n" % (etag, _http_date(revision))
        if _is_unmodified(head, etag=etag, modified_at=_modified_at(revision)):
            return Answer(304, b"HTTP/1.1 304 Not Modified\r\n%s\r\n" % validators)
        return _reply(
            HTTPStatus.OK, self._writer.page(page, outline), kind=b"text/html; charset=utf-8", fields=validators
        )

    # Traps

    def _trap(self, path: str, host: int) -> Answer:
        name, _, number = path[1:].partition("/")
        page = _number(number)
        if not self._lives_on(page, host) or path != f"/{name}/{page}":
            return _plain(HTTPStatus.NOT_FOUND)
        outline = self._plan.outline(page)
        trap = next((trap for trap in outline.traps if trap == name), None)
        match trap:
            case Trap.REDIRECT:
                target = self._plan.url(outline.redirect_target).encode()
                return _plain(HTTPStatus.MOVED_PERMANENTLY, fields=b"Location: %s\r\n" % target)
            case Trap.PRIVATE:
                return _plain(HTTPStatus.OK)
            case Trap.MISSING | None:
                return _plain(HTTPStatus.NOT_FOUND)

    # Control

    def flush(self) -> None:
        """Write all logged lines to the logs' files."""
        self._log.flush()
        self._ends.flush()

    def control(self, path: str) -> Answer:
        """Execute the command of a path below /-/."""
        address = urlsplit(path)
        try:
            match address.path:
                case "/-/set":
                    self._set(dict(parse_qsl(address.query, strict_parsing=True)))
                case "/-/flush":
                    pass
                case _:
                    return _plain(HTTPStatus.NOT_FOUND)
        except ValueError as error:
            return _reply(HTTPStatus.BAD_REQUEST, f"{error}\n".encode(), kind=b"text/plain")
        self.flush()
        return _reply(HTTPStatus.OK, self._describe().encode(), kind=b"application/json")

    def _set(self, wanted: dict[str, str]) -> None:
        if unknown := wanted.keys() - {"revision", "change", "gone", "broken"}:
            raise ValueError(f"{', '.join(sorted(unknown))}: only revision, change, gone and broken can be set")
        if "revision" not in wanted:
            raise ValueError("revision is missing: set its number")
        number = int(wanted["revision"])
        broken = wanted.get("broken")
        revision = Revision(
            change=float(wanted.get("change", 0)),
            gone=float(wanted.get("gone", 0)),
            broken=None if broken is None else int(broken),
        )
        plan = self._plan.at_revision(number, revision) if number else self._plan.before_revisions()
        # Compute the revision now, so that an impossible one is refused here and not at the next request for a page.
        _ = plan.changes
        self._show(plan)

    def _describe(self) -> str:
        plan = self._plan
        touched = plan.changes[-1]._asdict() if plan.changes else {}
        return json.dumps(
            {
                "revision": len(plan.revisions),
                "log_lines": self._log.lines,
                **{name: len(pages) for name, pages in touched.items()},
            }
        )


class Connection(asyncio.Protocol):
    """One client's connection to one host of the site."""

    def __init__(self, *, site: Site, host: int) -> None:
        self._site, self._host = site, host
        self._received = b""
        # Requests without an answer yet, in their order of arrival.
        self._unanswered: list[Asked] = []
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A cast, because uvloop's transports look like asyncio's without being subclasses of them.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        # A client that gave up waits for no answer, so its requests are no longer open.
        for asked in self._unanswered:
            self._site.end(asked, host=self._host, is_answered=False)
        self._unanswered.clear()

    def data_received(self, data: bytes) -> None:
        received = self._received + data
        while (end := received.find(b"\r\n\r\n")) >= 0:
            self._request(received[: end + 2])
            received = received[end + 4 :]
        self._received = received
        if len(received) > _LONGEST_HEAD:
            self._transport.close()

    def _request(self, head: bytes) -> None:
        """Handle one request. `head` is its request line and its fields."""
        line, _, _ = head.decode("latin-1").partition("\r\n")
        # A tab or line feed in a request line is an error, and would split a line of the log.
        match line.split(" "):
            case method, path, version if path.startswith("/") and line.isprintable():
                pass
            case _:
                self._transport.close()
                return
        is_last = version != "HTTP/1.1" or b"\nconnection: close" in head.lower()
        if path.startswith("/-/"):
            self._send(self._site.control(path), is_last=is_last)
            return

        asked = self._site.begin(method=method, path=path, head=head, host=self._host)
        self._unanswered.append(asked)
        if latency := asked.answer.latency:
            asyncio.get_running_loop().call_later(latency, partial(self._finish, asked, is_last=is_last))
        else:
            self._finish(asked, is_last=is_last)

    def _finish(self, asked: Asked, *, is_last: bool) -> None:
        if self._transport.is_closing():
            return
        # The answer is logged before it is sent: a client that has its answer may send more before this process runs
        # again.
        self._unanswered.remove(asked)
        self._site.end(asked, host=self._host, is_answered=True)
        self._send(asked.answer, is_last=is_last)

    def _send(self, answer: Answer, *, is_last: bool) -> None:
        self._transport.write(answer.head + answer.body)
        if is_last:
            self._transport.close()


def _reply(status: HTTPStatus, body: bytes, *, kind: bytes, fields: bytes = b"") -> Answer:
    head = b"HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\n%s\r\n" % (
        status,
        status.phrase.encode(),
        kind,
        len(body),
        fields,
    )
    return Answer(status, head, body)


def _plain(status: HTTPStatus, *, fields: bytes = b"") -> Answer:
    """Return an answer with the status as text, for a reader in a browser."""
    return _reply(status, status.phrase.encode() + b"\n", kind=b"text/plain", fields=fields)


def _number(digits: str) -> int:
    """Return the number, or -1 if these are not a few ASCII digits."""
    return int(digits) if digits.isascii() and digits.isdecimal() and len(digits) < 16 else -1


def _modified_at(revision: int) -> int:
    return _FIRST_DAY + revision * _ONE_DAY


@lru_cache
def _http_date(revision: int) -> bytes:
    return formatdate(_modified_at(revision), usegmt=True).encode()


def _is_unmodified(head: bytes, *, etag: bytes, modified_at: int) -> bool:
    """True if the request's conditions (RFC 9110, section 13.2.2) allow a 304."""
    fields = head.lower()
    tags = _field(fields, b"if-none-match")
    if tags is not None:
        return tags == b"*" or etag in tags
    since = _field(fields, b"if-modified-since")
    if since is None:
        return False
    try:
        return parsedate_to_datetime(since.decode("latin-1")).timestamp() >= modified_at
    except ValueError:
        return False


def _agent_of(head: bytes) -> str:
    agent = _field(head, b"User-Agent") or _field(head, b"user-agent") or b""
    return "".join(character for character in agent.decode("latin-1") if character.isprintable())


def _field(fields: bytes, name: bytes) -> bytes | None:
    """
    Return the value of a field in a request head; None if it is absent. The name must have the same upper and lower
    case letters.
    """
    start = fields.find(b"\r\n%s:" % name)
    if start < 0:
        return None
    start += len(name) + 3
    return fields[start : fields.index(b"\r\n", start)].strip()
