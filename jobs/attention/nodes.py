"""Lines about nodes that failed and were not replaced, silent nodes, and a cluster without a manager or a worker."""

import datetime as dt
import uuid
from typing import Final, NamedTuple

from django.db import connection
from django.urls import reverse
from django.utils.translation import gettext as _

from jobs.attention.lines import FOUND, AttentionLine, with_rest
from jobs.lifecycle.job import Phase
from jobs.models import Job
from jobs.queries.cluster.nodes import NodeLine, read_live_nodes
from nodes.lifecycle import CLUSTER_SCOPE, LIVE_STATUSES, NodeKind

# Time for which a failed node that was not replaced is listed.
_LISTED: Final = dt.timedelta(days=1)

# Failed nodes that no later node of the same kind, name and machine has replaced, the newest first. Rows of ended nodes
# accumulate, so an index finds the nodes that ended in the listed time.
_LOST: Final = """
SELECT id, kind, name, host, reason, stopped_at FROM nodes_node AS lost
 WHERE status = 'failed' AND stopped_at > %(after)s AND scope = %(scope)s
   AND NOT EXISTS (SELECT FROM nodes_node AS ended
                    WHERE ended.status IN ('failed', 'stopped') AND ended.stopped_at > %(after)s
                      AND (ended.scope, ended.kind, ended.name, ended.host) = (lost.scope, lost.kind, lost.name, lost.host)
                      AND ended.started_at > lost.started_at)
   AND NOT EXISTS (SELECT FROM nodes_node AS live
                    WHERE live.status = ANY(%(live)s)
                      AND (live.scope, live.kind, live.name, live.host) = (lost.scope, lost.kind, lost.name, lost.host)
                      AND live.started_at > lost.started_at)
 ORDER BY stopped_at DESC, id LIMIT %(found)s
"""


class _Lost(NamedTuple):
    id: uuid.UUID
    kind: str
    name: str
    host: str
    reason: str
    stopped_at: dt.datetime


def lost_nodes(now: dt.datetime) -> list[AttentionLine]:
    """
    Return a line for each node that failed and was not replaced.

    A node of the same kind and name that started later on the same machine has replaced it.
    """
    with connection.cursor() as cursor:
        cursor.execute(
            _LOST, {"after": now - _LISTED, "scope": CLUSTER_SCOPE, "live": list(LIVE_STATUSES), "found": FOUND}
        )
        lost_ones = [_Lost(*row) for row in cursor.fetchall()]
    found = [
        AttentionLine(
            kind="node_lost",
            key=str(lost.id),
            subject=lost.name,
            sentence=_(
                "The %(kind)s %(name)s on %(host)s failed: %(why)s. Its documents went back to the queue. "
                "Start it again, or see its log."
            )
            % {
                "kind": _kind(lost.kind),
                "name": lost.name,
                "host": lost.host,
                "why": lost.reason.rstrip(".") or _("no reason is known"),
            },
            since=lost.stopped_at,
            link=reverse("nodes"),
        )
        for lost in lost_ones
    ]
    return with_rest(found, subject=_("Nodes"), link=reverse("nodes"))


def silent_nodes(now: dt.datetime) -> list[AttentionLine]:
    """
    Return a line for each live node that has been silent for its timeout, and that is not yet marked failed.
    """
    found = [
        AttentionLine(
            kind="node_silent",
            key=str(node.id),
            subject=node.name,
            sentence=_("The %(kind)s %(name)s on %(host)s sends no heartbeats. Check its process and its machine.")
            % {"kind": _kind(node.kind), "name": node.name, "host": node.host},
            since=node.heartbeat_at,
            link=reverse("nodes"),
        )
        for node in _of_the_cluster()
        if node.is_silent(now=now)
    ]
    return with_rest(found, subject=_("Nodes"), link=reverse("nodes"))


def missing_managers_and_workers(now: dt.datetime) -> list[AttentionLine]:
    """Return a line if the cluster lacks a manager, and one if it lacks a worker, while jobs run."""
    if not Job.objects.filter(node_scope=CLUSTER_SCOPE).exclude(phase=Phase.INACTIVE).exists():
        return []
    kinds = {node.kind for node in _of_the_cluster() if not node.is_silent(now=now)}
    wanted = (
        (NodeKind.MANAGER, _("No job makes progress: no manager is running. Start one with “crawlctl runmanager”.")),
        (NodeKind.WORKER, _("No job makes progress: no worker is running. Start one with “crawlctl runworker”.")),
    )
    return [
        AttentionLine(
            kind=f"no_{kind}", key=kind, subject=_kind(kind), sentence=sentence, since=None, link=reverse("nodes")
        )
        for kind, sentence in wanted
        if kind not in kinds
    ]


def _of_the_cluster() -> list[NodeLine]:
    return [node for node in read_live_nodes() if node.scope == CLUSTER_SCOPE]


def _kind(kind: str) -> str:
    return _("manager") if kind == NodeKind.MANAGER else _("worker")
