"""Proves that a hostile feed costs a child process and never its worker."""

import asyncio
import datetime as dt

import pytest

from jobs.connectors.repository.feed.children import FeedReader
from jobs.connectors.repository.feed.reading import NotRead, read_feed
from jobs.extraction.pool import PoolLimits

URL = "http://a.example/feed.xml"
FACTS = {"url": URL, "content_type": "application/rss+xml"}


def rss(entry):
    return f"<rss version='2.0'><channel><ttl>5</ttl><item><link>/1</link>{entry}</item></channel></rss>".encode()


# A feed for which feedparser needs time that grows with the square of the length.
HOSTILE = rss(f"<author>{'a.' * 300_000}</author>")
GOOD = rss("<author>Ada</author><category>News</category><pubDate>Mon, 05 Jan 2026 10:00:00 GMT</pubDate>")


async def test_a_hostile_feed_ends_its_child_while_the_worker_continues():
    reader = FeedReader(PoolLimits(processes=1, seconds=1, memory=1024))
    turns = 0

    async def work():
        nonlocal turns
        while True:
            await asyncio.sleep(0.01)
            turns += 1

    working = asyncio.create_task(work())
    try:
        with pytest.raises(NotRead) as unread:
            await reader.read(HOSTILE, **FACTS)
        assert (unread.value.code, turns > 20) == ("TOO_LARGE", True)

        feed = await reader.read(GOOD, **FACTS)
        assert feed == read_feed(GOOD, **FACTS)
        assert list(feed.links.values()) == [dt.datetime(2026, 1, 5, 10, tzinfo=dt.UTC)]
        with pytest.raises(NotRead, match="NOT_A_FEED"):
            await reader.read(b"words", **FACTS)
    finally:
        working.cancel()
        await reader.close()
