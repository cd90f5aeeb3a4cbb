"""Partitions in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.partitions import here
from jobs.queries.partitions import look_at_partitions
from nodes.api.base import ContractView
from nodes.database.clock import read_clock


class PartitionSerializer(serializers.Serializer[Any]):
    """Partition as the asked one sees it."""

    name = serializers.CharField()
    here = serializers.BooleanField(source="is_here", help_text="True for the partition that answers.")
    control = serializers.BooleanField(source="is_control", help_text="True for the control partition.")
    slots = serializers.IntegerField(help_text="Its shares of all hosts, of 1,024.")
    documents = serializers.IntegerField(allow_null=True, help_text="Null if it has told nothing to this partition.")
    rate = serializers.FloatField(allow_null=True, help_text="Documents a second.")
    sent_at = serializers.DateTimeField(allow_null=True, help_text="Time of its figures. Null for the asked partition.")
    silent = serializers.BooleanField(source="is_silent", help_text="True if its figures are older than 15 seconds.")
    receives = serializers.BooleanField(
        source="is_receiving", allow_null=True, help_text="True if it takes the rows of this partition now."
    )
    bytes_behind = serializers.IntegerField(
        allow_null=True, help_text="Bytes of the write-ahead log that it has not taken from this partition."
    )
    arrived = serializers.IntegerField(help_text="References of it that wait here for their run.")


class PartitionsView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "nodes.view_node"}

    @extend_schema(
        operation_id="partitions_list",
        description="List the partitions. Only the control partition hears the figures of all. Empty for one database.",
        responses={200: PartitionSerializer(many=True)},
    )
    def get(self, _request: Request) -> Response:
        placement = here.placement()
        seen = [] if placement is None else look_at_partitions(placement, now=read_clock())
        return Response(PartitionSerializer(seen, many=True).data)
