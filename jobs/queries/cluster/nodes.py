"""The content of the page of nodes: the live nodes, the main manager, and the load of each node."""

import datetime as dt
import heapq
import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any, Final, NamedTuple

from django.db import connection

from jobs.partitions.last_answers import HeldAnswers
from jobs.partitions.merged import Merged, Silent, read_everywhere
from jobs.queries.frequent_queries import FrequentQuery
from jobs.queue.sql.low_water import LOWEST_BATCH
from nodes.database.clock import read_clock
from nodes.database.shared_results import cached_in_moment
from nodes.lifecycle import CLUSTER_SCOPE, FINAL_STATUSES, LIVE_STATUSES, NodeKind, NodeStatus
from nodes.models import Node, NodeEvent

_ENDED_SHOWN: Final = 20
_EVENTS_SHOWN: Final = 30
_NEVER: Final = dt.datetime.fromtimestamp(0, dt.UTC)

# Columns for a line of a node. Its settings are not read, because they are many and not shown.
_COLUMNS: Final = """
       node.id, node.name, node.kind, node.scope, node.status, node.reason, node.heartbeat_at, node.timeout_seconds, node.started_at,
       node.stopped_at, node.host, node.pid, node.address, node.tags, node.capacity, node.refused_writes, node.progress
"""
# Reads live nodes. The sent batches of all nodes are counted in one read of their partial index.
_LIVE: Final = f"""
SELECT {_COLUMNS},
       EXISTS (SELECT FROM nodes_mainterm AS term WHERE term.main_id = node.id AND NOT term.resigned) AS is_main,
       coalesce(sent.batches, 0) AS batches
  FROM nodes_node AS node
  LEFT JOIN (SELECT worker_id, count(*) AS batches FROM jobs_batch
              WHERE state = 'sent' AND id >= {LOWEST_BATCH} GROUP BY worker_id) AS sent ON sent.worker_id = node.id
 WHERE node.status = ANY(%(statuses)s)
"""
_ENDED: Final = f"""
SELECT {_COLUMNS}, false AS is_main, 0 AS batches FROM nodes_node AS node
 WHERE node.status = ANY(%(statuses)s) ORDER BY node.stopped_at DESC, node.id LIMIT {_ENDED_SHOWN}
"""
_EVENTS: Final = FrequentQuery(
    lambda: NodeEvent.objects.order_by("-id").values_list("pk", "at", "node__name", "message")[:_EVENTS_SHOWN]
)


@dataclass(frozen=True, slots=True)
class NodeLine:
    """
    A node and its load. `progress` is the report of its work loop with its last heartbeat.

    The report also has the `groups` of a manager, and the number of `claimed` documents of a worker, which are taken
    and not flushed, at most `limit`.
    """

    id: uuid.UUID
    name: str
    kind: str
    scope: str
    status: str
    reason: str
    is_main: bool
    is_live: bool
    heartbeat_at: dt.datetime
    timeout: float
    started_at: dt.datetime
    stopped_at: dt.datetime | None
    host: str
    pid: int
    address: str
    tags: Sequence[str]
    batches: int
    limit: int
    refused_writes: int
    progress: Mapping[str, Any]
    # Another partition that has the node ('' if this partition has it), and the moment of the read by the clock of that
    # partition's database.
    partition: str = ""
    read_at: dt.datetime | None = None

    def of_partition(self, name: str, *, read_at: dt.datetime) -> "NodeLine":
        """
        Return the node, marked as a node of another partition. Its silence was measured when it was read.
        """
        return replace(self, partition=name, read_at=read_at)

    @property
    def groups(self) -> int:
        return int(self.progress.get("groups", 0)) if self.is_live else 0

    @property
    def claimed(self) -> int:
        return int(self.progress.get("claimed", 0)) if self.is_live else 0

    @property
    def in_flight(self) -> int:
        """Return the number of documents that the node has in progress."""
        return int(self.progress.get("in_flight", 0))

    def is_silent(self, *, now: dt.datetime) -> bool:
        """
        True if the node has been silent for longer than its timeout, and no main manager has marked it failed yet.
        """
        return self.is_live and (now - self.heartbeat_at).total_seconds() > self.timeout


@dataclass(frozen=True, slots=True)
class NodeEventLine:
    id: int
    at: dt.datetime
    node: str
    message: str
    partition: str = ""


@dataclass(frozen=True, slots=True)
class NodesPage:
    live: Sequence[NodeLine]
    ended: Sequence[NodeLine]
    events: Sequence[NodeEventLine]
    silent: Sequence[Silent] = ()


