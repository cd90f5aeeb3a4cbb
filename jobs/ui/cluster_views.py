"""The page of the cluster, and the pages on which administrators send requests. Each request shows its plan first."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.partitions import this_partition
from jobs.queries.cluster.all_partitions import read_clusters
from jobs.queries.cluster.page import read_group, read_node_of_the_cluster
from jobs.ui.clusters_screen import clusters_screen
from jobs.ui.pages import page
from jobs.verbs import cluster as cluster_verbs
from nodes.database.clock import read_clock
from nodes.errors import NotDone
from nodes.lifecycle import NodeKind
from nodes.models import ClusterRequest
from nodes.web.pages import user_with_permission


@page
@require_safe
def cluster(request: HttpRequest) -> HttpResponse:
    screen = clusters_screen(read_clusters(now=read_clock()))
    return render(request, "ui/cluster.html", {"screen": screen, "topic": "cluster"})


@page
@require_POST
def rebalance(request: HttpRequest) -> HttpResponse:
    """Show the main manager's plan that spreads the groups evenly over the managers. With `go`, execute the plan."""
    name = user_with_permission(request, "nodes.control_cluster")
    dry_run = "go" not in request.POST
    answer = _ask(request, lambda: cluster_verbs.rebalance(dry_run=dry_run, made_by=name, now=read_clock()))
    if answer is None or not dry_run or answer.answer is None:
        return redirect("cluster")
    return render(
        request, "ui/cluster_plan.html", {"plan": _plan(answer.answer), "partition": this_partition.control_name()}
    )


@page
@require_http_methods(["GET", "HEAD", "POST"])
def group(request: HttpRequest, group_id: int) -> HttpResponse:
    """Show one group and the managers that could own it. POST moves the group to one of these managers."""
    seen = read_group(group_id)
    if seen is None:
        raise Http404(
            _("Group %(id)d does not exist. A group exists while one of its seeds is running.") % {"id": group_id}
        )
    if request.method != "POST":
        return render(
            request, "ui/cluster_group.html", {"group": seen, "choices": _choices(seen.carriers, seen.weight)}
        )
    name = user_with_permission(request, "nodes.control_cluster")
    try:
        to = uuid.UUID(request.POST.get("to", ""))
    except ValueError:
        messages.warning(request, _("Choose the manager that takes the group."))
        return redirect("cluster-group", group_id)
    _ask(request, lambda: cluster_verbs.move_group(group_id, to=to, made_by=name, now=read_clock()))
    return redirect("cluster")


@page
@require_http_methods(["GET", "HEAD", "POST"])
def drain(request: HttpRequest, node_id: uuid.UUID) -> HttpResponse:
    """
    Show the work that a node holds. POST with `plan` shows the nodes that would take it over. POST drains the node.
    """
    node = read_node_of_the_cluster(node_id)
    if node is None:
        raise Http404(_("No running node has this id."))
    shown = {"node": node, "is_manager": node.kind == NodeKind.MANAGER}
    if request.method != "POST":
        return render(request, "ui/cluster_drain.html", shown)
    name = user_with_permission(request, "nodes.control_cluster")
    dry_run = "plan" in request.POST
    answer = _ask(request, lambda: cluster_verbs.drain_node(node_id, dry_run=dry_run, made_by=name, now=read_clock()))
    if answer is None or not dry_run or answer.answer is None:
        return redirect("cluster")
    return render(request, "ui/cluster_drain.html", {**shown, "plan": _plan(answer.answer)})


def _ask(request: HttpRequest, order: Callable[[], ClusterRequest]) -> ClusterRequest | None:
    """
    Send a request to the cluster, and report its result on the next page. Return the request; None if it was refused.
    """
    try:
        asked = order()
    except NotDone as refused:
        messages.warning(request, str(refused))
        return None
    if asked.answered_at is None:
        messages.info(request, _("The main manager has not answered yet. See “Cluster requests” below for progress."))
    elif not asked.dry_run:
        moves = len(asked.answer["moves"]) if asked.answer else 0
        moved = ngettext("%(n)d group is moving.", "%(n)d groups are moving.", moves) % {"n": moves}
        messages.success(
            request, _("The request is in progress.") if asked.kind == ClusterRequest.Kind.DRAIN else moved
        )
    return asked


def _plan(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the main manager's plan with names: the load of each manager before and after, and the moves."""
    names = {load["manager"]: load["name"] for load in answer["before"]}
    after = {load["manager"]: load for load in answer["after"]}
    most = max((load["weight"] for load in (*answer["before"], *answer["after"])), default=0) or 1
    return {
        "most": most,
        "loads": [{"name": load["name"], "before": load, "after": after[load["manager"]]} for load in answer["before"]],
        "moves": [
            {**move, "from": names.get(move["owner"], ""), "to": names.get(move["to"], "")} for move in answer["moves"]
        ],
    }


def _choices(carriers: Sequence[Any], weight: float) -> list[Mapping[str, Any]]:
    return [
        {
            "id": carrier.node.id,
            "name": carrier.node.name,
            "now": f"{carrier.weight:g}",
            "then": f"{carrier.weight + weight:g}",
        }
        for carrier in carriers
    ]
