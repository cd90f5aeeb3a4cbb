"""Groups with their owners, and requests of administrators to the cluster. A view waits for the main manager's answer."""

import uuid
from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import EverywhereView, PlacedSerializer
from jobs.models import ThrottleGroup
from jobs.queries.cluster.requests import PlanInBrief, progress_of, read_plans
from jobs.verbs import cluster
from nodes.api.base import ContractView
from nodes.api.strict import NewestQuery, PageQuery, StrictSerializer, read_body
from nodes.api.views import NodeView
from nodes.database.clock import read_clock
from nodes.decisions.items import ItemState
from nodes.models import ClusterRequest, Node

_ID = "[0-9]{1,18}"


class GroupSerializer(PlacedSerializer, serializers.ModelSerializer[ThrottleGroup]):
    """Group of seeds that are throttled together, with its manager."""

    name = serializers.SerializerMethodField(help_text="Name of the group's policy, or the first address of its seed.")

    class Meta:
        model = ThrottleGroup
        fields = (
            "id",
            "name",
            "policy",
            "seed",
            "owner",
            "state",
            "epoch",
            "weight",
            "destination",
            "releasing_since",
            "failing_since",
            "failing_why",
            "partition",
        )
        read_only_fields = fields
        extra_kwargs = {
            "failing_since": {
                "help_text": "Moment since which its manager fails to hand out its documents. Null while it succeeds."
            },
            "failing_why": {"help_text": "Error message. Empty while its manager succeeds."},
        }

    def get_name(self, group: ThrottleGroup) -> str:
        return str(group.policy or group.seed)


class GroupQuery(PageQuery):
    owner = serializers.UUIDField(source="owner_id", required=False)
    state = serializers.ChoiceField([state.value for state in ItemState], required=False)


class MoveSerializer(StrictSerializer):
    """Request to move a group: the manager that gets it."""

    to = serializers.UUIDField(help_text="ID of a running manager.")


class DryRunSerializer(StrictSerializer):
    """Request that only returns a plan if `dry_run` is true, and otherwise executes the plan."""

    dry_run = serializers.BooleanField(default=False, help_text="True to return the plan without any move.")


class PlannedMoveSerializer(serializers.Serializer[Any]):
    """Move of a group to another manager."""

    group = serializers.IntegerField()
    name = serializers.CharField()
    epoch = serializers.IntegerField(help_text="Epoch of the group before the move.")
    weight = serializers.FloatField()
    owner = serializers.UUIDField(help_text="Manager that hands the group over.")
    to = serializers.UUIDField()


class LoadSerializer(serializers.Serializer[Any]):
    """Number and weight of the groups that a manager owns before or after the planned moves."""

    manager = serializers.UUIDField()
    name = serializers.CharField()
    groups = serializers.IntegerField()
    weight = serializers.FloatField()


class PlanSerializer(serializers.Serializer[Any]):
    """Plan of the main manager for a request."""

    moves = PlannedMoveSerializer(many=True)
    before = LoadSerializer(many=True)
    after = LoadSerializer(many=True)


class PlanInListSerializer(serializers.Serializer[PlanInBrief]):
    """Plan of the main manager for a request, with its first moves."""

    moves_in_all = serializers.IntegerField()
    first_moves = PlannedMoveSerializer(many=True)
    before = LoadSerializer(many=True)
    after = LoadSerializer(many=True)


class ProgressSerializer(serializers.Serializer[Any]):
    """Progress of a request: the number of groups to move, and the number that have arrived at their new managers."""

    moves = serializers.IntegerField()
    arrived = serializers.IntegerField()


class ClusterRequestSerializer(PlacedSerializer, serializers.ModelSerializer[ClusterRequest]):
    """Request to the cluster, with the plan of the main manager."""

    group = serializers.IntegerField(source="item", allow_null=True)
    answer: serializers.Serializer[Any] = PlanSerializer(allow_null=True)
    progress = serializers.SerializerMethodField()

    class Meta:
        model = ClusterRequest
        fields = (
            "id",
            "kind",
            "group",
            "node",
            "dry_run",
            "asked_by",
            "asked_at",
            "state",
            "reason",
            "answered_at",
            "answer",
            "progress",
            "ended_at",
            "partition",
        )
        read_only_fields = fields

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, request: ClusterRequest) -> dict[str, int]:
        return progress_of(request, read_plans([request]).get(request.pk))


class ClusterRequestInListSerializer(ClusterRequestSerializer):
    """Request to the cluster in a list, with its first moves."""

    answer = PlanInListSerializer(source="plan", allow_null=True)

    @extend_schema_field(ProgressSerializer)
    def get_progress(self, request: ClusterRequest) -> dict[str, int]:
        return progress_of(request, request.plan)  # type: ignore[attr-defined]  # the view puts it there


