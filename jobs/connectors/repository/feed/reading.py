"""
The content of a feed: the addresses of its entries, and its interval of change. RSS, Atom and RDF, by feedparser.

feedparser also reads feeds that are not well-formed, in every encoding that it can detect. But a feed that breaks off
is refused: its missing entries would count as removed. feedparser needs a millisecond for each element, so the number
of elements is limited before the parser runs. The parser expands no entity that could grow. It gets only bytes, because
it could take a text for the name of a file and open that file.
"""

import calendar
import datetime as dt
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from xml.parsers.expat import errors
from xml.sax import SAXParseException

import feedparser

from jobs.connectors.metadata import Metadata, bounded, pairs_of

MOST_BYTES: Final = 5 * 1024 * 1024
_MOST_TAGS: Final = 200_000
# Longest author or category (characters). The limit is small, because each entry carries them through the queue.
_LONGEST_NAME: Final = 200
# Least and greatest interval of a feed (seconds). Other intervals are set to the nearer limit.
_LEAST_INTERVAL: Final = 60.0
_MOST_INTERVAL: Final = 30 * 24 * 3600.0
_PERIODS: Final = {
    "hourly": 3600.0,
    "daily": 24 * 3600.0,
    "weekly": 7 * 24 * 3600.0,
    "monthly": 30 * 24 * 3600.0,
    "yearly": 365 * 24 * 3600.0,
}


_BREAKS_OFF: Final = {
    errors.XML_ERROR_NO_ELEMENTS,
    errors.XML_ERROR_UNCLOSED_TOKEN,
    errors.XML_ERROR_UNCLOSED_CDATA_SECTION,
    errors.XML_ERROR_PARTIAL_CHAR,
}


class NotRead(Exception):
    """The body is not a readable feed. `code` is the document's result code."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True, slots=True)
class Feed:
    """
    A parsed feed. `links` has the links of its entries as written, in order, each with the latest date that the feed
    gives for it, or None.

    `interval` is in seconds, or None if the feed gives none. `metadata` has the authors and categories of entries.
    """

    links: Mapping[str, dt.datetime | None]
    interval: float | None
    metadata: Mapping[str, Metadata] = field(default_factory=dict)


def read_feed(body: bytes, *, url: str, content_type: str) -> Feed:
    """
    Parse a feed from this address. It may take seconds.

    Raises:
        NotRead: TOO_LARGE, NOT_A_FEED, BROKEN_FEED (it breaks off, so its missing entries are unknown).
    """
    if len(body) > MOST_BYTES or body.count(b"<") > _MOST_TAGS:
        raise NotRead("TOO_LARGE")
    read = feedparser.parse(
        io.BytesIO(body),
        # feedparser applies xml:base, relative to the address of the feed.
        response_headers={"content-type": content_type, "content-location": url},
        resolve_relative_uris=False,
        sanitize_html=False,
    )
    if not read.get("version"):
        raise NotRead("NOT_A_FEED")
    if _ends_early(read) or (read.bozo and not read.entries):
        raise NotRead("BROKEN_FEED")
    links: dict[str, dt.datetime | None] = {}
    metadata: dict[str, Metadata] = {}
    for entry in read.entries:
        if link := entry.get("link"):
            dates = [date for date in (links.get(link), _date_of(entry)) if date is not None]
            links[link] = max(dates, default=None)
            if found := bounded([*pairs_of(metadata.get(link, {})), *_pairs_of(entry)]):
                metadata[link] = found
    return Feed(links, _interval_of(read.feed), metadata)


def _pairs_of(entry: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the authors and categories of an entry."""
    said = str(entry.get("author") or "")
    # feedparser splits an author wrongly if the author is only an e-mail address. So an author with an @ is not split.
    names = [said] if "@" in said else [str(author.get("name") or "") for author in entry.get("authors") or ()]
    for name in names:
        yield "author", name[:_LONGEST_NAME]
    for tag in entry.get("tags") or ():
        yield "categories", str(tag.get("label") or tag.get("term") or "")[:_LONGEST_NAME]


def _date_of(entry: dict[str, Any]) -> dt.datetime | None:
    """Return the date of an entry's publication, or else of its last update; None if there is no valid date."""
    # `get` of a plain dict reads the parsed values directly, because feedparser's own look-up would replace a missing
    # date by the other date.
    said = dict.get(entry, "published_parsed") or dict.get(entry, "updated_parsed")
    try:
        return None if said is None else dt.datetime.fromtimestamp(calendar.timegm(said), dt.UTC)
    except (ValueError, OverflowError):
        return None


def _ends_early(read: Mapping[str, Any]) -> bool:
    """True if the text ends before the root element of the feed is closed."""
    error = read.get("bozo_exception")
    return isinstance(error, SAXParseException) and error.getMessage() in _BREAKS_OFF


def _interval_of(channel: Mapping[str, Any]) -> float | None:
    """
    Return the interval that the feed publishes (seconds): its ttl in minutes, or a frequency in a period; or None.
    """
    minutes = _number(channel.get("ttl"))
    if minutes is not None:
        return _bounded(minutes * 60)
    period = _PERIODS.get(str(channel.get("sy_updateperiod", "")).strip().lower())
    if period is None:
        return None
    return _bounded(period / (_number(channel.get("sy_updatefrequency")) or 1.0))


def _bounded(seconds: float) -> float:
    return min(max(seconds, _LEAST_INTERVAL), _MOST_INTERVAL)


def _number(text: object) -> float | None:
    """Return a positive whole number; None for anything else."""
    digits = str(text or "").strip()
    return float(digits[:9]) if digits.isascii() and digits.isdigit() and int(digits[:9]) else None
