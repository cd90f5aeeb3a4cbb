"""A successful response as content for the outputs, with its links and its directives for robots."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from jobs.connectors.metadata import LAST_MODIFIED, Metadata, of_page
from jobs.connectors.repository.base import Content, Document, Reference
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.limits import Limits
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.urls import BadUrl, canonical
from jobs.reading.page import RobotsDirectives, directives_of_headers, read_page
from jobs.reading.text import Kind, decoded, kind_of, media_type

_NO_CONTENT: Final = frozenset({204, 205})


@dataclass(frozen=True, slots=True)
class ReadPage:
    """`references` are the links that count, by hash: none under nofollow, and none of a plain text."""

    content: Content
    robots: RobotsDirectives
    references: Mapping[str, Reference] = field(default_factory=dict)


class PageReader:
    """Reads the pages of one job."""

    def __init__(self, links: LinkTable, *, robots_name: str, limits: Limits) -> None:
        self._links = links
        self._robots_name = robots_name
        self._limits = limits

    def read(self, response: Response, document: Document, *, follows_links: bool) -> ReadPage | None:
        """Return the page of a response 2xx; None if it is not text, or not whole."""
        content_type = response.headers.get("Content-Type", "")
        kind = kind_of(content_type, response.body) if response.status not in _NO_CONTENT else Kind.OTHER
        if kind is Kind.OTHER or not response.whole:
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
        if follows_links and not robots.nofollow:
            references = self._links.references(page.links, base=self._base_of(page.base, document))
            references.pop(document.hash, None)
        content = Content(
            url=document.identifier,
            title=page.title,
            description=page.description,
            text=page.text,
            content_type=name if "/" in name else "text/html",
            language=page.language,
            metadata=_with_date(of_page(page.named), response),
        )
        return ReadPage(content, robots, references)

    def read_bytes(self, response: Response, document: Document) -> ReadPage | None:
        """Return a response without a text as a content that the stages of a pipeline read; None without a body."""
        if response.status in _NO_CONTENT or not response.body:
            return None
        content_type = response.headers.get("Content-Type", "")
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
    if not said:
        return metadata
    try:
        moment = parsedate_to_datetime(said)
    except ValueError:
        return metadata
    return {**metadata, LAST_MODIFIED: ((moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).isoformat(),)}
