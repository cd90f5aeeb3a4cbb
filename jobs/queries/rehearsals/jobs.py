"""
The rehearsal of a change of a job: the documents, the outputs, the load of its hosts, and the starts of its schedule.

It shows the effects of the next full run under the changed job, compared with its present documents.
"""

import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import psycopg
from django.db import connection

from jobs.connectors.repository import registry
from jobs.connectors.repository.base import hash_of
from jobs.connectors.repository.kind import BadIdentifier, RepositoryKind, Ruled, SourceSettings
from jobs.connectors.repository.web.urls import bin_of
from jobs.guard.decision import Facts, HostShare, Thresholds, should_ask
from jobs.lifecycle.job import HopMode, Kind, Scan
from jobs.lifecycle.scan import choose_scan
from jobs.models import Lane, OutputConnection
from jobs.queries.rehearsals.all_partitions import Others, Readers, open_readers
from jobs.queries.rehearsals.comparing import Group
from jobs.queries.rehearsals.documents import Arrivals, ChangedRules, Compared, Progress, Reader, compare
from jobs.queries.rehearsals.limits import read_other_limits
from jobs.queue.pace.read_policies import read_policies
from jobs.throttling.limits import Limits, strictest
from jobs.throttling.policies import PolicyValues

_HOSTS_SHOWN: Final = 20
_WEB: Final = ("http://", "https://")


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """
    A job as a change would store it, with its outputs and its next starts `before`.

    `source` has its rules and seeds. `policies` are the policies of its seeds.
    """

    job: int
    connector: str
    kind: Kind
    source: SourceSettings
    hop_limits: Mapping[str, int]
    hop_mode: HopMode
    policies: Sequence[int]
    outputs: Sequence[int]
    outputs_before: Sequence[int]
    starts: Sequence[str]
    starts_before: Sequence[str]
    guard: Thresholds
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Loss:
    """The number of documents that would leave an output."""

    output: str
    documents: int


@dataclass(frozen=True, slots=True)
class HostLoad:
    """
    The documents of a job on a host, before and after, and the gap between two requests there (seconds).

    `gap` is 0 without a rate, and None if the host is denied.
    """

    host: str
    before: int
    after: int
    gap: float | None

    @property
    def seconds_before(self) -> float | None:
        """Return the shortest time of a full run on the host; None if no rate limits it."""
        return self.before * self.gap if self.gap else None

    @property
    def seconds_after(self) -> float | None:
        return self.after * self.gap if self.gap else None


@dataclass(frozen=True, slots=True)
class Rehearsal:
    """
    The effects of a change of a job.

    If `is_judged`, the rules of its source decide by addresses alone, so the numbers of documents are valid. The job
    has `documents` now. Documents leave for three reasons: `refused` by a rule, `unlinked` because no link leads to
    them any more, or `beyond` a hop limit. `at_the_end` counts documents at the greatest distance from the seeds that
    the rules allow. Their links are unknown. If `needs_approval`, the delete guard would hold the removals back until
    an operator approves them. `hosts` are the hosts with the largest changes. `notes` name the effects that the numbers
    leave out. The documents of `silent` partitions are missing.
    """

    documents: int
    is_judged: bool
    refused: Mapping[str, Group]
    unlinked: Group
    beyond: Group
    arrivals: Arrivals
    at_the_end: int
    losses: Sequence[Loss]
    needs_approval: bool
    hosts: Sequence[HostLoad]
    starts_before: Sequence[str]
    starts_after: Sequence[str]
    notes: Sequence[str]
    warnings: Sequence[str]
    silent: Sequence[str] = ()

    @property
    def dropped(self) -> int:
        return sum(group.number for group in (*self.refused.values(), self.unlinked, self.beyond))

    @property
    def staying(self) -> int:
        return self.documents - self.dropped