class _Row(NamedTuple):
    """A node as a row: `_COLUMNS` and its load. `progress` is JSON."""

    id: uuid.UUID
    name: str
    kind: str
    scope: str
    status: str
    reason: str
    heartbeat_at: dt.datetime
    timeout: float
    started_at: dt.datetime
    stopped_at: dt.datetime | None
    host: str
    pid: int
    address: str
    tags: Sequence[str]
    capacity: int
    refused_writes: int
    progress: str
    is_main: bool
    batches: int


def read_nodes_page() -> NodesPage:
    """Read live nodes, recently ended nodes, and their journal."""
    return NodesPage(
        live=read_live_nodes(),
        ended=_read(_ENDED, FINAL_STATUSES),
        events=[
            NodeEventLine(id=key, at=at, node=node or "", message=message) for key, at, node, message in _EVENTS.rows()
        ],
    )


def read_nodes_everywhere() -> NodesPage:
    """Read the nodes of all partitions: live nodes by partition, the other nodes and the journal by time."""
    return _together(read_everywhere(read_nodes_page, _read_elsewhere))


def read_nodes_for_open_page() -> NodesPage:
    """Read the nodes of all partitions. Figures of other partitions may be some seconds old."""
    own, cached = read_nodes_page(), _cached.answers()
    return own if cached is None else _together(cached.with_own(own))


def _together(found: Merged[NodesPage]) -> NodesPage:
    pages = [found.own, *(page for _name, page in sorted(found.others.items()))]
    if len(pages) == 1:
        return replace(found.own, silent=found.silent)
    ended = heapq.merge(*(page.ended for page in pages), key=_ended_at, reverse=True)
    events = heapq.merge(*(page.events for page in pages), key=lambda event: event.at, reverse=True)
    return NodesPage(
        live=[node for page in pages for node in page.live],
        ended=list(islice(ended, _ENDED_SHOWN)),
        events=list(islice(events, _EVENTS_SHOWN)),
        silent=found.silent,
    )


def _ended_at(node: NodeLine) -> dt.datetime:
    return node.stopped_at or _NEVER


def _read_elsewhere(name: str) -> NodesPage:
    page, now = read_nodes_page(), read_clock()
    return NodesPage(
        live=[node.of_partition(name, read_at=now) for node in page.live],
        ended=[node.of_partition(name, read_at=now) for node in page.ended],
        events=[replace(event, partition=name) for event in page.events],
    )


_cached: Final = HeldAnswers(_read_elsewhere)


def read_address_of_pages(node_id: uuid.UUID) -> str:
    """Return the address of a live node's pages; '' if it has none."""
    found = Node.objects.filter(pk=node_id, status__in=LIVE_STATUSES).values_list("address", flat=True)
    return next(iter(found), "")


@cached_in_moment
def read_live_nodes() -> list[NodeLine]:
    """Read the live nodes and their load: the shared scope first, the main manager before others."""
    lines = _read(_LIVE, LIVE_STATUSES)
    return sorted(
        lines, key=lambda line: (line.scope != CLUSTER_SCOPE, line.scope, line.kind, not line.is_main, line.name)
    )


def _read(question: str, statuses: Iterable[NodeStatus]) -> list[NodeLine]:
    with connection.cursor() as cursor:
        cursor.execute(question, {"statuses": [str(status) for status in statuses]})
        return [_line(_Row(*row)) for row in cursor.fetchall()]


def _line(node: _Row) -> NodeLine:
    progress = json.loads(node.progress)
    return NodeLine(
        id=node.id,
        name=node.name,
        kind=node.kind,
        scope=node.scope,
        status=node.status,
        reason=node.reason,
        is_main=node.is_main,
        is_live=node.status in LIVE_STATUSES,
        heartbeat_at=node.heartbeat_at,
        timeout=node.timeout,
        started_at=node.started_at,
        stopped_at=node.stopped_at,
        host=node.host,
        pid=node.pid,
        address=node.address,
        tags=node.tags,
        batches=node.batches,
        limit=_limit(node, progress),
        refused_writes=node.refused_writes,
        progress=progress,
    )


def _limit(node: _Row, progress: Mapping[str, Any]) -> int:
    """Return the worker's own report of its limit of claims; before its first heartbeat, its limit at registration."""
    if node.kind != NodeKind.WORKER:
        return 0
    return int(progress.get("capacity", node.capacity))
