"""
Search for a typed text: jobs by their words, hosts by their beginning, documents by their address, live nodes.

Each kind is one bounded query by an index, whatever the size of the crawl. Hosts, documents and nodes of all partitions
are found.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from jobs.models import Bin, Job
from jobs.partitions.merged import Merged, Silent, numbers_of, read_everywhere
from jobs.queries.documents.lists import DocumentFilter, DocumentLine, FilterTooWide, list_documents
from jobs.queries.hosts.selection import HostFilter, find_hosts
from nodes.lifecycle import LIVE_STATUSES
from nodes.models import Node
from nodes.models.word_search import named_with, words_in

# Largest number of results of each kind.
MOST: Final = 5
# Longest text that is searched for (characters): an address may be long.
LONGEST: Final = 2_000
# Largest number of words of a name that are searched for.
_WORDS: Final = 8


@dataclass(frozen=True, slots=True)
class Named:
    """A found row: its key and its name, and the other partition that has it."""

    key: Any
    name: str
    partition: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """The results of a search, by kind. Jobs of documents have their ids in this partition."""

    jobs: Sequence[Named] = ()
    hosts: Sequence[Named] = ()
    documents: Sequence[DocumentLine] = ()
    nodes: Sequence[Named] = ()
    silent: Sequence[Silent] = ()


def find(text: str) -> Found:
    """Return the rows that the text may mean; no rows for an empty or a very long text."""
    text = text.strip().replace("\0", "")
    if not text or len(text) > LONGEST:
        return Found()
    found: Merged[Found] = read_everywhere(
        lambda: replace(_find_here(text), jobs=_find_jobs(text)), lambda name: _find_elsewhere(text, name)
    )
    if not found.others:
        return replace(found.own, silent=found.silent)
    parts = [found.own, *(part for _name, part in sorted(found.others.items()))]
    return Found(
        jobs=found.own.jobs,
        hosts=sorted((one for part in parts for one in part.hosts), key=lambda host: host.name)[:MOST],
        documents=[line for part in parts for line in part.documents][:MOST],
        nodes=sorted((one for part in parts for one in part.nodes), key=lambda node: node.name)[:MOST],
        silent=found.silent,
    )


def _find_here(text: str) -> Found:
    return Found(hosts=_find_hosts(text), documents=list(_find_documents(text)), nodes=_find_nodes(text))


def _find_elsewhere(text: str, name: str) -> Found:
    found = _find_here(text)
    numbers = numbers_of({line.job_id for line in found.documents}) if found.documents else {}
    return Found(
        hosts=[replace(host, partition=name) for host in found.hosts],
        documents=[replace(line, job_id=numbers[line.job_id]) for line in found.documents if line.job_id in numbers],
        nodes=[replace(node, partition=name) for node in found.nodes],
    )


def _find_jobs(text: str) -> list[Named]:
    words = words_in(text)[:_WORDS]
    if not words:
        return []
    found = named_with(Job.objects.all(), words).order_by("name").values_list("pk", "name")
    return [Named(*row) for row in found[:MOST]]


def _find_hosts(text: str) -> list[Named]:
    name = text.lower().split("://", 1)[-1].split("/", 1)[0]
    if not name:
        return []
    ids = find_hosts(HostFilter(name=name), limit=MOST).ids
    names = dict(Bin.objects.filter(pk__in=ids).values_list("pk", "name"))
    return [Named(key, names[key]) for key in ids if key in names]


def _find_documents(text: str) -> Iterator[DocumentLine]:
    """Yield the documents with this address; a web address may lack its scheme."""
    if "." not in text and "/" not in text:
        return
    candidates = [text] if "://" in text else [text, f"https://{text}", f"http://{text}"]
    seen: set[tuple[object, int]] = set()
    for address in candidates:
        try:
            lines = list_documents(DocumentFilter(address=address)).lines
        except FilterTooWide:
            continue
        for line in lines[: MOST - len(seen)]:
            if (line.hash, line.job_id) not in seen:
                seen.add((line.hash, line.job_id))
                yield line


def _find_nodes(text: str) -> list[Named]:
    live = Node.objects.filter(status__in=LIVE_STATUSES, name__istartswith=text).order_by("name")
    return [Named(*row) for row in live.values_list("pk", "name")[:MOST]]