def read_rehearsal(wanted: Wanted, *, now: dt.datetime, note: Progress = lambda _read: None) -> Rehearsal:
    """
    Return the effects of a change on the documents of all partitions. The caller has begun a transaction, which streams them.

    Raises:
        ValueError: the stored rules cannot be used.
    """
    among: frozenset[str] | None = None
    outputs = {*wanted.outputs, *wanted.outputs_before}
    while True:
        connections: Mapping[str, psycopg.Connection[Any]] = {}
        try:
            with open_readers(wanted.job, outputs, among=among, note=note) as (others, connections):
                return _read(wanted, others, now=now, note=note)
        except psycopg.Error:
            # A partition ended its connection. In the next attempt, it counts as silent.
            left = frozenset(name for name, one in connections.items() if not one.broken)
            if len(left) == len(connections):
                raise
            among = left


def _read(wanted: Wanted, others: Others, *, now: dt.datetime, note: Progress) -> Rehearsal:
    kind = registry.find(wanted.connector)
    compared, is_judged = _compare(wanted, kind, others, note), isinstance(kind, Ruled)
    names = dict(OutputConnection.objects.filter(pk__in=compared.leaving).values_list("pk", "name"))
    return Rehearsal(
        documents=compared.documents,
        is_judged=is_judged,
        refused=dict(sorted(compared.refused.items(), key=lambda one: -one[1].number)),
        unlinked=compared.unlinked,
        beyond=compared.beyond,
        arrivals=compared.arrivals,
        at_the_end=compared.at_the_end,
        losses=[Loss(names.get(output, ""), number) for output, number in sorted(compared.leaving.items()) if number],
        needs_approval=should_ask(_removals(wanted.job, others, compared), wanted.guard),
        hosts=_loads(wanted, kind, others, compared, now=now),
        starts_before=wanted.starts_before,
        starts_after=wanted.starts,
        notes=[*_missing(others), *_notes(wanted, kind, is_judged=is_judged)],
        warnings=wanted.warnings,
        silent=others.silent,
    )


# --- Documents -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _AllAdmitted:
    """The rules of a source that decides only when it reads a document."""

    max_depth: int | None = field(default=None, init=False)

    def why_not(self, _identifier: str) -> str | None:
        return None

    def link_to(self, identifier: str) -> str:
        return identifier


def _compare(wanted: Wanted, kind: RepositoryKind, others: Others, note: Progress) -> Compared:
    redirects = [*wanted.source.redirects, *others.redirects] if others.redirects else wanted.source.redirects
    rules = kind.rules(replace(wanted.source, redirects=redirects)) if isinstance(kind, Ruled) else _AllAdmitted()
    changed = ChangedRules(
        rules=rules,
        seeds=frozenset(_hashes(wanted.source.seeds, kind)),
        removes_unreached=isinstance(kind, Ruled) and _removes_unreached(wanted, kind),
        can_be_followed=_can_be_followed(wanted),
        hop_limits=wanted.hop_limits,
        outputs=[output for output in wanted.outputs_before if output in wanted.outputs],
        taken_away=[output for output in wanted.outputs_before if output not in wanted.outputs],
    )
    connection.ensure_connection()
    own = Reader(connection.connection, wanted.job, note)
    return compare(Readers([own, *others.readers]) if others.readers else own, changed)


def _hashes(seeds: Sequence[str], kind: RepositoryKind) -> list[str]:
    hashes = []
    for seed in seeds:
        try:
            hashes.append(hash_of(kind.canonical(seed)))
        except BadIdentifier:
            # A seeding skips addresses that are no longer valid.
            continue
    return hashes


def _removes_unreached(wanted: Wanted, kind: RepositoryKind) -> bool:
    """True if a full run removes documents to which no link leads. The next run after an edit of the rules is full."""
    scan = choose_scan(kind.model, kind=wanted.kind, minimal=False, from_the_beginning=True)
    return scan == Scan.FULL


def _can_be_followed(wanted: Wanted) -> bool:
    """True if the stored links decide which documents are within the hop limits."""
    return not wanted.hop_limits or wanted.hop_mode == HopMode.ACCURATE


