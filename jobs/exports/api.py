"""Exports in the API."""

from typing import Any, Final

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.exports import verbs
from jobs.exports.formats import CONTENT_TYPES
from jobs.exports.models import Export
from jobs.exports.sending import send
from jobs.exports.sources import SOURCES
from jobs.partitions import this_partition
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery, Nothing, StrictSerializer, read_body

_PLACE: Final = "api:export-detail"


class NewExportSerializer(StrictSerializer):
    """Request for an export: its content, its format and its filter."""

    what = serializers.CharField(max_length=50, help_text=f"Content: {', '.join(f'`{name}`' for name in SOURCES)}.")
    format = serializers.CharField(
        max_length=20, help_text=f"Format: {', '.join(f'`{name}`' for name in Export.Format.values)}."
    )
    filter = serializers.JSONField(
        default=dict, help_text="Object with the parameters of the report with this name; lists as lists."
    )


class ExportSerializer(serializers.ModelSerializer[Export]):
    """Export with its progress. It can be downloaded when its state is `done`."""

    state = serializers.SerializerMethodField(help_text="`waiting`, `running`, `done`, `cancelled` or `failed`.")
    problem = serializers.SerializerMethodField(help_text="Why there is no file. Empty if there is one, or may be.")
    file = serializers.SerializerMethodField(help_text="Path of the file in this API. Null before the end.")

    partition = serializers.SerializerMethodField(
        help_text="The only partition whose rows the file holds. Empty: it holds those of all."
    )

    class Meta:
        model = Export
        fields = (
            "id",
            "partition",
            "task",
            "what",
            "format",
            "filter",
            "state",
            "problem",
            "total",
            "rows",
            "bytes",
            "created_at",
            "created_by",
            "started_at",
            "ended_at",
            "expires_at",
            "attempt",
            "host",
            "file",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(verbs.STATES))
    def get_state(self, export: Export) -> str:
        return verbs.with_state(export).state

    def get_problem(self, export: Export) -> str:
        return verbs.with_state(export).problem

    def get_partition(self, _export: Export) -> str:
        return this_partition.only_name()

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_file(self, export: Export) -> str | None:
        return reverse("api:export-file", args=[export.pk]) if export.file else None


class ExportQuery(NewestQuery):
    what = serializers.ChoiceField(list(SOURCES), required=False)
    format = serializers.ChoiceField(Export.Format.values, required=False)


@extend_schema_view(
    list=extend_schema(description="List exports, newest first."),
    retrieve=extend_schema(description="Return one export with its progress."),
)
class ExportView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "delete"]
    permissions_needed = {
        "list": "exports.view_export",
        "retrieve": "exports.view_export",
        "file": "exports.view_export",
        "create": "exports.add_export",
        "cancel": "exports.add_export",
        "destroy": "exports.delete_export",
    }
    serializer_class = ExportSerializer
    query_class = ExportQuery
    keyset = ("-id",)
    tagged_by = ExportSerializer
    tagged_fields = ("state", "attempt")
    lookup_value_regex = "[0-9]{1,18}"

    def get_queryset(self) -> QuerySet[Export]:
        return verbs.visible(self._may)

    def _may(self, permission: str) -> bool:
        user: Any = self.request.user
        return bool(user.has_perm(permission))

    @extend_schema(
        description="Schedule an export. A background task writes it; `task` is its number.",
        request=NewExportSerializer,
        responses={201: ExportSerializer},
    )
    def create(self, request: Request) -> Response:
        wanted = read_body(NewExportSerializer, request)
        export = verbs.request(**wanted, may=self._may, made_by=request.user.get_username())
        export.refresh_from_db()
        return created(ExportSerializer(export).data, at=reverse(_PLACE, args=[export.pk]), request=request)

    @extend_schema(
        operation_id="exports_cancel",
        description="Cancel an export. A running one ends after its present part.",
        request=Nothing,
        responses={200: ExportSerializer},
    )
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        export = verbs.cancel(int(pk), may=self._may, made_by=request.user.get_username())
        export.refresh_from_db()
        return Response(ExportSerializer(export).data)

    @extend_schema(
        operation_id="exports_file",
        description="Download the file. In CSV, an apostrophe precedes each cell that could be a formula.",
        responses={(200, kind): OpenApiTypes.BINARY for kind in CONTENT_TYPES.values()},
    )
    @action(detail=True)
    def file(self, request: Request, pk: str) -> HttpResponseBase:
        return send(verbs.read(int(pk), may=self._may))

    @extend_schema(description="Delete an export that has ended, and its file.", responses={204: None})
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.delete(int(pk), may=self._may, made_by=request.user.get_username())
        return Response(status=status.HTTP_204_NO_CONTENT)
