"""Operations on many documents in the API."""

from typing import Any

from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.bulk import other_partitions, verbs
from jobs.bulk.models import BulkOperation
from jobs.queue.chosen_documents import Operation
from jobs.queue.sql.chosen_states import NAMES
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery, Nothing, StrictSerializer, read_body

_FILTER = (
    "Object with `host`, `codes`, `contains` (part of the address), `pattern` (regular expression), `fetched_before`, `state` "
    f"({', '.join(f'`{name}`' for name in NAMES)}) and `documents` (keys of 32 hex digits); without a field: any."
)


class ChoiceSerializer(StrictSerializer):
    """Request for a preview: an operation on the documents of a job that match a filter."""

    operation = serializers.ChoiceField([*Operation])
    job = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
    filter = serializers.JSONField(default=dict, help_text=_FILTER)


class BulkTokenSerializer(StrictSerializer):
    """Request to start the operation of a preview, which the token confirms."""

    token = serializers.CharField(max_length=20_000, help_text="Token of a preview that is less than an hour old.")


class BulkExampleSerializer(serializers.Serializer[Any]):
    """Document that an operation would change."""

    identifier = serializers.CharField()
    result = serializers.CharField()
    result_code = serializers.CharField()
    fetched_at = serializers.DateTimeField(allow_null=True)
    partition = serializers.CharField(
        help_text="Name of the partition that has it. Empty if it is the partition that answers."
    )


class BulkPreviewSerializer(serializers.Serializer[Any]):
    """Documents that an operation would change now."""

    operation = serializers.ChoiceField([*Operation])
    job = serializers.IntegerField(source="job.pk")
    filter = serializers.JSONField()
    documents = serializers.IntegerField()
    examples = BulkExampleSerializer(many=True, help_text="The first 20 documents.")
    partition = serializers.CharField(
        help_text="Name of the only partition whose documents it changes. Empty if it changes documents of all partitions."
    )
    silent = serializers.SerializerMethodField(
        help_text="Partitions that did not answer. The operation changes nothing there: repeat it later."
    )
    token = serializers.CharField(
        help_text="Text that confirms exactly this operation, filter and number of documents."
    )

    def get_silent(self, preview: verbs.Preview) -> list[str]:
        return [one.name for one in preview.silent]


class BulkPartSerializer(serializers.Serializer[Any]):
    """The part of an operation in another partition, as the task of the operation last read it."""

    name = serializers.CharField()
    state = serializers.ChoiceField(["waiting", "running", "done", "ended early"])
    shown = serializers.IntegerField()
    changed = serializers.IntegerField()
    skipped = serializers.IntegerField()
    silent = serializers.BooleanField(help_text="True if the partition did not answer.")


class BulkSerializer(serializers.ModelSerializer[BulkOperation]):
    """Operation on many documents, with its progress."""

    job = serializers.IntegerField(source="job_id")
    state = serializers.SerializerMethodField(help_text="`waiting`, `running`, `done` or `ended early`.")
    shown = serializers.SerializerMethodField(help_text="Documents of the preview, in all partitions.")
    changed = serializers.SerializerMethodField(help_text="Changed documents, in all partitions.")
    skipped = serializers.SerializerMethodField(
        help_text="Documents that were skipped, because a batch had claimed them, in all partitions."
    )
    partitions = serializers.SerializerMethodField(help_text="The part of each other partition.")

    class Meta:
        model = BulkOperation
        fields = (
            "id",
            "task",
            "operation",
            "job",
            "filter",
            "shown",
            "changed",
            "skipped",
            "partitions",
            "state",
            "created_at",
            "created_by",
            "ended_at",
            "attempt",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ChoiceField(["waiting", "running", "done", "ended early"]))
    def get_state(self, operation: BulkOperation) -> str:
        return verbs.state_of(operation)

    def get_shown(self, operation: BulkOperation) -> int:
        return verbs.progress_of(operation).shown

    def get_changed(self, operation: BulkOperation) -> int:
        return verbs.progress_of(operation).changed

    def get_skipped(self, operation: BulkOperation) -> int:
        return verbs.progress_of(operation).skipped

    @extend_schema_field(BulkPartSerializer(many=True))
    def get_partitions(self, operation: BulkOperation) -> list[dict[str, Any]]:
        return [{"name": name, **part} for name, part in sorted(operation.elsewhere.items())]


@extend_schema_view(
    list=extend_schema(description="List operations on many documents, newest first."),
    retrieve=extend_schema(description="Return one operation with its progress."),
)
class BulkView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post"]
    permissions_needed = {
        "list": "jobs.view_job",
        "retrieve": "jobs.view_job",
        "preview": "jobs.control_job",
        "create": "jobs.control_job",
        "cancel": "jobs.control_job",
    }
    queryset = BulkOperation.objects.all()
    serializer_class = BulkSerializer
    query_class = NewestQuery
    keyset = ("-id",)
    tagged_by = BulkSerializer
    tagged_fields = ("state", "attempt")
    lookup_value_regex = "[0-9]{1,18}"

    def _may(self, permission: str) -> bool:
        user: Any = self.request.user
        return bool(user.has_perm(permission))

    @extend_schema(
        operation_id="bulk_preview",
        description="Count the documents that an operation would change, and show 20 of them. Nothing is changed.",
        request=ChoiceSerializer,
        responses={200: BulkPreviewSerializer},
    )
    @action(detail=False, methods=["post"])
    def preview(self, request: Request) -> Response:
        wanted = read_body(ChoiceSerializer, request)
        found = verbs.preview(wanted["operation"], wanted["job"], wanted["filter"], may=self._may)
        return Response(BulkPreviewSerializer(found).data)

    @extend_schema(
        description="Schedule the operation of a preview. No more documents than shown are changed.",
        request=BulkTokenSerializer,
        responses={201: BulkSerializer},
    )
    def create(self, request: Request) -> Response:
        wanted = read_body(BulkTokenSerializer, request)
        made = verbs.start(wanted["token"], may=self._may, made_by=request.user.get_username())
        made.refresh_from_db()
        return created(BulkSerializer(made).data, at=reverse("api:bulk-detail", args=[made.pk]), request=request)

    @extend_schema(
        operation_id="bulk_cancel",
        description="End an operation after its present chunk. Its changes stay.",
        request=Nothing,
        responses={200: BulkSerializer},
    )
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        found = other_partitions.cancel_all(int(pk), may=self._may, made_by=request.user.get_username())
        return Response(BulkSerializer(found).data)
