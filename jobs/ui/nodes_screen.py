"""The texts of the page of nodes; see `nodes.web.screens` for the structure of a screen."""

import datetime as dt

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.partitions.this_partition import address_in, key_in
from jobs.queries.cluster.nodes import NodeEventLine, NodeLine, NodesPage
from nodes.lifecycle import CLUSTER_SCOPE, NodeKind
from nodes.web import formats
from nodes.web.screens import Record
from nodes.web.translated_words import translated


def nodes_screen(page: NodesPage, *, now: dt.datetime) -> Record:
    return {
        "live": [node_row(node, now=now) for node in page.live],
        "ended": [node_row(node, now=now) for node in page.ended],
        "events": [_node_event_row(event, now=now) for event in page.events],
    }


def node_row(node: NodeLine, *, now: dt.datetime) -> Record:
    now = node.read_at or now
    silence = (now - node.heartbeat_at).total_seconds()
    late = node.is_live and silence > node.timeout / 2
    return {
        "key": str(node.id),
        "name": node.name,
        "partition": _("In partition %(name)s") % {"name": node.partition} if node.partition else "",
        "kind": _("manager") if node.kind == NodeKind.MANAGER else _("worker"),
        "role": _("main") if node.is_main else "",
        "where": f"{node.host}, pid {node.pid}",
        "pages": node.address,
        "pages_address": address_in(node.partition, reverse("node-pages", args=[node.id])),
        "scope": "" if node.scope == CLUSTER_SCOPE else node.scope,
        "status": translated(node.status),
        "tone": _node_tone(node, late=late),
        "beat": formats.age(node.heartbeat_at, now=now),
        "beat_tone": "failed" if late else "quiet",
        "up": formats.duration((node.stopped_at or now) - node.started_at),
        "ended": formats.moment(node.stopped_at, now=now),
        "reason": node.reason,
        "holds": _holds(node),
        "claimed": formats.number(node.claimed) if node.limit else "",
        "limit": formats.number(node.limit) if node.limit else "",
        "claimed_amount": str(node.claimed),
        "limit_amount": str(max(1, node.limit)),
        "refused": formats.number(node.refused_writes),
        "refused_tone": "failed" if node.refused_writes else "quiet",
    }


def _node_tone(node: NodeLine, *, late: bool) -> str:
    if node.status == "failed" or late:
        return "failed"
    return {"running": "indexed", "draining": "excluded", "starting": "waiting"}.get(node.status, "quiet")


def _holds(node: NodeLine) -> str:
    if node.kind == NodeKind.MANAGER:
        return ngettext("%(n)d group of seeds", "%(n)d groups of seeds", node.groups) % {"n": node.groups}
    return ngettext("%(n)d batch", "%(n)d batches", node.batches) % {"n": node.batches}


def _node_event_row(event: NodeEventLine, *, now: dt.datetime) -> Record:
    who = f"{event.node} ({event.partition})".lstrip() if event.partition else event.node
    return {
        "key": key_in(event.partition, event.id),
        "at": formats.moment(event.at, now=now),
        "who": who,
        "message": event.message,
    }
