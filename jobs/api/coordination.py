"""What stands in the store of coordination, for administrators and their programs."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.errors import sentence
from jobs.loops.database import database_dsn
from jobs.queries.coordination_page import read_coordination
from nodes.api.base import ContractView
from nodes.api.strict import StrictSerializer
from nodes.coordination.port import LockSeen


class CoordinationQuery(StrictSerializer):
    cluster = serializers.CharField(default="", max_length=120, help_text="The cluster of the daemons, or the first.")


class MemberSerializer(serializers.Serializer[Any]):
    """A node of a cluster, also one that is gone and not forgotten yet."""

    node = serializers.CharField()
    is_main = serializers.BooleanField()
    is_gone = serializers.BooleanField()
    jobs = serializers.ListField(child=serializers.CharField(), help_text="What it can do.")
    items = serializers.IntegerField(help_text="How many items it is to do.")


class PoolSerializer(serializers.Serializer[Any]):
    """What there is to do of a job."""

    job = serializers.CharField()
    items = serializers.IntegerField()
    placed = serializers.IntegerField(help_text="Of them given to a node.")


class LockSerializer(serializers.Serializer[Any]):
    """Who has an item in hand."""

    job = serializers.CharField(source="item.job")
    item = serializers.CharField(source="item.item")
    holder = serializers.CharField(help_text="Empty where what is stored is no lock.")
    since = serializers.DateTimeField(allow_null=True)
    remaining = serializers.SerializerMethodField(
        help_text="Seconds of its lease; none is left of one that has expired."
    )
    note = serializers.CharField()
    host = serializers.CharField()

    def get_remaining(self, lock: LockSeen) -> float:
        return max(0.0, lock.remaining.total_seconds())


class CoordinationSerializer(serializers.Serializer[Any]):
    """One cluster; of members, pools and locks the first 200 each."""

    store = serializers.CharField()
    cluster = serializers.CharField()
    clusters = serializers.ListField(child=serializers.CharField())
    main = serializers.CharField(source="sight.main", help_text="Empty while nobody is.")
    term = serializers.IntegerField(source="sight.term")
    members = MemberSerializer(source="sight.members", many=True)
    members_in_all = serializers.IntegerField(source="sight.members_in_all")
    pools = PoolSerializer(source="sight.pools", many=True)
    pools_in_all = serializers.IntegerField(source="sight.pools_in_all")
    locks = LockSerializer(source="sight.locks", many=True)
    locks_in_all = serializers.IntegerField(source="sight.locks_in_all")


class CoordinationView(ContractView):
    permissions_needed = {"get": "nodes.control_cluster"}

    @extend_schema(
        operation_id="coordination_retrieve",
        description="A cluster of the store of coordination: members, main, pools, locks.",
        parameters=[OpenApiParameter("cluster", str, description="The cluster of the daemons, or the first.")],
        responses=CoordinationSerializer,
    )
    def get(self, request: Request) -> Response:
        asked = CoordinationQuery(data=request.query_params)
        asked.is_valid(raise_exception=True)
        seen = read_coordination(asked.validated_data["cluster"], dsn=database_dsn())
        if seen.sight is None:
            raise NotFound(sentence(seen.problem or "There is no cluster yet."))
        return Response(CoordinationSerializer(seen).data)
