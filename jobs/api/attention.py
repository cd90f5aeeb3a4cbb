"""The attention list of the API: the lines that need an operator now."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.attention.all_partitions import read_attention_everywhere
from jobs.attention.lines import AttentionLine, Severity
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, read_query
from nodes.database.clock import read_clock
from nodes.database.shared_results import Moment


class AttentionLineSerializer(serializers.Serializer[AttentionLine]):
    """Line of the attention list."""

    kind = serializers.CharField(help_text="A fixed word for this kind of line, such as `node_lost`.")
    key = serializers.CharField(help_text="Identifies the line among the lines of its kind and partition.")
    subject = serializers.CharField(help_text="The name of the job, host or node.")
    sentence = serializers.CharField(help_text="The event, and the next step.")
    since = serializers.DateTimeField(allow_null=True, help_text="Null if unknown.")
    link = serializers.CharField(help_text="Path of the page that shows more.")
    severity = serializers.ChoiceField([severity.value for severity in Severity])
    partition = serializers.CharField(
        help_text="Name of the partition with the problem. Empty if it is the partition that answers."
    )


class AttentionSerializer(serializers.Serializer[Any]):
    """Everything that needs attention, the most urgent first. If the list is empty, nothing does."""

    at = serializers.DateTimeField(help_text="Time of this answer by the clock of the database.")
    results = AttentionLineSerializer(many=True)


class AttentionView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_job"}

    @extend_schema(
        operation_id="attention",
        description="List the lines of the attention list of all partitions, which the overview shows at its top. "
        "A partition that does not answer has a line, too: `partition_silent`.",
        responses=AttentionSerializer,
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        now = read_clock()
        with Moment().present():
            lines = read_attention_everywhere(now=now)
        return Response(AttentionSerializer({"at": now, "results": lines}).data)
