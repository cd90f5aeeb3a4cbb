"""Retention in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.retention import verbs
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, read_body, read_query


class SubjectSerializer(serializers.Serializer[Any]):
    """Subject of retention, with the rows that a cleaning would delete now."""

    name = serializers.CharField(source="subject.name")
    title = serializers.CharField(source="subject.title")
    setting = serializers.CharField(source="subject.setting.environment", default=None, allow_null=True)
    days = serializers.IntegerField(allow_null=True, help_text="Value of the setting. Null if there is none.")
    rows = serializers.IntegerField(
        source="old.rows", help_text="Number of rows to delete, counted up to 100,000 of each table."
    )
    partitions = serializers.IntegerField(
        source="old.partitions",
        help_text="Number of partitions of tables, each with one day, that are dropped as a whole.",
    )
    bytes = serializers.IntegerField(source="old.bytes", help_text="Size of these partitions.")


class CleaningSerializer(serializers.Serializer[Any]):
    """Answer to a request for a cleaning: the task that deletes the old rows."""

    task = serializers.IntegerField(help_text="Number of its background task.")


class RetentionView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "tasks.view_task"}

    @extend_schema(
        operation_id="retention_list",
        description="List the subjects of retention, with the rows that would be deleted now.",
        responses={200: SubjectSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        return Response(SubjectSerializer(verbs.read_all(), many=True).data)


class CleaningView(ContractView):
    http_method_names = ["post", "options"]
    permissions_needed = {"post": "tasks.run_task"}

    @extend_schema(
        operation_id="retention_clean",
        description="Schedule the deletion of the old rows of a subject now.",
        request=Nothing,
        responses={201: CleaningSerializer},
    )
    def post(self, request: Request, subject: str) -> Response:
        read_body(Nothing, request)
        task = verbs.clean(subject, made_by=request.user.get_username())
        return Response({"task": task.pk}, status=status.HTTP_201_CREATED)
