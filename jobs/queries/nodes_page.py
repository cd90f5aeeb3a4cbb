"""What the page of nodes shows: who is there, who is main, and what each holds."""

import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.db import connection
from django.db.models import Q

from nodes.lifecycle import CLUSTER_SCOPE, LIVE_STATUSES, NodeKind
from nodes.models import MainTerm, Node, NodeEvent

_ENDED_SHOWN: Final = 20
_EVENTS_SHOWN: Final = 30

# Sent batches and claimed documents have partial indexes: this reads what is in work and nothing else.
_HELD: Final = """
SELECT node.id,
       (SELECT count(*) FROM jobs_throttlegroup AS held WHERE held.owner_id = node.id) AS groups,
       (SELECT count(*) FROM jobs_batch AS batch WHERE batch.worker_id = node.id AND batch.state = 'sent') AS batches,
       (SELECT count(*) FROM jobs_batch AS batch JOIN jobs_queueitem AS item ON item.batch_id = batch.id
         WHERE batch.worker_id = node.id AND batch.state = 'sent') AS claimed
  FROM unnest(%(nodes)s::uuid[]) AS node(id)
"""


@dataclass(frozen=True, slots=True)
class NodeLine:
    """
    A node and what it holds. `claimed` documents are taken and not flushed, at most `limit` of them;
    `progress` is what its work loop last said of itself.
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
    groups: int
    batches: int
    claimed: int
    limit: int
    refused_writes: int
    progress: Mapping[str, Any]

    @property
    def in_flight(self) -> int:
        """Documents that it processes just now."""
        return int(self.progress.get("in_flight", 0))

    def is_silent(self, *, now: dt.datetime) -> bool:
        """It has not beaten for longer than it may: soon somebody marks it failed, or nobody is there to do so."""
        return self.is_live and (now - self.heartbeat_at).total_seconds() > self.timeout


@dataclass(frozen=True, slots=True)
class NodeEventLine:
    id: int
    at: dt.datetime
    node: str
    message: str


@dataclass(frozen=True, slots=True)
class NodesPage:
    live: Sequence[NodeLine]
    ended: Sequence[NodeLine]
    events: Sequence[NodeEventLine]


def read_nodes_page() -> NodesPage:
    """Read live nodes, those that ended last, and their journal."""
    ended = Node.objects.filter(~Q(status__in=LIVE_STATUSES)).order_by("-stopped_at", "id")[:_ENDED_SHOWN]
    events = NodeEvent.objects.select_related("node").order_by("-id")[:_EVENTS_SHOWN]
    return NodesPage(
        live=read_live_nodes(),
        ended=[_line(node, is_main=False, held=(0, 0, 0)) for node in ended],
        events=[
            NodeEventLine(id=event.pk, at=event.at, node=event.node.name if event.node else "", message=event.message)
            for event in events
        ],
    )


def read_address_of_pages(node_id: uuid.UUID) -> str:
    """Return where a live node serves pages; '' if it does not."""
    found = Node.objects.filter(pk=node_id, status__in=LIVE_STATUSES).values_list("address", flat=True)
    return next(iter(found), "")


def read_live_nodes() -> list[NodeLine]:
    """Read the nodes that are alive and what they hold: the shared scope first, the main before others."""
    live = list(Node.objects.filter(status__in=LIVE_STATUSES))
    mains = set(MainTerm.objects.filter(resigned=False).values_list("main_id", flat=True))
    held = _read_held([node.pk for node in live])
    lines = [_line(node, is_main=node.pk in mains, held=held.get(node.pk, (0, 0, 0))) for node in live]
    return sorted(
        lines, key=lambda line: (line.scope != CLUSTER_SCOPE, line.scope, line.kind, not line.is_main, line.name)
    )


def _read_held(nodes: Sequence[uuid.UUID]) -> dict[uuid.UUID, tuple[int, int, int]]:
    with connection.cursor() as cursor:
        cursor.execute(_HELD, {"nodes": list(nodes)})
        return {node_id: (groups, batches, claimed) for node_id, groups, batches, claimed in cursor.fetchall()}


def _line(node: Node, *, is_main: bool, held: tuple[int, int, int]) -> NodeLine:
    groups, batches, claimed = held
    return NodeLine(
        id=node.pk,
        name=node.name,
        kind=node.kind,
        scope=node.scope,
        status=node.status,
        reason=node.reason,
        is_main=is_main,
        is_live=node.status in LIVE_STATUSES,
        heartbeat_at=node.heartbeat_at,
        timeout=node.timeout_seconds,
        started_at=node.started_at,
        stopped_at=node.stopped_at,
        host=node.host,
        pid=node.pid,
        address=node.address,
        tags=node.tags,
        groups=groups,
        batches=batches,
        claimed=claimed,
        limit=_limit(node),
        refused_writes=node.refused_writes,
        progress=node.progress,
    )


def _limit(node: Node) -> int:
    """What the worker itself says that it may claim by now; before its first beat what it registered with."""
    if node.kind != NodeKind.WORKER:
        return 0
    return int(node.progress.get("capacity", node.capacity))
