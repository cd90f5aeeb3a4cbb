"""The texts of the page of the cluster; see `nodes.web.screens` for the structure of a screen."""

import datetime as dt
from collections.abc import Sequence
from typing import Final

from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from jobs.queries.cluster.nodes import NodeLine
from jobs.queries.cluster.page import CheckLine, ClusterPage, EventLine, GroupTile, Held, RequestLine
from jobs.ui.nodes_screen import node_row
from jobs.words import failing_groups
from nodes.distributed.store_views import uses_zookeeper
from nodes.web import formats
from nodes.web.screens import Record

# Number of sizes of tiles. The group with the greatest weight has the largest tile.
_SIZES: Final = 8
# The tone (a colour class) of each kind of node event.
EVENT_TONES: Final = {
    "registered": "unchanged",
    "running": "indexed",
    "draining": "excluded",
    "stopped": "quiet",
    "marked_failed": "failed",
    "elected": "working",
    "resigned": "excluded",
    "settings": "unchanged",
    "given": "indexed",
    "moving": "excluded",
    "handed_over": "indexed",
    "asked": "unchanged",
}
# Kinds of events with sentences that do not name the node.
_UNNAMED: Final = frozenset({"elected", "resigned"})


def cluster_screen(page: ClusterPage, *, now: dt.datetime) -> Record:
    heaviest = max((tile.weight for held in (*page.held.values(), page.free) for tile in held.groups), default=0.0)
    main = next((node for node in page.managers if node.id == page.term.main), None)
    return {
        **_term(page, main, now=now),
        "managers_count": formats.number(page.totals.managers),
        "workers_count": formats.number(page.totals.workers),
        "groups_count": formats.number(page.totals.groups),
        "batches_count": formats.number(page.totals.batches),
        "in_flight_count": formats.number(page.totals.in_flight),
        "troubles": [failing_groups.row(group, now=now) for group in page.failing],
        "managers": [
            _manager(node, page.held.get(node.id, Held()), heaviest=heaviest, now=now) for node in page.managers
        ],
        "more_managers": more_nodes(page.totals.managers - len(page.managers)),
        "free": [_tile(tile, heaviest=heaviest) for tile in page.free.groups],
        "workers": [_worker(node, now=now) for node in page.workers],
        "more_workers": more_nodes(page.totals.workers - len(page.workers)),
        "terms": [term_row(event, now=now) for event in page.terms],
        "events": [event_row(event, now=now) for event in page.events],
        "requests": [request_row(request, now=now) for request in page.requests],
        "checks": [check_row(check, now=now) for check in page.checks],
        **verdict_of(page.checks),
    }


def _term(page: ClusterPage, main: NodeLine | None, *, now: dt.datetime) -> Record:
    if main is None:
        return {"main_name": _("No main manager"), "main_tone": "failed", "term": _election_in_words(page)}
    facts = {"term": formats.number(page.term.term), "duration": formats.duration(now - (page.term.since or now))}
    late = main.is_silent(now=now)
    return {
        "main_name": main.name,
        "main_tone": "failed" if late else "working",
        "term": _("main manager in term %(term)s, for %(duration)s") % facts,
    }


def _election_in_words(page: ClusterPage) -> str:
    if not page.managers:
        return _("Start one with “crawlctl runmanager”.")
    if uses_zookeeper():
        return _("ZooKeeper elects the main manager. No election is possible while ZooKeeper is unavailable.")
    return _("The oldest running manager becomes the main manager.")


def _heartbeat_in_words(node: NodeLine, *, now: dt.datetime) -> Record:
    """Return the time since the last heartbeat, and the time after which a silent node is marked failed."""
    silence = max(0.0, (now - node.heartbeat_at).total_seconds())
    return {
        "silence": _("%(age).1f s ago (fails at %(timeout)g s)") % {"age": silence, "timeout": node.timeout},
        "silence_amount": f"{min(silence, node.timeout):.1f}",
        "timeout_amount": f"{node.timeout:g}",
    }


def _manager(node: NodeLine, held: Held, *, heaviest: float, now: dt.datetime) -> Record:
    hidden = held.in_all - len(held.groups)
    groups = ngettext("%(n)s group", "%(n)s groups", held.in_all) % {"n": formats.number(held.in_all)}
    return {
        **node_row(node, now=now),
        **_heartbeat_in_words(node, now=now),
        "crown": "working" if node.is_main else "",
        "load": _("%(groups)s, weight %(weight)s") % {"groups": groups, "weight": f"{held.weight:g}"},
        "groups": [_tile(tile, heaviest=heaviest) for tile in held.groups],
        "hidden": _("and %(n)s groups of less weight") % {"n": formats.number(hidden)} if hidden else "",
        "drain_address": reverse("cluster-drain", args=[node.id]),
    }


