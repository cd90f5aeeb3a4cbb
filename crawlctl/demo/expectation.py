"""
The expectation of an exact crawl of the synthetic site, and its difference from the traces of a crawl.

The expectation follows the plan's links from the start page. It uses neither a crawler nor its database, so neither can
hide its errors.
"""

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from crawlctl.demo.log import read_log
from crawlctl.demo.plan import SitePlan, Trap

_TRAP_STATUSES = {Trap.REDIRECT: (301,), Trap.MISSING: (404,), Trap.PRIVATE: ()}


@dataclass(frozen=True, kw_only=True)
class Expectation:
    """The expected statuses of each reachable URL, in order, and the URLs to be indexed."""

    statuses: Mapping[str, tuple[int, ...]]
    documents: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """
    The comparison of a crawl with its expectation.

    `expected` counts the documents, `fetched` those with a 200 or 304 in the site's log and `indexed` those in the
    index. `missing` lists the expected requests and indexed documents that the crawl lacks, as "301 URL" or "indexed
    URL". `extra` lists the requests and indexed documents that were not expected.
    """

    site_log: Path
    expected: int
    fetched: int
    indexed: int
    missing: tuple[str, ...]
    extra: tuple[str, ...]

    @property
    def is_exact(self) -> bool:
        return not self.missing and not self.extra

    def as_json(self) -> str:
        """Return one line of JSON, with the numbers of missing and extra entries in place of the lists."""
        return json.dumps(
            {
                "site_log": str(self.site_log),
                "expected": self.expected,
                "fetched": self.fetched,
                "indexed": self.indexed,
                "missing": len(self.missing),
                "extra": len(self.extra),
            }
        )


def expect_first_crawl(plan: SitePlan) -> Expectation:
    """Return the expectation of the first crawl of the site, for a site that no crawler has requested yet."""

    def statuses(page: int) -> tuple[int, ...]:
        return (500, 200) if plan.outline(page).is_flaky else (200,)

    return _follow_links(plan, statuses)


def expect_next_crawl(plan: SitePlan) -> Expectation:
    """
    Return the expectation of a crawl that already held all of the site's previous revision.

    A site without revisions counts as unchanged. Pages that are no longer linked are not expected to be requested.
    """
    changed = plan.changes[-1].changed if plan.changes else frozenset()

    def statuses(page: int) -> tuple[int, ...]:
        return (200,) if page in changed else (304,)

    return _follow_links(plan, statuses)


def _follow_links(plan: SitePlan, statuses_of: Callable[[int], tuple[int, ...]]) -> Expectation:
    if plan.broken is not None:
        raise ValueError(
            f"page {plan.broken} is broken: the number of its requests depends on the policy of the crawler"
        )
    statuses: dict[str, tuple[int, ...]] = {}
    documents = set()
    for page in _reachable_pages(plan):
        url = plan.url(page)
        if plan.is_gone(page):
            statuses[url] = (404,)
            continue
        statuses[url] = statuses_of(page)
        documents.add(url)
        for trap in plan.outline(page).traps:
            statuses[plan.trap_url(page, trap)] = _TRAP_STATUSES[trap]
    return Expectation(statuses=statuses, documents=frozenset(documents))


def _reachable_pages(plan: SitePlan) -> Iterator[int]:
    seen, waiting = {0}, [0]
    while waiting:
        page = waiting.pop()
        yield page
        if plan.is_gone(page):
            continue
        outline = plan.outline(page)
        links = {*plan.linked_children(page, outline), *outline.popular}
        if Trap.REDIRECT in outline.traps:
            links.add(outline.redirect_target)
        waiting += links - seen
        seen |= links


def compare(*, log: Path, expectation: Expectation, indexed_urls: Collection[str], skip: int = 0) -> Report:
    """
    Compare the site's log, without its first `skip` lines, and the indexed URLs with the expectation.

    Requests for robots.txt do not count.
    """
    requests = Counter(
        (request.status, request.url) for request in read_log(log, skip=skip) if request.path != "/robots.txt"
    )
    wanted = Counter((status, url) for url, statuses in expectation.statuses.items() for status in statuses)
    indexed = frozenset(indexed_urls)
    return Report(
        site_log=log,
        expected=len(expectation.documents),
        fetched=sum(requests[200, url] + requests[304, url] > 0 for url in expectation.documents),
        indexed=len(indexed & expectation.documents),
        missing=(*_name(wanted - requests), *_name_indexed(expectation.documents - indexed)),
        extra=(*_name(requests - wanted), *_name_indexed(indexed - expectation.documents)),
    )


def _name(requests: Counter[tuple[int, str]]) -> list[str]:
    return sorted(f"{status} {url}" for status, url in requests.elements())


def _name_indexed(urls: Collection[str]) -> list[str]:
    return sorted(f"indexed {url}" for url in urls)
