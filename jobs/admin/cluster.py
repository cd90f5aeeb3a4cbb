"""
Nodes, groups of seeds, requests to the cluster, and the journals, in the set-up pages.

The actions move a group, rebalance the cluster or drain a node. Each leads to a page that first shows a plan.
"""

from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.http import Http404, HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import action

from jobs.models import Seed, ThrottleGroup
from nodes.admin.by_key import ListByKey
from nodes.admin.confirmation import may_offer, row_number
from nodes.admin.lists import OwnedList, one_selected
from nodes.lifecycle import CLUSTER_SCOPE, LIVE_STATUSES
from nodes.models import ClusterRequest, Node

_MAY_CONTROL: Final = "nodes.control_cluster"
_LIVE: Final = [status.value for status in LIVE_STATUSES]


class Rebalancing(OwnedList):
    """A list with a button to rebalance the cluster. The button opens a page that shows the plan first."""

    actions_list: tuple[str, ...] = ("rebalance",)

    def has_control_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm(_MAY_CONTROL)

    @action(description=gettext_lazy("Rebalance"), url_path="rebalance", permissions=("control",))  # type: ignore[untyped-decorator]
    def rebalance(self, request: HttpRequest) -> HttpResponseBase:
        context: Mapping[str, Any] = {
            **self.admin_site.each_context(request),
            "title": _("Rebalance"),
            "question": _("The main manager shows which groups would move. Nothing moves before you confirm its plan."),
            "address": reverse("cluster-rebalance"),
            "back": reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"),
        }
        return render(request, "admin/ask_for_plan.html", context)