def _worker(node: NodeLine, *, now: dt.datetime) -> Record:
    flushed = node.progress.get("flushed", 0)
    return {
        **node_row(node, now=now),
        **_heartbeat_in_words(node, now=now),
        "in_flight": formats.number(node.in_flight),
        "batches": formats.number(node.batches),
        "flushed": formats.number(int(flushed)),
        "tags": ", ".join(node.tags),
        "drain_address": reverse("cluster-drain", args=[node.id]),
    }


def more_nodes(hidden: int) -> str:
    return _("and %(n)s more on the page “All nodes”") % {"n": formats.number(hidden)} if hidden else ""


def _tile(tile: GroupTile, *, heaviest: float) -> Record:
    return {
        "key": str(tile.id),
        "name": tile.name.removeprefix("https://").removeprefix("http://") or str(tile.id),
        "says": _("group %(id)d: %(name)s") % {"id": tile.id, "name": tile.name},
        "weight": f"{tile.weight:g}",
        "size": size_of_tile(tile.weight, heaviest=heaviest),
        "tone": "excluded" if tile.is_moving else "working",
        "to": _moves_to(tile),
        "address": reverse("cluster-group", args=[tile.id]),
    }


def size_of_tile(weight: float, *, heaviest: float) -> str:
    """Return the size of a group's tile, from 1 to the largest."""
    return str(max(1, round(_SIZES * weight / heaviest))) if heaviest else "1"


def _moves_to(tile: GroupTile) -> str:
    if not tile.is_moving:
        return ""
    return f"→ {tile.destination}" if tile.destination else _("→ any manager")


def term_row(event: EventLine, *, now: dt.datetime) -> Record:
    return {
        "key": str(event.id),
        "at": formats.moment(event.at, now=now),
        "term": str(event.detail.get("term", "")),
        "who": event.node or _("a deleted node"),
    }


def event_row(event: EventLine, *, now: dt.datetime) -> Record:
    return {
        "key": str(event.id),
        "at": formats.moment(event.at, now=now),
        "message": f"{event.node}: {event.message}" if event.kind in _UNNAMED else event.message,
        "tone": EVENT_TONES.get(event.kind, "quiet"),
    }


def request_row(request: RequestLine, *, now: dt.datetime) -> Record:
    kind = _("%(kind)s (dry run)") % {"kind": request.kind} if request.dry_run else request.kind
    moved = _("%(arrived)s of %(moves)s moved") % {
        "arrived": formats.number(request.arrived),
        "moves": formats.number(request.moves),
    }
    return {
        "key": str(request.id),
        "at": formats.moment(request.asked_at, now=now),
        "kind": kind,
        "who": request.asked_by,
        "state": _("in progress") if request.state == "in_progress" else request.state,
        "tone": {"done": "indexed", "refused": "failed", "changed": "failed"}.get(request.state, "working"),
        "reason": request.reason or (moved if request.moves else ""),
        "arrived_amount": str(request.arrived),
        "moves_amount": str(max(1, request.moves)),
    }


def check_row(check: CheckLine, *, now: dt.datetime) -> Record:
    if check.checked_at is None:
        state, tone = _("not checked yet"), "waiting"
    elif check.found is None:
        state, tone = _("check timed out"), "excluded"
    elif check.found:
        state, tone = _("%(n)d violations") % {"n": check.found}, "failed"
    else:
        state, tone = _("no violations"), "indexed"
    return {
        "key": check.name,
        "says": check.says,
        "state": state,
        "tone": tone,
        "example": check.example,
        "at": formats.age(check.checked_at, now=now) if check.checked_at else "",
    }


def verdict_of(checks: Sequence[CheckLine]) -> Record:
    if any(check.found for check in checks):
        return {"verdict": _("Violated"), "verdict_tone": "failed"}
    if any(check.found is None for check in checks):
        return {"verdict": _("Not all checked yet"), "verdict_tone": "waiting"}
    return {"verdict": _("No violations"), "verdict_tone": "indexed"}
