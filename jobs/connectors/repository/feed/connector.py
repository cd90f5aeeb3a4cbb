"""
Feeds as a source: the seeds of a job are feeds, and their entries are web pages.

    a feed                                 FEED; references the addresses of its entries
    304 to a conditional request           304; keeps its earlier references
    2xx with something else                NOT_A_FEED; failed
    a feed that breaks off                 BROKEN_FEED; retried like an incomplete page
    a feed of more than five megabytes,    TOO_LARGE; failed
    or one that takes too long to read
    a feed that breaks the parser down     EXTRACTION_FAILED; failed
    anything else, and every entry         as on the web (jobs.connectors.repository.web.connector)

A failed feed keeps its entries. If it publishes how often it changes (ttl, sy:updatePeriod), a continuous job reads it
again at that interval. The links of an entry's page are not followed. The date of an entry is the origination date of
its page.
"""

import datetime as dt
import json
import logging
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, Self

from jobs.connectors.metadata import MOST_VALUES, Metadata
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Document, ScheduleBounds, hash_of
from jobs.connectors.repository.feed.children import ReadsFeeds
from jobs.connectors.repository.feed.reading import Feed, NotRead
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.web.connector import WebConnector
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.retry import retry_or_fail
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import BadUrl, bin_of, canonical
from jobs.connectors.repository.web.validators import conditions_of, validators_of
from jobs.extraction.pool import ChildrenBroken

logger = logging.getLogger(__name__)

# Names of the values that a feed carries to its entries: their dates, and metadata.
_PUBLISHED: Final = "published"
_CARRIED: Final = ("author", "categories")
_ACCEPT: Final = "application/rss+xml,application/atom+xml,application/rdf+xml,application/xml;q=0.9,*/*;q=0.1"


class FeedConnector(WebConnector):
    """The connector of one job that reads feeds and their entries. The jobs of the process share `feeds`."""

    max_depth: Final = None

    def __init__(self, specification: WebSpecification, *, feeds: ReadsFeeds, **options: Any) -> None:
        super().__init__(specification, **options)
        self._feeds = feeds

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        # Several feeds may have this entry, with different dates. The latest date counts.
        dates = [dt.datetime.fromisoformat(date) for date in activity.carried(_PUBLISHED)]
        if dates:
            activity.set_origination(max(dates))
        await super().process(document, activity, pace)

    def _belongs(self, document: Document) -> bool:
        # The scope rules apply to entries only.
        return _is_feed(document) or super()._belongs(document)

    def _accept_of(self, document: Document) -> str:
        return _ACCEPT if _is_feed(document) else super()._accept_of(document)

    def _is_wanted(
        self, document: Document, activity: Activity, status: int, headers: Mapping[str, str], first: bytes
    ) -> bool:
        if _is_feed(document):
            return 200 <= status < 300
        return super()._is_wanted(document, activity, status, headers, first)

    def _is_at_the_end(self, document: Document) -> bool:
        return True

    async def _end_success(self, response: Response, document: Document, activity: Activity) -> None:
        if not _is_feed(document):
            await super()._end_success(response, document, activity)
            return
        try:
            feed = await self._feeds.read(
                response.body, url=document.identifier, content_type=response.headers.get("Content-Type", "")
            )
        except ChildrenBroken:
            logger.exception("cannot read feed %s", document.identifier)
            retry_or_fail("EXTRACTION_FAILED", document, activity, limits=self._limits)
            return
        except NotRead as unread:
            if unread.code == "BROKEN_FEED":
                retry_or_fail(unread.code, document, activity, limits=self._limits)
            else:
                activity.failed(code=unread.code)
            return
        self._end_feed(feed, response, document, activity)

    def _more_metadata(self, activity: Activity) -> Metadata:
        found = {name: values[:MOST_VALUES] for name in _CARRIED if (values := activity.carried(name))}
        # The values are sorted texts, and all dates have the same form and zone, so the last one is the latest.
        return {**found, **({_PUBLISHED: dates[-1:]} if (dates := activity.carried(_PUBLISHED)) else {})}

    def _conditions(self, document: Document, activity: Activity) -> dict[str, str]:
        if not _is_feed(document):
            return super()._conditions(document, activity)
        known = _Known.read(document.validators)
        # A feed is not in the outputs. So a conditional request is possible if the configuration has not changed.
        return conditions_of(known.validators) if known and known.configuration == activity.configuration else {}

    def _end_not_modified(self, response: Response, document: Document, activity: Activity) -> None:
        known = _Known.read(document.validators) if _is_feed(document) else None
        if known is None:
            super()._end_not_modified(response, document, activity)
            return
        _set_recrawl_interval(known.interval, activity)
        known = replace(known, validators=validators_of(response) or known.validators)
        activity.no_document(code="304", read=False, validators=known.stored())

    def _end_feed(self, feed: Feed, response: Response, document: Document, activity: Activity) -> None:
        for link, date in feed.links.items():
            try:
                url = canonical(link, document.identifier, limits=self._limits)
            except BadUrl:
                continue
            if url != document.identifier and self._scope.admits(url):
                carry: dict[str, Iterable[str]] = dict(feed.metadata.get(link, {}))
                if date is not None:
                    carry[_PUBLISHED] = [date.isoformat()]
                activity.reference(identifier=url, hash=hash_of(url), bin=bin_of(url), carry=carry or None)
        _set_recrawl_interval(feed.interval, activity)
        validators = validators_of(response)
        known = _Known(validators, activity.configuration, feed.interval) if validators else None
        activity.no_document(code="FEED", validators=known.stored() if known else "")


@dataclass(frozen=True, slots=True)
class _Known:
    """The facts about a feed that are stored when it is read, and used when the next answer is 304."""

    validators: str
    configuration: str
    interval: float | None

    @classmethod
    def read(cls, stored: str) -> Self | None:
        facts = json.loads(stored or "null")
        # If an entry has become a feed, it still has the validators of a page, which are no list.
        return cls(*facts) if isinstance(facts, list) else None

    def stored(self) -> str:
        return json.dumps(astuple(self))


def _set_recrawl_interval(interval: float | None, activity: Activity) -> None:
    if interval is not None:
        activity.set_schedule_bounds(ScheduleBounds(recrawl_least=interval, recrawl_most=interval))


def _is_feed(document: Document) -> bool:
    """True for the seeds of a job, and for the targets of their redirects: a redirect keeps the depth."""
    return document.depth == 0
