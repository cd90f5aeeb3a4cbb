"""
Documents that differ between two runs of a job, and slower hosts.

Both runs kept a sample of their documents at their ends. It has all documents of a small job. For a large job, the
flushes of the later run counted the documents that ended otherwise than before (`jobs.queries.jobs.run_differences`).
"""

import math
import statistics
import uuid
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.web.urls import bin_of
from jobs.lifecycle.endings import Kind
from jobs.models import Bin, Outcome, Run
from jobs.partitions.merged import Silent, local_job, read_everywhere
from jobs.queries.jobs.run_differences import Flip, Flips, Result, merge_flips, read_flips

# Numbers of listed documents of each kind, and of listed slower hosts.
LISTED: Final = 25
# A host is slower if its median grew by this factor and by these milliseconds, over at least these documents.
SLOWER: Final = 1.5
SLOWER_MS: Final = 50
DOCUMENTS_OF_HOST: Final = 5
_HASHES: Final = 2**128
# Results of a document that was read: its content is in the outputs.
_READ: Final = frozenset({Outcome.INDEXED, Outcome.UNCHANGED})


@dataclass(frozen=True, slots=True)
class Ended:
    """
    A document at the end of a run: its last result at that time, a hash of its version, and its request in that run.
    """

    identifier: str
    outcome: Outcome
    code: str
    version: int
    answer_ms: int | None

    @property
    def was_read(self) -> bool:
        return self.outcome in _READ


@dataclass(frozen=True, slots=True)
class Pair:
    """A document in both runs. `earlier` or `later` is None if that run did not know the document."""

    hash: uuid.UUID
    identifier: str
    earlier: Ended | None
    later: Ended | None


@dataclass(frozen=True, slots=True)
class Estimate:
    """
    A number of documents of both runs. With a probability of 95 %, it is between `least` and `most`. Both equal the
    number if it is exact.
    """

    number: int
    least: int
    most: int


@dataclass(frozen=True, slots=True)
class Differing:
    """
    Documents of one kind: their number among the compared ones and among all, and some of them.

    `flips` are the largest numbers of documents with the same results, by host, if they were counted.
    """

    kind: Kind
    count: int
    of_all: Estimate
    examples: Sequence[Pair]
    flips: Sequence[Flip] = ()


@dataclass(frozen=True, slots=True)
class SlowerHost:
    """
    A host whose answers took longer: medians over the same documents, in ms. `id` is None if the host has no page in
    this partition.
    """

    name: str
    id: int | None
    documents: int
    earlier_ms: int
    later_ms: int


@dataclass(frozen=True, slots=True)
class ComparedDocuments:
    """
    The documents that differ.

    - `compared` is the number of compared documents. If `is_sample`, they are a sample of about `of_all` documents;
      otherwise they are all documents of both runs.
    - `are_counted` is true if the numbers of all documents do not depend on the sample. They are upper limits if other
      runs lie between the two runs (`are_limits`).
    - Documents of partitions in `silent` are missing.
    """

    is_sample: bool
    compared: int
    of_all: int
    kinds: Sequence[Differing]
    slower: Sequence[SlowerHost]
    silent: Sequence[Silent] = ()
    are_counted: bool = False
    are_limits: bool = False

    @property
    def is_exact(self) -> bool:
        return not self.is_sample and not self.silent


@dataclass(frozen=True, slots=True)
class _Sample:
    """
    The sample of a run in one partition: all documents up to the hash `limit`, or all documents of the run if `limit`
    is None.
    """

    documents: Mapping[uuid.UUID, Ended]
    limit: uuid.UUID | None


# The samples of the earlier and the later run, None for a run that kept none; and the flips between both.
_Found = tuple[_Sample | None, _Sample | None, Flips | None]
_COLUMNS: Final = ("hashes", "identifiers", "outcomes", "codes", "versions", "answer_ms")


def compare_documents(*, job_id: int, earlier: int, later: int) -> ComparedDocuments | None:
    """
    Compare the documents of two runs of a job, given by the numbers of the runs; return None if a run kept no sample.
    """
    found = read_everywhere(
        lambda: _read_samples(job_id, earlier, later), lambda _name: _read_elsewhere(job_id, earlier, later)
    )
    # A document may have moved to another partition between the runs.
    parts = [found.own, *found.others.values()]
    samples = [[part[0] for part in parts], [part[1] for part in parts]]
    kept = [[sample for sample in of_run if sample is not None] for of_run in samples]
    if any(len(of_run) < len(parts) for of_run in kept):
        return None
    limit = min((sample.limit for of_run in kept for sample in of_run if sample.limit is not None), default=None)
    before, after = (_up_to(limit, of_run) for of_run in kept)
    pairs = [_pair(hash_, before.get(hash_), after.get(hash_)) for hash_ in sorted(before.keys() | after.keys())]
    share = 1.0 if limit is None else (limit.int + 1) / _HASHES
    flips = None if limit is None else merge_flips(part[2] for part in parts)
    return ComparedDocuments(
        is_sample=limit is not None,
        compared=len(pairs),
        of_all=round(len(pairs) / share),
        kinds=_kinds(pairs, share=share, flips=flips),
        slower=_slower_hosts(pairs),
        silent=found.silent,
        are_counted=flips is not None,
        are_limits=flips is not None and flips.are_limits,
    )


def _read_elsewhere(number: int, earlier: int, later: int) -> _Found:
    job_id = local_job(number)
    return _read_samples(-1 if job_id is None else job_id, earlier, later)


