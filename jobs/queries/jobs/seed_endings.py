"""Endings of a job's seeds in its run, and the addresses that they redirected to."""

import uuid
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import BadIdentifier
from jobs.lifecycle.document import Stage
from jobs.models import Job, Outcome, OutLinks, QueueItem, SeedRedirect

_LONGEST_CHAIN: Final = 12
# Codes of documents that ended as excluded without being read.
_UNREAD: Final = frozenset(
    {
        "ROBOTS",
        "ROBOTS_UNREACHABLE",
        "DENIED",
        "OUT_OF_SCOPE",
        "REDIRECT_LOOP",
        "TOO_MANY_REDIRECTS",
        "BAD_REDIRECT",
        "NOT_TEXT",
        "EXCLUDED",
        "OUT_OF_ROOT",
        "SYMLINK",
        "SPECIAL_FILE",
        "NOT_ARCHIVE",
        "NOT_BY_RECORD",
    }
)


@dataclass(frozen=True, slots=True)
class SeedEnding:
    """The ending of one seed's document; for a redirect, the ending of the last document of its chain."""

    seed: str
    code: str
    is_read: bool


def read_seed_endings(job: Job) -> list[SeedEnding]:
    """Return the ending of each seed in the job's last run. Seeds whose documents have not ended are left out."""
    at = {seed: uuid.UUID(hash_of(seed)) for seed in _identifiers(job)}
    endings: list[SeedEnding] = []
    for _ in range(_LONGEST_CHAIN):
        documents = _ended(job, at.values())
        redirected = [seed for seed, key in at.items() if key in documents and documents[key].result_code == "REDIRECT"]
        targets = _targets(job, [at[seed] for seed in redirected])
        endings += [
            SeedEnding(seed, documents[key].result_code, _is_read(documents[key]))
            for seed, key in at.items()
            if key in documents and key not in targets
        ]
        at = {seed: targets[at[seed]] for seed in redirected if at[seed] in targets}
        if not at:
            break
    return endings


def failed_seeds_code(job: Job) -> str:
    """
    Return the most frequent code if all seeds ended in the job's last run and none of them could be read, otherwise ''.
    """
    endings = read_seed_endings(job)
    if not endings or any(ending.is_read for ending in endings) or len(endings) < len(_identifiers(job)):
        return ""
    codes = Counter(ending.code for ending in endings)
    return max(sorted(codes), key=codes.__getitem__)


def read_new_hosts(job: Job) -> list[SeedRedirect]:
    """Return the redirects by which hosts came into the job's scope in its last run."""
    return list(SeedRedirect.objects.filter(job=job, is_followed=True, noted_at__gte=job.started_at).order_by("source"))


def read_refused_redirects(job: Job) -> list[SeedRedirect]:
    """Return the redirects of seeds that led out of the job's scope in its last run."""
    found = list(SeedRedirect.objects.filter(job=job, is_followed=False).order_by("source"))
    documents = _ended(job, [redirect.hash for redirect in found])
    refused = {key for key, document in documents.items() if document.result_code == "OUT_OF_SCOPE"}
    return [redirect for redirect in found if redirect.hash in refused]


def _identifiers(job: Job) -> list[str]:
    kind = registry.find(job.repository.connector)
    found: dict[str, None] = {}
    for urls in job.seeds.filter(removed_at=None).values_list("urls", flat=True):
        for url in urls:
            try:
                found[kind.canonical(url)] = None
            except BadIdentifier:
                continue
    return list(found)


def _ended(job: Job, hashes: Iterable[uuid.UUID]) -> dict[uuid.UUID, QueueItem]:
    documents = QueueItem.objects.filter(job=job, hash__in=list(hashes), run_no=job.run_no, stage=Stage.DONE)
    return {document.hash: document for document in documents.only("hash", "outcome", "result_code")}


def _targets(job: Job, hashes: Iterable[uuid.UUID]) -> dict[uuid.UUID, uuid.UUID]:
    links = OutLinks.objects.filter(job=job, hash__in=list(hashes))
    return {link.hash: link.targets[0] for link in links if link.targets}


def _is_read(document: QueueItem) -> bool:
    if document.outcome == Outcome.EXCLUDED:
        return document.result_code not in _UNREAD
    return document.outcome in {Outcome.INDEXED, Outcome.UNCHANGED}
