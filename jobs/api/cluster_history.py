"""The cluster at any minute of the last 30 days."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.errors import sentence
from jobs.partitions import this_partition
from jobs.queries.cluster.history import read_cluster_then
from nodes.api.base import ContractView
from nodes.api.strict import StrictSerializer, read_query
from nodes.database.clock import read_clock

_AT = "Moment with its offset from UTC. By default, it is the present."


class MinuteQuery(StrictSerializer):
    at = serializers.DateTimeField(required=False, help_text=_AT)


class NodeThenSerializer(serializers.Serializer[Any]):
    """Node that was live at the requested minute."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    status = serializers.CharField()
    machine = serializers.CharField()
    tags = serializers.ListField(child=serializers.CharField())
    is_main = serializers.BooleanField()
    groups = serializers.IntegerField(help_text="Number of groups that it owned.")
    weight = serializers.FloatField(help_text="Weight of all its groups.")


class GroupThenSerializer(serializers.Serializer[Any]):
    """Group of seeds at the requested minute, with the manager that owned it."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    weight = serializers.FloatField()
    owner = serializers.CharField(help_text="ID of the manager. Empty for none.")


class StatesThenSerializer(serializers.Serializer[Any]):
    """Number of documents of the run by state."""

    waiting = serializers.IntegerField()
    active = serializers.IntegerField()
    indexed = serializers.IntegerField()
    unchanged = serializers.IntegerField()
    failed = serializers.IntegerField()
    excluded = serializers.IntegerField()


class ProgressThenSerializer(serializers.Serializer[Any]):
    """Progress in the minute before the requested minute."""

    documents = serializers.IntegerField(help_text="Documents that ended.")
    bytes = serializers.IntegerField()
    requests = serializers.IntegerField()
    states = StatesThenSerializer(allow_null=True, help_text="Null if the states were not sampled.")


class JobThenSerializer(serializers.Serializer[Any]):
    """Job that had a run at the requested minute."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    status = serializers.CharField()
    run = serializers.IntegerField()
    version = serializers.IntegerField(help_text="Version of its definition. 0 if it has none.")
    progress = ProgressThenSerializer()


class ClusterThenSerializer(serializers.Serializer[Any]):
    """The state of the cluster at the requested minute, or at the last stored minute before it."""

    at = serializers.DateTimeField(help_text="Start of the minute.")
    is_exact = serializers.BooleanField(
        help_text="False if this minute was not kept. `at` is then the last kept minute before it."
    )
    term = serializers.IntegerField(help_text="Term of the main manager. 0 without one.")
    managers = NodeThenSerializer(many=True)
    workers = NodeThenSerializer(many=True)
    groups = GroupThenSerializer(many=True, help_text="The 240 groups with the largest weight.")
    groups_without_owner = serializers.IntegerField()
    jobs = JobThenSerializer(many=True)
    progress = ProgressThenSerializer(help_text="Progress of all jobs.")
    partition = serializers.SerializerMethodField(
        help_text="Partition whose cluster this is: one of several. Empty without partitions."
    )

    def get_partition(self, _then: object) -> str:
        return this_partition.name()


class ClusterHistoryView(ContractView):
    permissions_needed = {"get": "jobs.view_job"}

    @extend_schema(
        operation_id="cluster_history_retrieve",
        description="Return the cluster at any minute of the last 30 days: nodes, owners of groups, jobs and progress.",
        parameters=[OpenApiParameter("at", str, description=_AT)],
        responses=ClusterThenSerializer,
    )
    def get(self, request: Request) -> Response:
        now = read_clock()
        at = min(read_query(MinuteQuery, request).get("at", now), now)
        then = read_cluster_then(at.replace(second=0, microsecond=0))
        if then is None:
            raise NotFound(
                sentence("No state is stored for this minute. The state of the cluster is stored for 30 days.")
            )
        return Response(ClusterThenSerializer(then).data)