def _read_samples(job_id: int, earlier: int, later: int) -> _Found:
    """Return the facts of two runs in the database of this thread. A run without a row has no documents there."""
    rows = Run.objects.filter(job_id=job_id, run_no__in=[earlier, later]).values_list(
        "run_no", "sample__is_whole", *(f"sample__{column}" for column in _COLUMNS)
    )
    found = {
        run_no: _sample(is_whole, columns) if is_whole is not None else None for run_no, is_whole, *columns in rows
    }
    nothing = _Sample({}, limit=None)
    return found.get(earlier, nothing), found.get(later, nothing), read_flips(job_id, earlier, later)


def _sample(is_whole: bool, columns: Sequence[Sequence[Any]]) -> _Sample:  # noqa: FBT001 (a column)
    documents = {
        hash_: Ended(identifier, Outcome(outcome), code, version, answer_ms)
        for hash_, identifier, outcome, code, version, answer_ms in zip(*columns, strict=True)
    }
    return _Sample(documents, None if is_whole else max(documents))


def _up_to(limit: uuid.UUID | None, samples: Iterable[_Sample]) -> dict[uuid.UUID, Ended]:
    return {
        hash_: ended
        for sample in samples
        for hash_, ended in sample.documents.items()
        if limit is None or hash_ <= limit
    }


def _pair(hash_: uuid.UUID, earlier: Ended | None, later: Ended | None) -> Pair:
    known = later or earlier
    return Pair(hash_, known.identifier if known else "", earlier, later)


def _kinds(pairs: Iterable[Pair], *, share: float, flips: Flips | None) -> list[Differing]:
    found: dict[Kind, list[Pair]] = {kind: [] for kind in Kind}
    for pair in pairs:
        kind = kind_of(pair)
        if kind is not None:
            found[kind].append(pair)
    estimated = [
        Differing(kind, len(of_kind), estimate(len(of_kind), share=share), of_kind[:LISTED])
        for kind, of_kind in found.items()
    ]
    return estimated if flips is None else [_counted(one, flips) for one in estimated]


def _counted(estimated: Differing, flips: Flips) -> Differing:
    """
    Return documents of one kind, with the counted number in place of the estimate. Examples from the counts come first.
    """
    number, of_all = flips.number_of(estimated.kind), estimated.of_all
    if not flips.are_limits:
        of_all = Estimate(number, number, number)
    elif number < of_all.most:
        of_all = Estimate(min(of_all.number, number), min(of_all.least, number), number)
    largest = flips.of_kind(estimated.kind, most=LISTED)
    examples = {pair.hash: pair for flip in largest for pair in _examples(flip)}
    examples |= {pair.hash: pair for pair in estimated.examples}
    return Differing(estimated.kind, estimated.count, of_all, list(examples.values())[:LISTED], largest)


def _examples(flip: Flip) -> list[Pair]:
    earlier, later = flip.earlier, flip.later
    return [Pair(uuid.UUID(hash_of(name)), name, _ended(name, earlier), _ended(name, later)) for name in flip.examples]


def _ended(identifier: str, result: Result | None) -> Ended | None:
    return Ended(identifier, result.outcome, result.code, 0, None) if result else None


def kind_of(pair: Pair) -> Kind | None:
    """
    Return the kind of difference of a document between both runs; None without a difference, or if the document did not
    end in both runs.
    """
    earlier, later = pair.earlier, pair.later
    if earlier is None or later is None:
        return Kind.NEW if earlier is None else Kind.GONE
    if Outcome.NONE in {earlier.outcome, later.outcome}:
        return None
    if earlier.was_read and later.was_read:
        return Kind.CHANGED if 0 != earlier.version != later.version != 0 else None
    if earlier.was_read != later.was_read:
        return Kind.WORSE if earlier.was_read else Kind.BETTER
    return Kind.OTHER if (earlier.outcome, earlier.code) != (later.outcome, later.code) else None


def estimate(count: int, *, share: float) -> Estimate:
    """Estimate a number of documents from their `count` in a sample that has this share of all hashes."""
    if share >= 1.0:
        return Estimate(count, count, count)
    # The result is close to the exact limits of a Poisson distribution, also for few documents or no document.
    root = math.sqrt(count + 1)
    return Estimate(
        round(count / share), max(count, math.floor((root - 1) ** 2 / share)), math.ceil((root + 1) ** 2 / share)
    )


def _slower_hosts(pairs: Iterable[Pair]) -> list[SlowerHost]:
    """
    Return the hosts that became slower the most. Only documents count that both runs requested with the same result.
    """
    times: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for pair in pairs:
        earlier, later = pair.earlier, pair.later
        if earlier is None or later is None or not (earlier.was_read and later.was_read):
            continue
        if earlier.answer_ms is None or later.answer_ms is None or earlier.code != later.code:
            continue
        if pair.identifier.startswith(("http://", "https://")):
            times[bin_of(pair.identifier)].append((earlier.answer_ms, later.answer_ms))
    slower = []
    for name, of_host in times.items():
        earlier_ms, later_ms = (round(statistics.median(column)) for column in zip(*of_host, strict=True))
        is_slower = later_ms >= SLOWER * earlier_ms and later_ms >= earlier_ms + SLOWER_MS
        if len(of_host) >= DOCUMENTS_OF_HOST and is_slower:
            slower.append(SlowerHost(name, None, len(of_host), earlier_ms, later_ms))
    slower.sort(key=lambda host: (host.earlier_ms - host.later_ms, host.name))
    return _with_pages(slower[:LISTED])


def _with_pages(hosts: Sequence[SlowerHost]) -> list[SlowerHost]:
    names = [host.name for host in hosts]
    ids = dict(Bin.objects.filter(namespace="web", name__in=names).values_list("name", "pk")) if names else {}
    return [SlowerHost(host.name, ids.get(host.name), host.documents, host.earlier_ms, host.later_ms) for host in hosts]
