"""
Feeds as a source: what a job begins with are feeds, and what they name are web pages.

    a feed                                 FEED; names the addresses of its entries
    2xx with something else                NOT_A_FEED, or BROKEN_FEED without a single whole entry; failed
    a feed of more than five megabytes     TOO_LARGE; failed
    anything else, and every entry         as the web says (jobs.connectors.repository.web.connector)

A feed that failed still holds its entries. Where it says how often it changes (ttl, sy:updatePeriod), a
continuous job reads it again then. The links of an entry's page are not followed.
"""

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Final

from jobs.connectors.repository.base import Activity, Document, ScheduleBounds, hash_of
from jobs.connectors.repository.feed.reading import Feed, NotRead, read_feed
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical

_ACCEPT: Final = "application/rss+xml,application/atom+xml,application/rdf+xml,application/xml;q=0.9,*/*;q=0.1"


class FeedConnector(WebConnector):
    """Feeds and their entries as one job asks for them."""

    max_depth: Final = None

    def _accept_of(self, document: Document) -> str:
        return _ACCEPT if _is_feed(document) else super()._accept_of(document)

    def _is_wanted(self, document: Document, status: int, headers: Mapping[str, str], first: bytes) -> bool:
        if _is_feed(document):
            return 200 <= status < 300
        return super()._is_wanted(document, status, headers, first)

    def _is_at_the_end(self, document: Document) -> bool:
        return True

    async def _end_success(self, response: Response, document: Document, activity: Activity) -> None:
        if not _is_feed(document):
            await super()._end_success(response, document, activity)
            return
        read = partial(
            read_feed, response.body, url=document.identifier, content_type=response.headers.get("Content-Type", "")
        )
        try:
            feed = await asyncio.to_thread(read)
        except NotRead as unread:
            activity.failed(code=unread.code)
            return
        self._end_feed(feed, document, activity)

    def _end_feed(self, feed: Feed, document: Document, activity: Activity) -> None:
        for link in feed.links:
            try:
                url = canonical(link, document.identifier, limits=self._limits)
            except BadUrl:
                continue
            if url != document.identifier and self._scope.admits(url):
                activity.reference(identifier=url, hash=hash_of(url), bin=bin_of(url))
        if feed.interval is not None:
            activity.set_schedule_bounds(ScheduleBounds(recrawl_least=feed.interval, recrawl_most=feed.interval))
        activity.no_document(code="FEED")


def _is_feed(document: Document) -> bool:
    """What a job begins with, and what that redirects to: a redirect keeps the depth."""
    return document.depth == 0
