"""
The sitemaps that robots.txt of a web host names, and the documents of jobs with their addresses.

No connector takes addresses from a sitemap. A job may read a sitemap as a document, and only its result is known.
"""

import datetime as dt
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from django.db.models.fields.json import KT

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.web.robots_rules import sitemaps_in
from jobs.connectors.repository.web.urls import BadUrl, canonical
from jobs.models import QueueItem, Robots

# Largest numbers of shown sitemaps, and of documents with their addresses. A robots.txt may name thousands.
_SITEMAPS: Final = 20
_DOCUMENTS: Final = 100


@dataclass(frozen=True, slots=True)
class SitemapDocument:
    """A document of a job with the address of a sitemap. `fetched_at` is None before its first request."""

    job_id: int
    job_name: str
    hash: uuid.UUID
    fetched_at: dt.datetime | None
    code: str


@dataclass(frozen=True, slots=True)
class Sitemap:
    """A sitemap by its address, with its documents, the oldest job first."""

    address: str
    documents: Sequence[SitemapDocument]


def read_sitemaps(name: str) -> list[Sitemap]:
    """Return the sitemaps of a web host as robots.txt names them, by http and by https: at most 20."""
    origins = [f"{scheme}://{name}" for scheme in ("http", "https")]
    texts = Robots.objects.filter(origin__in=origins).order_by("origin").values_list(KT("answer__text"), flat=True)
    addresses = list(islice(_distinct_addresses(text or "" for text in texts), _SITEMAPS))
    documents = _documents_of(addresses) if addresses else {}
    return [Sitemap(address, documents.get(address, [])) for address in addresses]


def _distinct_addresses(texts: Iterator[str]) -> Iterator[str]:
    seen = set()
    for text in texts:
        for typed in sitemaps_in(text):
            try:
                address = canonical(typed)
            except BadUrl:
                continue
            if address not in seen:
                seen.add(address)
                yield address


def _documents_of(addresses: Sequence[str]) -> Mapping[str, Sequence[SitemapDocument]]:
    by_hash = {uuid.UUID(hash_of(address)): address for address in addresses}
    found: dict[str, list[SitemapDocument]] = {}
    rows = QueueItem.objects.filter(hash__in=list(by_hash)).order_by("hash", "job_id")
    facts = rows.values_list("hash", "job_id", "job__name", "fetched_at", "result_code")[:_DOCUMENTS]
    for hash_, job_id, job_name, fetched_at, code in facts:
        found.setdefault(by_hash[hash_], []).append(SitemapDocument(job_id, job_name, hash_, fetched_at, code))
    return found
