"""The attention list of the API: the lines that need an operator now."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.attention.lines import AttentionLine, Severity
from jobs.attention.sources import read_attention
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, read_query
from nodes.database.clock import read_clock
from nodes.database.moment import Moment


class AttentionLineSerializer(serializers.Serializer[AttentionLine]):
    """Line of the attention list."""

    kind = serializers.CharField(help_text="A fixed word for this kind of line, such as `node_lost`.")
    key = serializers.CharField(help_text="Tells lines of one kind apart.")
    subject = serializers.CharField(help_text="The name of the job, host or node.")
    sentence = serializers.CharField(help_text="The event, and the next step.")
    since = serializers.DateTimeField(allow_null=True, help_text="Null if unknown.")
    link = serializers.CharField(help_text="The path of the page about it.")
    severity = serializers.ChoiceField([severity.value for severity in Severity])


class AttentionSerializer(serializers.Serializer[Any]):
    """Everything that needs attention, the most urgent first. If the list is empty, nothing does."""

    at = serializers.DateTimeField(help_text="The database's time of this answer.")
    results = AttentionLineSerializer(many=True)


class AttentionView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "jobs.view_job"}

    @extend_schema(
        operation_id="attention",
        description="List the lines of the attention list, which the overview shows at its top.",
        responses=AttentionSerializer,
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        now = read_clock()
        with Moment().present():
            lines = read_attention(now=now)
        return Response(AttentionSerializer({"at": now, "results": lines}).data)
