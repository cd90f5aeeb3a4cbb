"""Turns a successful response into content for the outputs, with its links and its directives for robots."""

import contextlib
import datetime as dt
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from typing import Final, Protocol

from jobs.connectors.metadata import LAST_MODIFIED, Metadata, of_page
from jobs.connectors.repository.base import Content, Document, Reference
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.urls import BadUrl, canonical
from jobs.reading.page import RobotsDirectives, directives_of_headers, read_page
from jobs.reading.text import Kind, charset_of, decoded, kind_of, media_type

_MONTHS: Final = {
    name: f"{number:02}"
    for number, name in enumerate(
        ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"], start=1
    )
}
_USUAL_DATE: Final = re.compile(
    r"[A-Z][a-z]{2}, (?:0[1-9]|[12]\d|3[01]) [A-Z][a-z]{2} \d{4} (?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d GMT", re.ASCII
)
_NO_CONTENT: Final = frozenset({204, 205})


class Reads(Protocol):
    """A function that returns True if the pipeline of a job reads documents of a type."""

    def __call__(self, content_type: str, *, length: int | None = None) -> bool: ...


@dataclass(frozen=True, slots=True)
class ReadPage:
    """
    `references` are the links that count, by hash: none under nofollow, and none of a plain text. `rejected` are new
    addresses that the job's rules refuse. `body` has the bytes if the pipeline of the job reads them, in the `charset`
    that the server names.
    """

    content: Content
    robots: RobotsDirectives
    references: Mapping[str, Reference] = field(default_factory=dict)
    body: bytes | None = None
    charset: str = ""
    rejected: Sequence[str] = ()


class PageReader:
    """Reads the pages of one job."""

    def __init__(self, links: LinkTable, *, robots_name: str, limits: Limits) -> None:
        self._links = links
        self._robots_name = robots_name
        self._limits = limits

    def read(
        self, response: Response, document: Document, *, follows_links: bool, reads: Reads | None = None
    ) -> ReadPage | None:
        """
        Return the page of a response 2xx; None if it is not text, or not whole.

        If a response is not text, and the pipeline of the job `reads` its bytes, the result is a page without a text.
        """
        content_type = response.headers.get("Content-Type", "")
        if not response.whole:
            return None
        has_body = response.status not in _NO_CONTENT
        kind = kind_of(content_type, response.body) if has_body else Kind.OTHER
        is_read = has_body and reads is not None and reads(media_type(content_type), length=len(response.body))
        page = self._read(response, document, kind, content_type, follows_links=follows_links)
        if page is None and not (is_read and response.body):
            return None
        found = page or self._without_text(response, document, content_type)
        return replace(found, body=response.body, charset=charset_of(content_type)) if is_read else found

    def _read(
        self, response: Response, document: Document, kind: Kind, content_type: str, *, follows_links: bool
    ) -> ReadPage | None:
        if kind is Kind.OTHER:
            return None
        name = media_type(content_type)
        text = decoded(response.body, content_type)
        robots = (
            directives_of_headers(response.robots_tags, robots_name=self._robots_name)
            if response.robots_tags
            else RobotsDirectives()
        )
        if kind is not Kind.HTML:
            content = Content(
                url=document.identifier,
                title="",
                description="",
                text=text.strip(),
                content_type=name if "/" in name else "text/plain",
                language="",
                metadata=_with_date({}, response),
            )
            return ReadPage(content, robots)
        page = read_page(text, robots_name=self._robots_name)
        robots = robots.joined(page.robots)
        references: dict[str, Reference] = {}
        rejected: Sequence[str] = ()
        if follows_links and not robots.nofollow:
            references = self._links.references(page.links, base=self._base_of(page.base, document))
            references.pop(document.hash, None)
            rejected = self._links.take_rejected()
        content = Content(
            url=document.identifier,
            title=page.title,
            description=page.description,
            text=page.text,
            content_type=name if "/" in name else "text/html",
            language=page.language,
            metadata=_with_date(of_page(page.named), response),
        )
        return ReadPage(content, robots, references, rejected=rejected)

    def _without_text(self, response: Response, document: Document, content_type: str) -> ReadPage:
        content = Content(
            url=document.identifier,
            title="",
            description="",
            text="",
            content_type=media_type(content_type),
            language="",
            metadata=_with_date({}, response),
        )
        return ReadPage(content, directives_of_headers(response.robots_tags, robots_name=self._robots_name))

    def _base_of(self, href: str | None, document: Document) -> str:
        """Return the base of the page's relative links. A base that is not a web address is ignored."""
        if href is None:
            return document.identifier
        try:
            return canonical(href, document.identifier, limits=self._limits)
        except BadUrl:
            return document.identifier


def _with_date(metadata: Metadata, response: Response) -> Metadata:
    """Return metadata with the date of the answer, if its server gives a valid one."""
    said = response.headers.get("Last-Modified")
    moment = moment_of(said) if said else ""
    return {**metadata, LAST_MODIFIED: (moment,)} if moment else metadata


def moment_of(said: str) -> str:
    """Return the date of a header in ISO 8601; '' if it is invalid."""
    # The usual form is `Tue, 01 Sep 2026 10:00:00 GMT`. Reading it here is cheaper than a parser for all forms.
    month = _MONTHS.get(said[8:11])
    if month and _USUAL_DATE.fullmatch(said):
        date = f"{said[12:16]}-{month}-{said[5:7]}T{said[17:25]}+00:00"
        # An impossible date, such as the 31st of February, has the usual form, too.
        with contextlib.suppress(ValueError):
            dt.datetime.fromisoformat(date)
            return date
        return ""
    try:
        moment = parsedate_to_datetime(said)
    except (ValueError, TypeError, OverflowError):
        return ""
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).isoformat()
