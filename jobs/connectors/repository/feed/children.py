"""
Reads feeds in child processes of the worker.

Some regular expressions of feedparser need a time that grows at least with the square of the length of a text. An
author of 600 kB without a blank would keep a worker busy for hours, and stop its heartbeat. The kernel ends a child
that has computed for too long or needs too much memory.
"""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final, Protocol

from jobs.connectors.repository.feed.reading import Feed, NotRead, read_feed
from jobs.extraction.pool import ChildPool, PoolLimits
from jobs.extraction.result import ExtractionFailed, Reason
from jobs.extraction.work import Facts

# Limits of the children. A feed of 200,000 tags needs about a fifth of the computing time.
_LIMITS: Final = PoolLimits(processes=2, seconds=30, memory=1024, output=64)
_TOO_LARGE: Final = frozenset({Reason.TIME, Reason.MEMORY, Reason.OUTPUT, Reason.NESTED})
_SAMPLE: Final = (
    b"<rss version='2.0'><channel><item><link>http://a.example/1</link><author>a@a.example (A)</author>"
    b"<pubDate>Mon, 05 Jan 2026 10:00:00 GMT</pubDate></item></channel></rss>"
)


class ReadsFeeds(Protocol):
    """An object that reads feeds as `FeedReader` does."""

    async def read(self, body: bytes, *, url: str, content_type: str) -> Feed:
        """
        Return the content of a feed from this address.

        Raises:
            NotRead: TOO_LARGE, NOT_A_FEED, BROKEN_FEED (it breaks off, so its missing entries are unknown),
                EXTRACTION_FAILED (the parser broke down).
            ChildrenBroken: no child can start.
        """


class FeedReader:
    """The children of one worker. They start with the first feed. All calls come from one event loop."""

    def __init__(self, limits: PoolLimits = _LIMITS) -> None:
        self._limits = limits
        self._pool: ChildPool | None = None

    async def read(self, body: bytes, *, url: str, content_type: str) -> Feed:
        if self._pool is None:
            self._pool = ChildPool(self._limits, work=f"{__name__}:READING")
        try:
            answer = await self._pool.ask({"url": url, "content_type": content_type}, body)
            return _feed_of(answer)
        except ExtractionFailed as failure:
            raise NotRead("TOO_LARGE" if failure.reason in _TOO_LARGE else "EXTRACTION_FAILED") from failure
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            # A feed may have taken control of the child, so the answer may have any form.
            raise NotRead("EXTRACTION_FAILED") from error

    async def close(self) -> None:
        """End the children."""
        if self._pool is not None:
            await self._pool.close()


class _Reading:
    """The work of a child: it parses feeds."""

    def prepare(self, arguments: Facts) -> None:
        read_feed(_SAMPLE, url="http://a.example/", content_type="application/rss+xml")

    def do(self, facts: Facts, body: bytes) -> Facts:
        try:
            feed = read_feed(body, url=facts["url"], content_type=facts["content_type"])
        except NotRead as unread:
            return {"code": unread.code}
        return {
            "links": [(link, None if date is None else date.isoformat()) for link, date in feed.links.items()],
            "interval": feed.interval,
            "metadata": feed.metadata,
        }


READING: Final = _Reading()


def _feed_of(answer: Mapping[str, Any]) -> Feed:
    if (code := answer.get("code")) is not None:
        raise NotRead(_text(code))
    links = {_text(link): None if date is None else dt.datetime.fromisoformat(date) for link, date in answer["links"]}
    interval = answer["interval"]
    return Feed(
        links,
        None if interval is None else float(interval),
        {
            _text(link): {_text(name): tuple(map(_text, values)) for name, values in found.items()}
            for link, found in answer["metadata"].items()
        },
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return value
