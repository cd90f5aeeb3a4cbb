"""
Stored links of documents that were not read: they still apply, and become references again.

The rules may have been narrowed since these links were read, so the links pass the present rules of their job first.
A refused link is not followed: a full run removes its document like any other that it did not reach.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.repository.base import configuration_of
from jobs.queue.flushing.outcomes import JobFacts, Key, Result
from jobs.queue.sql.arrays import Hashes

# A page has dozens of targets, so they come as one value, in the form in which an array of uuids is sent.
_LINKS: Final[LiteralString] = """
SELECT link.hash, link.job_id, link.is_redirect, array_send(link.targets) AS targets
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS source(hash, job_id)
  JOIN jobs_outlinks AS link ON link.hash = source.hash AND link.job_id = source.job_id
"""
_IDENTIFIERS: Final[LiteralString] = """
SELECT item.hash, item.job_id, item.identifier
  FROM unnest(%(hashes)s::uuid[], %(jobs)s::bigint[]) AS wanted(hash, job_id)
  JOIN jobs_queueitem AS item ON item.hash = wanted.hash AND item.job_id = wanted.job_id
"""


# Numbers of hexadecimal digits in a sent array: before its first element, for the length before each element, and for a
# hash.
_HEAD, _LENGTH, _HASH = 40, 8, 32


@dataclass(frozen=True, slots=True)
class StoredLinks:
    """The stored links of one document that was not read. `targets` are hashes that the present rules admit."""

    result: Result
    is_redirect: bool
    targets: Sequence[str]


def read_stored_links(cursor: psycopg.Cursor[Any], unread: Mapping[Key, Result]) -> Iterator[StoredLinks]:
    """Yield the links that are stored for these documents."""
    stored = [
        StoredLinks(unread[row.hash.hex, row.job_id], row.is_redirect, _hashes_in(row.targets))
        for row in cursor.execute(_LINKS, _columns(unread))
    ]
    refused = _refused_today(cursor, stored)
    for links in stored:
        job_id, targets = links.result.job.id, links.targets
        if refused:
            targets = [target for target in targets if (target, job_id) not in refused]
        yield replace(links, targets=targets)


def _hashes_in(sent: bytes) -> list[str]:
    """Return the hashes in an array of uuids as PostgreSQL sends it. An empty array has a shorter head."""
    digits = sent.hex()
    return [digits[at : at + _HASH] for at in range(_HEAD + _LENGTH, len(digits), _LENGTH + _HASH)]


def _refused_today(cursor: psycopg.Cursor[Any], stored: Sequence[StoredLinks]) -> set[Key]:
    """
    Return the stored targets that the present rules of their job refuse.

    A document whose version was made under the present rules is skipped, because its links were read under these rules.
    So this function looks up no identifier in a run without changes of rules.
    """
    doubtful: dict[Key, JobFacts] = {}
    for links in stored:
        job = links.result.job
        if job.admits is not None and configuration_of(links.result.outcome.version) != job.configuration:
            doubtful.update(((target, job.id), job) for target in links.targets)
    if not doubtful:
        return set()
    refused = set()
    for row in cursor.execute(_IDENTIFIERS, _columns(doubtful)):
        key = (row.hash.hex, row.job_id)
        admits = doubtful[key].admits
        if admits is not None and not admits(row.identifier):
            refused.add(key)
    return refused


def _columns(keys: Mapping[Key, object]) -> dict[str, object]:
    return {"hashes": Hashes(key for key, _ in keys), "jobs": [job for _, job in keys]}
