"""
Checks one seed before its job is stored: its answer, robots.txt, the links in scope, and the sitemap.

The check sends a few requests, one at a time, with a gap between them, within one deadline. The fetcher of crawls sends
them under the rules of crawls: only permitted addresses, no page that robots.txt disallows, bounded sizes.
"""

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

from jobs.connectors.repository.base import Document, hash_of
from jobs.connectors.repository.web.fetch import Fetcher, FetchFailed, Response
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.location import location_of
from jobs.connectors.repository.web.reading import PageReader
from jobs.connectors.repository.web.robots import RobotsAnswer, RobotsKind, RobotsTable
from jobs.connectors.repository.web.robots_rules import sitemaps_in
from jobs.connectors.repository.web.specification import WebSpecification
from jobs.connectors.repository.web.urls import BadUrl, canonical, origin_of
from jobs.reading.page import read_page
from jobs.reading.text import Kind, decoded, kind_of

# Time for all requests of a check, and the gap between two requests (seconds).
DEADLINE: Final = 12.0
GAP: Final = 1.0
# Largest number of bytes of a page that are read, and number of bytes that suffice to recognize a sitemap.
_PAGE: Final = 2 * 1024 * 1024
_SITEMAP: Final = 4096
_EXAMPLES: Final = 5
_IS_SITEMAP: Final = re.compile(rb"<(?:urlset|sitemapindex)\b")
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True)
class SeedCheck:
    """
    The result of a check. `code` is a status, or the result code of a request that failed; "" if none was sent.

    `robots` is True if robots.txt allows the seed, None if it is unknown. `links` counts all links of the page, and
    `in_scope` the links that belong to the job. `examples` has some links of the job.
    """

    address: str
    code: str = ""
    detail: str = ""
    seconds: float | None = None
    redirects_to: str = ""
    redirect_is_followed: bool = False
    content_type: str = ""
    title: str = ""
    links: int = 0
    in_scope: int = 0
    examples: Sequence[str] = ()
    robots: bool | None = None
    crawl_delay: float | None = None
    sitemaps: Sequence[str] = ()


class _Gap:
    """The pace of a check: one request at a time, with a gap between two requests (seconds)."""

    def __init__(self, gap: float) -> None:
        self._gap = gap
        self._last: float | None = None

    async def before_request(self) -> None:
        if self._last is not None:
            await asyncio.sleep(max(0.0, self._last + self._gap - time.monotonic()))
        self._last = time.monotonic()

    def request_leaves(self, address: str) -> None:
        """Do nothing: no other request of the check may leave."""

    def request_goes(self) -> None:
        """Do nothing: the check has no turn that could end."""

    def request_sent(self) -> None:
        self._last = time.monotonic()

    def bytes_read(self, count: int) -> None:
        """Do nothing: the sizes are bounded."""


def run_check(wanted: WebSpecification) -> SeedCheck:
    """Return the answer of the first seed. The call blocks for at most about `DEADLINE`."""
    return asyncio.run(_within_the_deadline(canonical(wanted.seeds[0]), wanted))


async def _within_the_deadline(address: str, wanted: WebSpecification) -> SeedCheck:
    check = _Check(address, wanted, _Gap(GAP))
    try:
        async with asyncio.timeout(DEADLINE), Fetcher(allow_private_networks=wanted.allow_private_networks) as fetcher:
            await check.run(fetcher)
    except TimeoutError:
        check.found.setdefault("code", "DEADLINE")
    except FetchFailed as failed:
        check.found |= {"code": failed.code, "detail": failed.detail}
    return SeedCheck(address, **check.found)


class _Check:
    """Carries out one check. `found` has the fields of the result that are known so far."""

    def __init__(self, address: str, wanted: WebSpecification, pace: _Gap) -> None:
        self._address, self._wanted, self._pace = address, wanted, pace
        self._scope = wanted.scope_around_seeds()
        self._headers = {"User-Agent": wanted.user_agent}
        self._table = RobotsTable()
        self.found: dict[str, Any] = {}

    async def run(self, fetcher: Fetcher) -> None:
        origin = origin_of(self._address)
        answer = await self._table.ask(origin, fetcher=fetcher, headers=self._headers, pace=self._pace)
        if not self._may_be_read(origin, answer):
            return
        await self._pace.before_request()
        begun = time.monotonic()
        response = await fetcher.fetch(
            self._address,
            headers={**self._headers, "Accept": "text/html, */*;q=0.5"},
            is_wanted=lambda status, headers, first: (
                200 <= status < 300 and kind_of(headers.get("Content-Type", ""), first) is not Kind.OTHER
            ),
            most_bytes=_PAGE,
        )
        self.found |= {"code": str(response.status), "seconds": time.monotonic() - begun}
        self._read(response)
        named = list(islice(sitemaps_in(answer.text), _EXAMPLES))
        self.found["sitemaps"] = named or await self._sitemap_of(origin, fetcher)

    def _may_be_read(self, origin: str, answer: RobotsAnswer) -> bool:
        if answer.kind is RobotsKind.UNREACHABLE:
            self.found |= {"code": "ROBOTS_UNREACHABLE"}
            return False
        rules = self._table.rules(origin, name=self._wanted.robots_name_asked)
        allowed = rules.allows(self._address)
        self.found |= {"robots": allowed, "crawl_delay": rules.crawl_delay}
        if not allowed:
            self.found["code"] = "ROBOTS"
        return allowed

    def _read(self, response: Response) -> None:
        self.found["content_type"] = response.headers.get("Content-Type", "")
        if response.status in _REDIRECTS:
            self._read_redirect(response)
        if not 200 <= response.status < 300:
            return
        document = Document(hash_of(self._address), self._address, 0, 0, "", "", 0, 0.0)
        links = LinkTable(admits=self._scope.admits)
        page = PageReader(links, robots_name=self._wanted.robots_name_asked, limits=DEFAULT_LIMITS).read(
            response, document, follows_links=True
        )
        if page is None:
            return
        text = decoded(response.body, response.headers.get("Content-Type", ""))
        found = [reference.identifier for reference in page.references.values()]
        self.found |= {
            "title": page.content.title,
            "links": len(set(read_page(text, robots_name=self._wanted.robots_name_asked).links)),
            "in_scope": len(found),
            "examples": found[:_EXAMPLES],
        }

    def _read_redirect(self, response: Response) -> None:
        try:
            target = canonical(location_of(response), self._address)
        except BadUrl:
            return
        follows = self._scope.admits(target) or self._scope.would_admit(target, after=self._address)
        self.found |= {"redirects_to": target, "redirect_is_followed": follows}

    async def _sitemap_of(self, origin: str, fetcher: Fetcher) -> list[str]:
        """Return a list with the address of the sitemap at its usual place; an empty list if there is no sitemap."""
        address = f"{origin}/sitemap.xml"
        if not self._table.rules(origin, name=self._wanted.robots_name_asked).allows(address):
            return []
        await self._pace.before_request()
        try:
            response = await fetcher.fetch(
                address,
                headers={**self._headers, "Accept": "application/xml, text/xml, */*;q=0.5"},
                is_wanted=lambda status, _headers, _first: 200 <= status < 300,
                most_bytes=_SITEMAP,
            )
        except FetchFailed:
            return []
        return [address] if response.status == 200 and _IS_SITEMAP.search(response.body) else []
