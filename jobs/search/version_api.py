"""Kept versions of documents in the API: their list, and one version with its difference from an earlier one."""

import uuid
from typing import Any

from django.http import Http404
from django.urls import register_converter
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import DocumentVersion, QueueItem
from jobs.queries.documents.differences import Difference, Kind, Line
from jobs.queries.documents.versions import ComparedVersion, versions_of
from jobs.search.versioned import read_version_for
from nodes.api.base import ContractView
from nodes.api.strict import Nothing, StrictSerializer, read_query

_MOST_NUMBER = 2**31 - 1
_ID = OpenApiParameter("id", str, OpenApiParameter.PATH, description="Id of the document.")
_EARLIER = "Number of the version to compare with. By default, it is the one before it."


class DocumentIdConverter:
    """The id of a document in an address: the job's number and the hash of the document."""

    regex = "[0-9]{1,18}-[0-9a-f]{32}"

    def to_python(self, value: str) -> tuple[int, uuid.UUID]:
        job_id, _, digest = value.partition("-")
        return int(job_id), uuid.UUID(digest)

    def to_url(self, value: tuple[int, uuid.UUID]) -> str:
        return f"{value[0]}-{value[1].hex}"


register_converter(DocumentIdConverter, "document_id")


class DocumentVersionSerializer(serializers.ModelSerializer[DocumentVersion]):
    """Kept version of a document."""

    length = serializers.IntegerField(help_text="Characters of the kept text.")
    is_cut = serializers.BooleanField(help_text="True if the text was longer.")
    code = serializers.CharField(help_text="Result code: an HTTP status or a word.")

    class Meta:
        model = DocumentVersion
        fields = ("number", "fetched_at", "run_no", "code", "length", "is_cut")
        read_only_fields = fields


class DocumentVersionsSerializer(serializers.Serializer[Any]):
    """Kept versions of a document."""

    kept = serializers.IntegerField(help_text="Number of versions that the job keeps of each document.")
    versions = DocumentVersionSerializer(many=True, help_text="Newest first.")


class DifferenceLineSerializer(serializers.Serializer[Line]):
    """Line of a difference: a line of the text, or a sentence of a long line."""

    kind = serializers.ChoiceField([*Kind], help_text="`left_out` stands for equal lines that are not shown.")
    text = serializers.CharField()
    amount = serializers.IntegerField(help_text="Number of lines: 1 unless lines are left out.")


class DifferenceSerializer(serializers.Serializer[Difference]):
    """Difference of the texts of two versions, line by line."""

    removed = serializers.IntegerField(help_text="Number of removed lines.")
    added = serializers.IntegerField(help_text="Number of added lines.")
    is_cut = serializers.BooleanField(help_text="True if only the beginnings of the texts were compared.")
    lines = DifferenceLineSerializer(many=True)


class ComparedVersionSerializer(serializers.Serializer[ComparedVersion]):
    """Kept version with its headers, its text and its difference from an earlier one."""

    version = DocumentVersionSerializer()
    headers = serializers.CharField(source="version.headers", help_text="Lines `name: value`.")
    text = serializers.CharField()
    earlier = serializers.IntegerField(
        source="earlier.number", default=None, allow_null=True, help_text="Null if no earlier version is kept."
    )
    difference = DifferenceSerializer(allow_null=True)


class EarlierQuery(StrictSerializer):
    earlier = serializers.IntegerField(required=False, min_value=1, max_value=_MOST_NUMBER, help_text=_EARLIER)


class DocumentVersionsView(ContractView):
    permissions_needed = {"get": "jobs.view_queueitem"}

    @extend_schema(
        operation_id="document_versions_list",
        description="List the kept versions of a document of this partition, newest first.",
        parameters=[_ID],
        responses=DocumentVersionsSerializer,
    )
    def get(self, request: Request, id: tuple[int, uuid.UUID]) -> Response:  # noqa: A002 (the address's word)
        read_query(Nothing, request)
        job_id, document = id
        item = QueueItem.objects.select_related("job").filter(job_id=job_id, hash=document).first()
        if item is None:
            raise Http404
        found = {"kept": item.job.kept_versions, "versions": versions_of(job_id, document)}
        return Response(DocumentVersionsSerializer(found).data)


class DocumentVersionView(ContractView):
    permissions_needed = {"get": "jobs.view_queueitem"}

    @extend_schema(
        operation_id="document_versions_retrieve",
        description="Return a kept version with its headers, its text and its difference from an earlier one. 403 if the document is protected and the user has no token for it.",
        parameters=[_ID, OpenApiParameter("earlier", int, description=_EARLIER)],
        responses=ComparedVersionSerializer,
    )
    def get(self, request: Request, id: tuple[int, uuid.UUID], number: int) -> Response:  # noqa: A002 (the address's word)
        earlier = read_query(EarlierQuery, request).get("earlier")
        if number > _MOST_NUMBER:
            raise Http404
        found = read_version_for(request.user.get_username(), *id, number=number, earlier=earlier)
        return Response(ComparedVersionSerializer(found).data)
