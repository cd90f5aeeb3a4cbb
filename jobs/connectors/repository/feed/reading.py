"""
What a feed says: the addresses of its entries, and how often it changes. RSS, Atom and RDF, as feedparser reads them.

feedparser also reads what is not well-formed, in every encoding that it can find out. But a feed that breaks off
is not read: whatever it did not come to name would be taken for gone. It takes a
millisecond for an element, so how many there are is bounded before. It resolves no entity that could
grow, and is given bytes only: a text it might take for the name of a file, and open.
"""

import calendar
import datetime as dt
import io
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from xml.parsers.expat import errors
from xml.sax import SAXParseException

import feedparser

MOST_BYTES: Final = 5 * 1024 * 1024
_MOST_TAGS: Final = 200_000
# Seconds. What asks to be read more often than the first, or less often than the last, is read so often.
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
    """The body is no feed that can be read; `code` is the document's result code."""

    def __init__(self, code: str) -> None:
        self.code = code
        super().__init__(code)


@dataclass(frozen=True, slots=True)
class Feed:
    """
    `links` are those of the entries, in order, as written, each with the latest date that is said for it, if any.

    `interval` is in seconds, or None if the feed gives none.
    """

    links: Mapping[str, dt.datetime | None]
    interval: float | None


def read_feed(body: bytes, *, url: str, content_type: str) -> Feed:
    """
    Read a feed that came from this address; it may take seconds.

    Raises:
        NotRead: TOO_LARGE, NOT_A_FEED, BROKEN_FEED (one that breaks off: what it would have named is not known).
    """
    if len(body) > MOST_BYTES or body.count(b"<") > _MOST_TAGS:
        raise NotRead("TOO_LARGE")
    read = feedparser.parse(
        io.BytesIO(body),
        # xml:base counts, and is relative to where the feed came from.
        response_headers={"content-type": content_type, "content-location": url},
        resolve_relative_uris=False,
        sanitize_html=False,
    )
    if not read.get("version"):
        raise NotRead("NOT_A_FEED")
    if _breaks_off(read) or (read.bozo and not read.entries):
        raise NotRead("BROKEN_FEED")
    links: dict[str, dt.datetime | None] = {}
    for entry in read.entries:
        if link := entry.get("link"):
            dates = [date for date in (links.get(link), _date_of(entry)) if date is not None]
            links[link] = max(dates, default=None)
    return Feed(links, _interval_of(read.feed))


def _date_of(entry: dict[str, Any]) -> dt.datetime | None:
    """Return the date of an entry's publication, or else of its last update; None if there is no valid date."""
    # As it was read: feedparser's own look-up takes one of both for the other.
    said = dict.get(entry, "published_parsed") or dict.get(entry, "updated_parsed")
    try:
        return None if said is None else dt.datetime.fromtimestamp(calendar.timegm(said), dt.UTC)
    except (ValueError, OverflowError):
        return None


def _breaks_off(read: Mapping[str, Any]) -> bool:
    """Whether the parser came to the end of the text and not to that of the feed."""
    error = read.get("bozo_exception")
    return isinstance(error, SAXParseException) and error.getMessage() in _BREAKS_OFF


def _interval_of(channel: Mapping[str, Any]) -> float | None:
    """How often the feed says that it changes: its ttl in minutes, or so many times a period."""
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
    """A positive whole number; None for anything else."""
    digits = str(text or "").strip()
    return float(digits[:9]) if digits.isascii() and digits.isdigit() and int(digits[:9]) else None
