"""
The pages of the coordination store, for administrators: a description of the cluster, and the raw tree of ZooKeeper.
"""

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.decorators import permission_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from jobs.queries.cluster.coordination_page import CoordinationPage, ShownCluster, read_coordination, read_raw_tree
from jobs.ui.pages import page
from nodes.coordination.port import CoordinationError, LockSeen
from nodes.coordination.raw_tree import Branch, NoSuchPath
from nodes.database.address import database_dsn
from nodes.database.clock import read_clock
from nodes.distributed.store_views import uses_zookeeper
from nodes.models import Node
from nodes.web import formats

_administrators = permission_required("nodes.control_cluster", raise_exception=True)


@page
@_administrators
@require_safe
def coordination(request: HttpRequest) -> HttpResponse:
    seen = read_coordination(request.GET.get("cluster", ""), dsn=database_dsn())
    context = {
        "seen": seen,
        "uses_zookeeper": uses_zookeeper(),
        "cluster": None if seen.shown is None else _cluster(seen.shown, names=_names(seen), now=read_clock()),
    }
    return render(request, "ui/coordination.html", context)


@page
@_administrators
@require_safe
def tree(request: HttpRequest) -> HttpResponse:
    if not uses_zookeeper():
        raise Http404(_("This cluster does not use ZooKeeper. Its coordination store is the database."))
    number = request.GET.get("page", "1")
    branch, problem = None, ""
    try:
        branch = read_raw_tree(path=request.GET.get("path", ""), page=max(1, int(number)) if number.isdecimal() else 1)
    except NoSuchPath as error:
        raise Http404(str(error)) from error
    except CoordinationError as error:
        problem = str(error)
    shown = None if branch is None else _branch(branch, now=read_clock())
    return render(request, "ui/coordination_tree.html", {"branch": branch, "shown": shown, "problem": problem})


def _names(seen: CoordinationPage) -> Mapping[str, str]:
    """Return the names of the cluster's nodes by id. Only daemons have an id in the database."""
    assert seen.shown is not None
    ids = [node for node in (line.node for line in seen.shown.members) if _is_id(node)]
    return {str(node.id): f"{node.kind} {node.name}" for node in Node.objects.filter(id__in=ids)}


def _is_id(text: str) -> bool:
    try:
        return str(uuid.UUID(text)) == text
    except ValueError:
        return False


def _cluster(shown: ShownCluster, *, names: Mapping[str, str], now: dt.datetime) -> Mapping[str, Any]:
    return {
        "main": names.get(shown.main, shown.main) or _("No main manager"),
        "has_main": bool(shown.main),
        "term": formats.number(shown.term),
        "members": [
            {
                "node": line.node,
                "name": names.get(line.node, ""),
                "state": _("main") if line.is_main else _("gone") if line.is_gone else _("member"),
                "tone": "working" if line.is_main else "failed" if line.is_gone else "indexed",
                "jobs": ", ".join(line.jobs),
                "items": formats.number(line.items),
            }
            for line in shown.members
        ],
        "pools": [
            {"job": line.job, "items": formats.number(line.items), "placed": formats.number(line.placed)}
            for line in shown.pools
        ],
        "locks": [_lock(lock, names=names, now=now) for lock in shown.locks],
        "more_members": formats.more(shown.members_in_all - len(shown.members)),
        "more_pools": formats.more(shown.pools_in_all - len(shown.pools)),
        "more_locks": formats.more(shown.locks_in_all - len(shown.locks)),
    }


def _lock(lock: LockSeen, *, names: Mapping[str, str], now: dt.datetime) -> Mapping[str, str]:
    return {
        "item": f"{lock.item.job}/{lock.item.item}",
        "holder": names.get(lock.holder, lock.holder) or _("none (invalid lock data)"),
        "since": formats.moment(lock.since, now=now),
        "remaining": _("expired") if lock.has_expired else formats.duration(lock.remaining),
        "tone": "failed" if lock.has_expired else "indexed",
        "note": lock.note,
    }


def _branch(branch: Branch, *, now: dt.datetime) -> Mapping[str, Any]:
    return {
        "size": formats.size(branch.size),
        "changed": formats.moment(branch.changed_at, now=now),
        "in_all": formats.number(branch.in_all),
        "tree_nodes": [
            {
                "name": tree_node.name,
                "path": tree_node.path,
                "size": formats.size(tree_node.size),
                "version": formats.number(tree_node.version),
                "changed": formats.moment(tree_node.changed_at, now=now),
                "ephemeral": _("ephemeral (ends with its session)") if tree_node.is_ephemeral else "",
            }
            for tree_node in branch.tree_nodes
        ],
    }
