"""The observation of the cluster during a drill, and the report on it."""

import time
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final
from uuid import UUID

import psycopg
from psycopg.rows import class_row

from crawlctl.drill.faults import Fault, Target, Victim
from nodes.lifecycle import FINAL_STATUSES

_VICTIM: Final = """
SELECT victim.status, victim.refused_writes AS refused,
       EXISTS (SELECT FROM nodes_mainterm WHERE scope = victim.scope AND NOT resigned AND main_id <> victim.id) AS has_other_main,
       EXISTS (SELECT FROM jobs_throttlegroup WHERE owner_id = victim.id) AS owns,
       (SELECT count(*) FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id
         WHERE batch.worker_id = victim.id) AS claims
  FROM nodes_node AS victim WHERE victim.id = %(victim)s
"""
_NODES: Final = """
SELECT node.id, node.status, node.heartbeat_at > clock_timestamp() - make_interval(secs => %(since)s) AS has_beaten
  FROM nodes_node AS node WHERE node.scope = %(scope)s AND (node.stopped_at IS NULL OR node.id = ANY(%(nodes)s))
"""


@dataclass(frozen=True, slots=True)
class _VictimSeen:
    status: str
    refused: int
    has_other_main: bool
    owns: bool
    claims: int


@dataclass(frozen=True, slots=True)
class _NodeSeen:
    id: UUID
    status: str
    has_beaten: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """One request that a site saw. `at` is in seconds of this machine's monotonic clock."""

    at: float
    host: str
    address: str
    is_page: bool


@dataclass(slots=True, kw_only=True)
class Report:
    """
    The result of a drill. Moments are seconds since the fault; None for events that did not happen or were not
    expected.

    - `detected`: the node was marked failed.
    - `took_over`: another node is main manager.
    - `regrouped`: the node owns none of its `groups` any more.
    - `returned`: the node claims none of its `documents` any more.
    - `restored`: after a cut, all nodes have beaten again. `failed` is the number of nodes marked failed during the
      cut.
    - `fetched`: the first request after all these events.
    - `pause`: the longest time without any request.
    - `refetched`: pages that were requested again although they had been answered before; known in a sandbox only.
    - `pace`: the pace at the shortest gap between two requests to a host, in percent of the allowed pace (more than 100
    is too fast); known in a sandbox only.
    """

    fault: Fault
    whom: Target
    node: str
    where: str
    timeout: float
    beat: float
    documents: int = 0
    groups: int = 0
    detected: float | None = None
    took_over: float | None = None
    regrouped: float | None = None
    returned: float | None = None
    restored: float | None = None
    failed: int = 0
    fetched: float | None = None
    pause: float | None = None
    refetched: int | None = None
    pace: float | None = None
    refused: int = 0
    missing: list[str] = field(default_factory=list)

    @property
    def is_good(self) -> bool:
        return not self.missing

    @property
    def settled(self) -> float:
        """Return the seconds from the fault to the last expected event."""
        return last_moment(self.as_facts())

    def as_facts(self) -> dict[str, Any]:
        return asdict(self)


def last_moment(facts: Mapping[str, Any]) -> float:
    """Return the last moment of the expected events in the facts of a report."""
    return max(facts.get(name) or 0.0 for name in ("detected", "took_over", "regrouped", "returned", "restored"))


class Observation:
    """Watches a victim. Construct it at the moment of the fault."""

    def __init__(self, connection: psycopg.Connection[Any], victim: Victim, report: Report) -> None:
        self._connection, self._victim, self._report = connection, victim, report
        self.began_at = time.monotonic()

    def observe(self) -> None:
        with self._connection.cursor(row_factory=class_row(_VictimSeen)) as cursor:
            seen = cursor.execute(_VICTIM, {"victim": self._victim.id}).fetchone()
        assert seen is not None
        after, report = time.monotonic() - self.began_at, self._report
        if seen.status in FINAL_STATUSES and report.detected is None:
            report.detected = after
        if self._victim.is_main and seen.has_other_main and report.took_over is None:
            report.took_over = after
        if report.groups and not seen.owns and report.regrouped is None:
            report.regrouped = after
        # Documents count as returned only after the node was marked failed: before, it may release or write them by
        # itself.
        if report.documents and report.detected is not None and not seen.claims and report.returned is None:
            report.returned = after
        report.refused = seen.refused

    @property
    def awaited(self) -> list[str]:
        """Return the expected events that have not happened yet, in words."""
        report = self._report
        steps = [(report.detected, "the node was not marked failed")]
        if self._victim.is_main:
            steps.append((report.took_over, "no other manager became main manager"))
        if report.groups:
            steps.append((report.regrouped, "its groups were not given to others"))
        if report.documents:
            steps.append((report.returned, "its documents did not return to the queue"))
        return [words for moment, words in steps if moment is None]


class OutageObservation:
    """Watches whether all nodes of a scope survive an outage of their database."""

    def __init__(self, connection: psycopg.Connection[Any], report: Report, *, scope: str) -> None:
        self._connection, self._report, self._scope = connection, report, scope
        self.began_at = time.monotonic()
        self._ended_at: float | None = None
        self._nodes: list[UUID] = []
        self._nodes = [node.id for node in self._read_nodes(since=0.0)]

    def end(self) -> None:
        """Note that the injected outage has ended."""
        self._ended_at = time.monotonic()

    def observe(self) -> None:
        ended_at = self._ended_at
        nodes = self._read_nodes(since=0.0 if ended_at is None else time.monotonic() - ended_at)
        self._report.failed = sum(node.status in FINAL_STATUSES for node in nodes)
        if ended_at is not None and self._report.restored is None and all(node.has_beaten for node in nodes):
            self._report.restored = time.monotonic() - self.began_at

    @property
    def awaited(self) -> list[str]:
        """
        Return texts for the expected events that have not happened yet, and for unexpected events that have happened.
        """
        wrong = [] if self._report.restored is not None else ["not all nodes came back"]
        return [*wrong, *(["nodes were marked failed"] if self._report.failed else [])]

    def _read_nodes(self, *, since: float) -> list[_NodeSeen]:
        facts = {"scope": self._scope, "since": since, "nodes": self._nodes}
        with self._connection.cursor(row_factory=class_row(_NodeSeen)) as cursor:
            return cursor.execute(_NODES, facts).fetchall()


def judge_requests(report: Report, requests: Iterable[Request], *, began_at: float, gap: float) -> None:
    """
    Complete a report from the requests that the site saw. `gap` is the minimum gap of the crawl (seconds).
    """
    last_of_host: dict[str, float] = {}
    seen: set[str] = set()
    before = began_at
    longest, narrowest, again = 0.0, float("inf"), 0
    for request in sorted(requests, key=lambda request: request.at):
        if request.host in last_of_host:
            narrowest = min(narrowest, request.at - last_of_host[request.host])
        last_of_host[request.host] = request.at
        if request.at >= began_at:
            longest, before = max(longest, request.at - before), request.at
            again += request.is_page and request.address in seen
            if report.fetched is None and request.at >= began_at + report.settled:
                report.fetched = request.at - began_at
        if request.is_page:
            seen.add(request.address)
    report.pause, report.refetched = longest, again
    report.pace = 100 * gap / narrowest if 0.0 < narrowest < float("inf") else None
    if report.fetched is None:
        report.missing.append("nothing was fetched any more")