@extend_schema_view(
    list=extend_schema(
        description="Groups of running seeds and their owners, oldest first. "
        "Those of other partitions follow, one partition after the other."
    ),
    retrieve=extend_schema(description="One group of running seeds."),
)
class GroupView(mixins.RetrieveModelMixin, EverywhereView):
    of_jobs = False
    is_done_elsewhere = True
    http_method_names = ["get", "head", "options", "post"]
    permissions_needed = {
        "list": "jobs.view_throttlegroup",
        "retrieve": "jobs.view_throttlegroup",
        "move": "nodes.control_cluster",
    }
    tagged_by = GroupSerializer
    tagged_fields = ("owner", "destination")
    queryset = ThrottleGroup.objects.select_related("policy", "seed")
    serializer_class = GroupSerializer
    query_class = GroupQuery
    lookup_value_regex = _ID

    @extend_schema(
        operation_id="groups_move",
        description="Hand the group over to another manager, without a pause.",
        request=MoveSerializer,
        responses={200: ClusterRequestSerializer, 202: ClusterRequestSerializer},
    )
    @action(detail=True, methods=["post"])
    def move(self, request: Request, pk: str) -> Response:
        wanted = read_body(MoveSerializer, request)
        return _answer(
            request,
            cluster.move_group(int(pk), **wanted, expected=self.expected, made_by=_name(request), now=read_clock()),
        )

    def lock_and_read_tag(self) -> str | None:
        group = get_object_or_404(ThrottleGroup.objects.select_for_update(no_key=True), pk=self.kwargs["pk"])
        self.expected = {
            "owner": group.owner_id and str(group.owner_id),
            "destination": group.destination_id and str(group.destination_id),
        }
        return self.tag_of_shown(self.expected)


@extend_schema_view(
    list=extend_schema(
        description="List the requests to the cluster, newest first, each with its first moves. "
        "Those of other partitions follow, one partition after the other."
    ),
    retrieve=extend_schema(description="Return one request with all its moves and its progress."),
)
class ClusterRequestView(mixins.RetrieveModelMixin, EverywhereView):
    of_jobs = False
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "nodes.view_clusterrequest", "retrieve": "nodes.view_clusterrequest"}
    queryset = ClusterRequest.objects.all()
    serializer_class = ClusterRequestSerializer
    query_class = NewestQuery
    keyset = ("-id",)
    lookup_value_regex = _ID

    def get_queryset(self) -> QuerySet[ClusterRequest]:
        requests = ClusterRequest.objects.all()
        return requests.defer("answer") if self.action == "list" else requests

    def get_serializer_class(self) -> type[ClusterRequestSerializer]:
        return ClusterRequestInListSerializer if self.action == "list" else ClusterRequestSerializer

    def described(self, rows: Sequence[Any]) -> Sequence[Any]:
        plans = read_plans(rows)
        for request in rows:
            request.plan = plans.get(request.pk)
        return rows


class RebalanceView(ContractView):
    is_done_elsewhere = True
    permissions_needed = {"post": "nodes.control_cluster"}

    @extend_schema(
        operation_id="cluster_rebalance",
        description="Balance the groups over the managers with few moves.",
        request=DryRunSerializer,
        responses={200: ClusterRequestSerializer, 202: ClusterRequestSerializer},
    )
    def post(self, request: Request) -> Response:
        wanted = read_body(DryRunSerializer, request)
        return _answer(request, cluster.rebalance(**wanted, made_by=_name(request), now=read_clock()))


class DrainView(ContractView):
    is_done_elsewhere = True
    permissions_needed = {"post": "nodes.control_cluster"}
    tagged_fields = NodeView.tagged_fields

    @extend_schema(
        operation_id="nodes_drain",
        description="Drain a node: it finishes documents in progress, hands over or returns the rest, and stops.",
        request=DryRunSerializer,
        responses={200: ClusterRequestSerializer, 202: ClusterRequestSerializer},
    )
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        wanted = read_body(DryRunSerializer, request)
        asked = cluster.drain_node(pk, **wanted, expected=self.expected, made_by=_name(request), now=read_clock())
        return _answer(request, asked)

    def lock_and_read_tag(self) -> str | None:
        node = get_object_or_404(Node.objects.select_for_update(no_key=True), pk=self.kwargs["pk"])
        self.expected = {"status": node.status}
        return self.tag_of_shown(self.expected)


def _name(request: Request) -> str:
    return str(request.user.get_username())


def _answer(request: Request, asked: ClusterRequest) -> Response:
    """Return 200 with the main manager's answer, or 202 with the address where clients can read the answer later."""
    is_answered = asked.answered_at is not None
    address = request.build_absolute_uri(reverse("api:cluster-request-detail", kwargs={"pk": asked.pk}))
    return Response(
        ClusterRequestSerializer(asked).data,
        status=status.HTTP_200_OK if is_answered else status.HTTP_202_ACCEPTED,
        headers={"Location": address},
    )