class NodeAdmin(Rebalancing):
    """The list of nodes, the newest first. The processes of the nodes write the rows."""

    list_display = ("name", "kind", "status", "started_at", "heartbeat_at", "capacity", "refused_writes", "host", "pid")
    list_filter = ("kind", "status")
    search_fields = ("=name", "=host")
    search_help_text = gettext_lazy("Name or host of a node")
    ordering = ("-started_at", "-id")
    fields = (
        *("id", "name", "kind", "scope", "status", "reason", "tags", "started_at", "heartbeat_at", "stopped_at"),
        *("timeout_seconds", "capacity", "refused_writes", "host", "pid", "address", "progress", "settings"),
    )
    readonly_fields = fields
    actions = ("drain_selected",)
    actions_detail = ("drain",)

    def has_drain_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for a node of the cluster that has not ended."""
        if not self.has_control_permission(request):
            return False
        possible = object_id is None or _live_nodes().filter(pk=_id_of(object_id)).exists()
        why = _("The node has ended, or is not a node of the cluster.")
        return may_offer(request, "drain", is_possible=possible, why=why, model=Node, object_id=object_id)

    @admin.action(description=gettext_lazy("Drain a node"), permissions=["control"])
    def drain_selected(self, request: HttpRequest, chosen: QuerySet[Node]) -> HttpResponseBase | None:
        node = one_selected(request, chosen)
        if node is not None and node.scope == CLUSTER_SCOPE and node.status in _LIVE:
            return redirect("cluster-drain", node.pk)
        if node is not None:
            self.message_user(request, _("%(name)s has ended, or is not a node of the cluster.") % {"name": node.name})
        return None

    @action(description=gettext_lazy("Drain"), url_path="drain", permissions=("drain",))  # type: ignore[untyped-decorator]
    def drain(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return redirect("cluster-drain", _id_of(object_id))


class ThrottleGroupAdmin(Rebalancing):
    """The list of groups of seeds that are throttled together, with their owners. Managers write the rows."""

    list_display = ("number", "name", "owner", "state", "destination", "weight", "seed_count", "failing_since")
    list_filter = ("state",)
    search_fields = ("=policy__name", "=owner__name")
    search_help_text = gettext_lazy("Name of a policy or of the owner")
    list_select_related = ("policy", "seed", "owner", "destination")
    ordering = ("id",)
    fields = (
        *("name", "node_scope", "owner", "epoch", "state", "weight", "destination", "releasing_since"),
        *("failing_since", "failing_why"),
    )
    readonly_fields = fields
    actions = ("move_selected",)
    actions_detail = ("move",)

    def get_queryset(self, request: HttpRequest) -> QuerySet[ThrottleGroup]:
        found: QuerySet[ThrottleGroup] = super().get_queryset(request)
        seeds = Seed.objects.filter(group=OuterRef("pk"), removed_at=None).order_by().values("group")
        counted: QuerySet[ThrottleGroup] = found.annotate(seeds_now=Subquery(seeds.annotate(n=Count("pk")).values("n")))
        return counted

    @admin.display(description=gettext_lazy("number"))
    def number(self, group: ThrottleGroup) -> str:
        return str(group.pk)

    @admin.display(description=gettext_lazy("name"))
    def name(self, group: ThrottleGroup) -> str:
        return group.policy.name if group.policy is not None else str(group.seed)

    @admin.display(description=gettext_lazy("seeds"))
    def seed_count(self, group: ThrottleGroup) -> str:
        return str(getattr(group, "seeds_now", ""))

    def has_move_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for a group of the cluster that is not being moved to another manager."""
        if not self.has_control_permission(request):
            return False
        possible = object_id is None or _groups_that_can_move().filter(pk=row_number(object_id)).exists()
        why = _("The group is moving, or is not a group of the cluster.")
        return may_offer(request, "move", is_possible=possible, why=why, model=ThrottleGroup, object_id=object_id)

    @admin.action(description=gettext_lazy("Move a group"), permissions=["control"])
    def move_selected(self, request: HttpRequest, chosen: QuerySet[ThrottleGroup]) -> HttpResponseBase | None:
        group = one_selected(request, chosen)
        if group is not None and _groups_that_can_move().filter(pk=group.pk).exists():
            return redirect("cluster-group", group.pk)
        if group is not None:
            self.message_user(
                request, _("Group %(id)d is moving, or is not a group of the cluster.") % {"id": group.pk}
            )
        return None

    @action(description=gettext_lazy("Move"), url_path="move", permissions=("move",))  # type: ignore[untyped-decorator]
    def move(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return redirect("cluster-group", row_number(object_id))


class ClusterRequestAdmin(Rebalancing):
    """The list of requests to the cluster, with the answers of its main manager."""

    list_display = ("number", "kind", "dry_run", "asked_by", "asked_at", "state", "answered_at", "reason")
    list_filter = ("kind", "state")
    search_fields = ("=asked_by",)
    ordering = ("-id",)
    fields = (
        *("kind", "scope", "item", "node", "dry_run", "asked_by", "asked_at", "state", "reason"),
        *("answered_at", "answer", "ended_at"),
    )
    readonly_fields = fields

    @admin.display(description=gettext_lazy("number"))
    def number(self, request: ClusterRequest) -> str:
        return str(request.pk)


class NodeEventAdmin(ListByKey):
    """The journal of nodes, which is read-only."""

    list_display = ("at", "message", "kind", "of_node")
    list_filter = ("kind",)
    list_select_related = ("node",)
    fields = ("at", "scope", "kind", "of_node", "message", "detail")
    readonly_fields = fields

    @admin.display(description=gettext_lazy("node"))
    def of_node(self, event: Any) -> str:  # noqa: ANN401 (Django's)
        if event.node is None:
            return "—"
        address = reverse("admin:nodes_node_change", args=[event.node.pk])
        return format_html('<a href="{}">{}</a>', address, event.node.name)


class JobEventAdmin(ListByKey):
    """The journal of jobs, which is read-only."""

    list_display = ("at", "job_name", "message", "kind", "made_by")
    search_fields = ("=job_name",)
    search_help_text = gettext_lazy("Name of a job")
    fields = ("at", "job_name", "kind", "made_by", "message", "detail")
    readonly_fields = fields

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:  # noqa: ANN401 (Django's)
        """Return the events of the job with this name. An index holds them in the order of the list."""
        said = search_term.strip()
        return (queryset.filter(job__name=said) if said else queryset), False


def _live_nodes() -> QuerySet[Node]:
    return Node.objects.filter(scope=CLUSTER_SCOPE, status__in=_LIVE)


def _groups_that_can_move() -> QuerySet[ThrottleGroup]:
    return ThrottleGroup.objects.filter(node_scope=CLUSTER_SCOPE, releasing_since=None)


def _id_of(said: str) -> UUID:
    """
    Return the id of a node from an address.

    Raises:
        Http404: the text is not the id of a node.
    """
    try:
        return UUID(said)
    except ValueError:
        raise Http404(_("This node does not exist.")) from None
