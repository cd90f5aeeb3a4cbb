"""The content of the coordination store, for administrators and their programs."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.errors import sentence
from jobs.queries.cluster.coordination_page import read_coordination
from nodes.api.base import ContractView
from nodes.api.strict import StrictSerializer, read_query
from nodes.coordination.port import LockSeen
from nodes.database.address import database_dsn


class CoordinationQuery(StrictSerializer):
    cluster = serializers.CharField(
        default="",
        max_length=120,
        help_text=("Name of the cluster. Default: the cluster of the managers and workers, or else the first cluster."),
    )


class MemberSerializer(serializers.Serializer[Any]):
    """Node of a cluster, including nodes that left recently."""

    node = serializers.CharField()
    is_main = serializers.BooleanField()
    is_gone = serializers.BooleanField()
    jobs = serializers.ListField(child=serializers.CharField(), help_text="Distributed jobs that the node can run.")
    items = serializers.IntegerField(help_text="Number of items that the node was assigned.")


class PoolSerializer(serializers.Serializer[Any]):
    """Pool of a distributed job: the number of its items, and the number that nodes have."""

    job = serializers.CharField()
    items = serializers.IntegerField()
    placed = serializers.IntegerField(help_text="Number of assigned items.")


class LockSerializer(serializers.Serializer[Any]):
    """Lock of an item of a distributed job, with the node that holds it."""

    job = serializers.CharField(source="item.job")
    item = serializers.CharField(source="item.item")
    holder = serializers.CharField(help_text="Node that holds the lock. Empty if the stored lock is invalid.")
    since = serializers.DateTimeField(allow_null=True)
    remaining = serializers.SerializerMethodField(help_text="Remaining lease in seconds. 0 if it has expired.")
    note = serializers.CharField()
    host = serializers.CharField()

    def get_remaining(self, lock: LockSeen) -> float:
        return max(0.0, lock.remaining.total_seconds())


class CoordinationSerializer(serializers.Serializer[Any]):
    """One cluster, with the first 200 members, the first 200 pools and the first 200 locks."""

    store = serializers.CharField()
    cluster = serializers.CharField()
    clusters = serializers.ListField(child=serializers.CharField())
    main = serializers.CharField(source="shown.main", help_text="Name of the main node. Empty while there is none.")
    term = serializers.IntegerField(source="shown.term")
    members = MemberSerializer(source="shown.members", many=True)
    members_in_all = serializers.IntegerField(source="shown.members_in_all")
    pools = PoolSerializer(source="shown.pools", many=True)
    pools_in_all = serializers.IntegerField(source="shown.pools_in_all")
    locks = LockSerializer(source="shown.locks", many=True)
    locks_in_all = serializers.IntegerField(source="shown.locks_in_all")


class CoordinationView(ContractView):
    permissions_needed = {"get": "nodes.control_cluster"}

    @extend_schema(
        operation_id="coordination_retrieve",
        description="Return a cluster of the coordination store: members, main node, pools and locks.",
        parameters=[
            OpenApiParameter(
                "cluster",
                str,
                description=(
                    "Name of the cluster. Default: the cluster of the managers and workers, or else the first cluster."
                ),
            )
        ],
        responses=CoordinationSerializer,
    )
    def get(self, request: Request) -> Response:
        seen = read_coordination(read_query(CoordinationQuery, request)["cluster"], dsn=database_dsn())
        if seen.shown is None:
            raise NotFound(sentence(seen.problem or "No cluster exists yet. Start a node of distributed jobs first."))
        return Response(CoordinationSerializer(seen).data)
