"""Partitions in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.partitions import this_partition
from jobs.partitions.moving import MovePhase
from jobs.queries.partitions import read_last_move, read_partitions
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, read_query
from nodes.database.clock import read_clock


class PartitionSerializer(serializers.Serializer[Any]):
    """Partition, as the partition that answers sees it."""

    name = serializers.CharField()
    here = serializers.BooleanField(source="is_here", help_text="True for the partition that answers.")
    control = serializers.BooleanField(source="is_control", help_text="True for the control partition.")
    slots = serializers.IntegerField(help_text="Number of slots that it has, of 1,024.")
    documents = serializers.IntegerField(allow_null=True, help_text="Null if it has sent no figures to this partition.")
    rate = serializers.FloatField(allow_null=True, help_text="Documents a second.")
    sent_at = serializers.DateTimeField(
        allow_null=True, help_text="Time of its figures. Null for the partition that answers."
    )
    silent = serializers.BooleanField(source="is_silent", help_text="True if its figures are older than 15 seconds.")
    receives = serializers.BooleanField(
        source="is_receiving", allow_null=True, help_text="True if it receives the rows of this partition now."
    )
    bytes_behind = serializers.IntegerField(
        allow_null=True, help_text="Bytes of this partition's write-ahead log that it has not received yet."
    )
    arrived = serializers.IntegerField(
        help_text="References that it sent, and that wait in this partition for the start of their run."
    )


class PartOfMoveSerializer(serializers.Serializer[Any]):
    """Partition in a move of slots."""

    name = serializers.CharField()
    held = serializers.BooleanField(source="is_held", help_text="True if all of its jobs are held.")
    waits_for = serializers.CharField(help_text="The first job that is not held yet, in a sentence. Empty if all are.")
    moved = serializers.BooleanField(
        source="has_moved", help_text="True if it uses the new slot map and has sent all documents."
    )
    sent = serializers.IntegerField(
        help_text="Number of chunks of documents that it has sent. Known after the last chunk."
    )
    applied = serializers.IntegerField(
        help_text="Number of chunks that it has received from other partitions and stored."
    )


class MoveSerializer(serializers.Serializer[Any]):
    """Move of slots between partitions."""

    number = serializers.IntegerField(help_text="Number of the move, which is the epoch of its slot map.")
    phase = serializers.CharField(help_text=f"One of {', '.join(f'`{phase}`' for phase in MovePhase)}.")
    why = serializers.CharField(help_text="Reason of a refused move. Empty for other moves.")
    sentence = serializers.CharField(help_text="Its state in words.")
    parts = PartOfMoveSerializer(
        many=True, help_text="Progress of each partition. Only the control partition knows all of them."
    )


class PartitionMovesView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "nodes.view_node"}

    @extend_schema(
        operation_id="partition_moves_list",
        description="List the last move of slots between partitions. Empty before the first one.",
        responses={200: MoveSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        placement = this_partition.placement()
        move = None if placement is None else read_last_move(placement)
        return Response(MoveSerializer([] if move is None else [move], many=True).data)


class PartitionsView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "nodes.view_node"}

    @extend_schema(
        operation_id="partitions_list",
        description="List the partitions. Only the control partition receives the figures of all. Empty for one database.",
        responses={200: PartitionSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        placement = this_partition.placement()
        seen = [] if placement is None else read_partitions(placement, now=read_clock())
        return Response(PartitionSerializer(seen, many=True).data)
