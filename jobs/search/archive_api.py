"""Archives in the API: their files, their records, and the content of one record."""

from typing import Any

from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import exceptions, mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import EverywhereView, PlacedSerializer
from jobs.api.fields import HIGHEST_ID
from jobs.models import ArchiveFile, ArchiveRecord
from jobs.partitions.merged import local_job
from jobs.queries.archive import ReadRecord
from jobs.search.archived import read_record_for
from nodes.api.strict import NewestQuery


class ArchiveFileSerializer(PlacedSerializer, serializers.ModelSerializer[ArchiveFile]):
    """Archive file of a job, with its size and its copies."""

    job = serializers.IntegerField(source="job_id")
    node = serializers.UUIDField(source="node_id", help_text="Worker that wrote the file.")
    stores = serializers.DictField(
        child=serializers.DateTimeField(), help_text="Time at which each store confirmed the file, by its address."
    )
    problem = serializers.CharField(
        help_text="Last error of the stores, or the reason why the file is lost. Empty if there is none."
    )

    class Meta:
        model = ArchiveFile
        fields = (
            "id",
            "job",
            "node",
            "host",
            "path",
            "format",
            "state",
            "length",
            "sha256",
            "opened_at",
            "completed_at",
            "removed_at",
            "stores",
            "problem",
            "partition",
        )
        read_only_fields = fields


class ArchiveRecordSerializer(PlacedSerializer, serializers.ModelSerializer[ArchiveRecord]):
    """Archived answer of a document: its facts, and its place in an archive file."""

    job = serializers.IntegerField(source="job_id")
    document = serializers.SerializerMethodField(help_text="Id of the document.")
    file = serializers.IntegerField(source="file_id")

    class Meta:
        model = ArchiveRecord
        fields = (
            "id",
            "job",
            "document",
            "run_no",
            "file",
            "offset",
            "length",
            "kind",
            "status",
            "digest",
            "fetched_at",
            "partition",
        )
        read_only_fields = fields

    def get_document(self, record: ArchiveRecord) -> str:
        return f"{record.job_id}-{record.hash.hex}"


class ReadRecordSerializer(serializers.Serializer[ReadRecord]):
    """Archived answer with its content."""

    record = ArchiveRecordSerializer(source="row")
    url = serializers.CharField(source="content.url")
    request_head = serializers.CharField()
    response_head = serializers.CharField()
    text = serializers.CharField(help_text="Beginning of the decoded body as text.")
    is_cut = serializers.BooleanField(help_text="True if the body is longer than the text.")
    truncated = serializers.CharField(
        source="content.truncated",
        help_text="Reason why the archive has only a part of the body. Empty if it has all of it.",
    )


class ArchiveFileQuery(NewestQuery):
    job = serializers.IntegerField(required=False, min_value=1, max_value=HIGHEST_ID, help_text="Id of the job.")


class ArchiveRecordQuery(NewestQuery):
    document = serializers.RegexField(r"^[0-9]{1,18}-[0-9a-f]{32}\Z", help_text="Id of the document.")


@extend_schema_view(list=extend_schema(description="List archive files, newest first."))
class ArchiveFileView(EverywhereView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "jobs.view_queueitem"}
    queryset = ArchiveFile.objects.all()
    serializer_class = ArchiveFileSerializer
    query_class = ArchiveFileQuery
    keyset = ("-id",)

    def narrowed(self, queryset: Any, query: dict[str, Any]) -> Any:  # noqa: ANN401 (a query set of Django)
        return queryset.filter(job_id=query["job"]) if "job" in query else queryset


@extend_schema_view(list=extend_schema(description="List the archived answers of a document, newest first."))
class ArchiveRecordView(mixins.RetrieveModelMixin, EverywhereView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {
        "list": "jobs.view_queueitem",
        "retrieve": "jobs.view_queueitem",
        "body": "jobs.view_queueitem",
    }
    queryset = ArchiveRecord.objects.all()
    serializer_class = ArchiveRecordSerializer
    query_class = ArchiveRecordQuery
    keyset = ("-id",)
    lookup_value_regex = "[0-9]{1,18}"

    def narrowed(self, queryset: Any, query: dict[str, Any]) -> Any:  # noqa: ANN401 (a query set of Django)
        number, _, document = query["document"].partition("-")
        job_id = local_job(int(number)) if self.partition else int(number)
        return queryset.filter(job_id=job_id, hash=document)

    def with_names(self, row: dict[str, Any], one: Any) -> dict[str, Any]:  # noqa: ANN401 (a record)
        return {**row, "document": f"{row['job']}-{one.hash.hex}"}

    @extend_schema(
        description="Return an archived answer with its headers and the beginning of its body as text. "
        "403 if the document is protected and the user has no token for it.",
        responses=ReadRecordSerializer,
    )
    def retrieve(self, request: Request, pk: str) -> Response:
        return Response(ReadRecordSerializer(_read(request, pk)).data)

    @extend_schema(
        operation_id="archive_records_body",
        description="Download the body as it arrived, before its Content-Encoding was decoded. 403 as for the record.",
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
    )
    @action(detail=True)
    def body(self, request: Request, pk: str) -> HttpResponse:
        return body_of(_read(request, pk))


def _read(request: Request, pk: str) -> ReadRecord:
    """Return the record for the user of a request; the answer 403 has the reason."""
    try:
        return read_record_for(request.user.get_username(), int(pk))
    except PermissionDenied as denied:
        raise exceptions.PermissionDenied(str(denied)) from denied


def body_of(read: ReadRecord) -> HttpResponse:
    """Return the raw body as a download, which no browser shows as a page of this site."""
    response = HttpResponse(read.content.body, content_type="application/octet-stream")
    response["Content-Disposition"] = f'attachment; filename="record-{read.row.pk}.bin"'
    response["X-Content-Type-Options"] = "nosniff"
    return response