def _missing(others: Others) -> list[str]:
    """Return a sentence for each partition whose documents are missing."""
    return [
        f"Partition {name} does not answer. Its documents are not counted, and documents that only its pages link to count as leaving."
        for name in others.silent
    ]


def _notes(wanted: Wanted, kind: RepositoryKind, *, is_judged: bool) -> list[str]:
    notes = []
    if not is_judged:
        notes.append(
            f"A source of the kind {kind.label} decides only when it reads a document, so rules are not compared."
        )
    elif not _can_be_followed(wanted):
        notes.append(
            f"Links that no longer exist count for the hop limits in the mode {wanted.hop_mode}, so limits are not compared."
        )
    elif not _removes_unreached(wanted, kind):
        notes.append("Runs of this job keep documents to which no link leads.")
    return notes


def _removals(job_id: int, others: Others, compared: Compared) -> Facts:
    """
    Return the documents that leave the outputs and that stay in the outputs, as the delete guard counts them: in all,
    and by host.
    """
    leaving, held = Counter[str](), Counter[str]()
    for lane, _bin_id, name in _lanes_of(job_id, others):
        leaving[name] += compared.lost.get((lane, True), 0)
        held[name] += compared.before.get((lane, True), 0)
    hosts = [HostShare(name, number, held[name] - number) for name, number in leaving.items() if number]
    return Facts(leaving=leaving.total(), staying=held.total() - leaving.total(), hosts=hosts)


# --- Hosts ---------------------------------------------------------------------------------------


def _loads(
    wanted: Wanted, kind: RepositoryKind, others: Others, compared: Compared, *, now: dt.datetime
) -> list[HostLoad]:
    before, lost, bins = Counter[str](), Counter[str](), dict[str, int]()
    for lane, bin_id, name in _lanes_of(wanted.job, others):
        for is_held in (False, True):
            before[name] += compared.before.get((lane, is_held), 0)
            lost[name] += compared.lost.get((lane, is_held), 0)
        if bin_id is not None:
            bins[name] = bin_id
    arriving = Counter(bin_of(url) for url in compared.arriving if url.startswith(_WEB))
    names = sorted(
        {name for name in {*before, *arriving} if before[name] or arriving[name]},
        key=lambda name: (-(lost[name] + arriving[name]), -before[name], name),
    )[:_HOSTS_SHOWN]
    limits = _limits_of(names, bins, wanted, kind, now=now)
    return [
        HostLoad(name, before[name], before[name] - lost[name] + arriving[name], _gap_in(limits[name]))
        for name in names
    ]


def _lanes_of(job_id: int, others: Others) -> Iterator[tuple[int, int | None, str]]:
    """Yield the lanes of a job, each with the id and the name of its bin; the id is None in another partition."""
    lanes = Lane.objects.filter(seed__job=job_id).values_list("pk", "bin_id", "bin__name")
    yield from lanes.iterator(chunk_size=10_000)
    yield from ((lane, None, name) for lane, name in others.lanes.items())


def _limits_of(
    names: Sequence[str], bins: Mapping[str, int], wanted: Wanted, kind: RepositoryKind, *, now: dt.datetime
) -> dict[str, Limits | None]:
    """Return the limits of hosts while the job runs: of its policies, and of all other sources."""
    policies: Sequence[PolicyValues] = []
    if wanted.policies:
        with connection.cursor() as cursor:
            policies = [read_policies(cursor, wanted.policies)[number] for number in wanted.policies]
    has_policy = bool(policies)
    known = [bins[name] for name in names if name in bins]
    others = read_other_limits(known, but=wanted.policies, with_usual=not has_policy, now=now)
    usual = [] if has_policy else [Limits(kind.bins.requests, kind.bins.gap)]
    found = {}
    for name in names:
        own = [policy.for_bin(name, now) for policy in policies]
        found[name] = strictest([*own, *(others.get(bins[name], usual) if name in bins else usual)])
    return found


def _gap_in(limits: Limits | None) -> float | None:
    if limits is None:
        return 0.0
    return None if limits.denied else limits.gap
