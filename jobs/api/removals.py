"""Removals that wait for approval or can be restored, and deleted jobs."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import DeletedJob, Restoration
from jobs.queries.jobs.removals import Removals
from jobs.verbs import restoring_everywhere as restoring
from nodes.api.paging import ListingView
from nodes.api.strict import Nothing, StrictSerializer, read_body
from nodes.database.clock import read_clock


class _HostSerializer(serializers.Serializer[Any]):
    host = serializers.CharField()
    leaving = serializers.IntegerField(help_text="Documents that would be removed.")
    staying = serializers.IntegerField(help_text="Other documents that the outputs hold.")


class _SeedSerializer(serializers.Serializer[Any]):
    identifier = serializers.CharField()
    state = serializers.CharField(help_text="`gone`, `empty`, `redirects`, `replaced` or `changed`.")
    code = serializers.CharField(help_text="Result code in that run.")


class _ParentSerializer(_SeedSerializer):
    children = serializers.IntegerField(
        help_text="Documents to be removed to which it linked before, and no longer links."
    )
    reached = serializers.IntegerField(default=0, help_text="These documents, and all documents behind their links.")


class QuestionSerializer(serializers.Serializer[Any]):
    """The removals of a run's clean-up, counted when the run ended. Each list starts with the most documents."""

    run_no = serializers.IntegerField()
    asked_at = serializers.DateTimeField()
    leaving = serializers.IntegerField(help_text="Documents that would be removed.")
    staying = serializers.IntegerField(help_text="Documents that would stay.")
    cause = serializers.CharField(help_text="The cause that most of the removals share.")
    hosts = _HostSerializer(many=True)
    parents = _ParentSerializer(many=True)
    seeds = _SeedSerializer(many=True, help_text="Seeds that no longer link to documents that would be removed.")
    examples = serializers.ListField(child=serializers.CharField(), help_text="Some documents that would be removed.")


class _RunSerializer(serializers.Serializer[Any]):
    run_no = serializers.IntegerField()
    documents = serializers.IntegerField(
        help_text="Number of documents that can be restored. Each partition counts up to 10,000."
    )
    last_at = serializers.DateTimeField(help_text="Moment of the last removal.")


class _OutputSerializer(serializers.Serializer[Any]):
    output = serializers.IntegerField(source="output_id")
    name = serializers.CharField(source="output")
    documents = serializers.IntegerField(
        help_text="Number of documents that can be restored. Each partition counts up to 10,000."
    )
    last_at = serializers.DateTimeField(help_text="Moment of the last removal.")
    was_taken_away = serializers.BooleanField(help_text="True if the job lost the output, and gets it back.")


class RestorationSerializer(serializers.ModelSerializer[Restoration]):
    """
    A request to restore the removals of a run, or of an operation on an `output` (then `run_no` is 0).

    Workers carry it out; `ended_at` is null until then.

    `restored` documents are back. No text of `unread` documents is left: the next run reads them again.
    `refused` is the reason why an output did not take a document.
    """

    job = serializers.IntegerField(source="job_id")
    output = serializers.IntegerField(source="output_id", allow_null=True, read_only=True)
    partition = serializers.CharField(
        read_only=True,
        help_text="Name of the partition that restores its documents. Empty if it is the partition that answers.",
    )

    class Meta:
        model = Restoration
        fields = (
            "id",
            "job",
            "run_no",
            "output",
            "since",
            "asked_at",
            "asked_by",
            "ended_at",
            "restored",
            "unread",
            "refused",
            "partition",
        )
        read_only_fields = fields


class RemovalsSerializer(serializers.Serializer[Any]):
    """The removals of a job, in all partitions."""

    question = QuestionSerializer(allow_null=True, help_text="Removals that wait for approval. Null if there are none.")
    runs = _RunSerializer(many=True, help_text="Runs whose removals can be restored, newest first.")
    outputs = _OutputSerializer(many=True, help_text="Outputs that were cleared or removed from the job.")
    restorations = RestorationSerializer(many=True, help_text="Latest restorations, newest first.")
    silent = serializers.SerializerMethodField(
        help_text="Partitions that did not answer. Their removals are missing, so the true counts may be higher."
    )

    @extend_schema_field(serializers.ListField(child=serializers.CharField()))
    def get_silent(self, removals: Removals) -> list[str]:
        return [one.name for one in removals.silent]


class RestoreSerializer(StrictSerializer):
    """The removals to undo: of one run, or of an operation on one output."""

    run_no = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**31 - 1,
        help_text="Number of the run. By default, the newest run that removed documents.",
    )
    since = serializers.DateTimeField(
        required=False, help_text="Restore only documents that were removed at this moment or later."
    )
    output = serializers.IntegerField(
        required=False,
        min_value=1,
        max_value=2**63 - 1,
        help_text="An output that was cleared or removed from the job. The job gets it back, if it lost it.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if "output" in attrs and len(attrs) > 1:
            raise serializers.ValidationError({"output": "Name a run or an output, not both."})
        return attrs


class DeletedJobSerializer(serializers.ModelSerializer[DeletedJob]):
    """Deleted job that can be restored."""

    class Meta:
        model = DeletedJob
        fields = ("id", "name", "run_no", "deleted_at")
        read_only_fields = fields


@extend_schema_view(list=extend_schema(description="List deleted jobs that can be restored, newest first."))
class DeletedJobView(ListingView):
    permissions_needed = {"list": "jobs.view_job", "restore": "jobs.delete_job"}
    queryset = DeletedJob.objects.defer("rows")
    serializer_class = DeletedJobSerializer
    lookup_value_regex = "[0-9]{1,19}"
    keyset = ("-id",)

    @extend_schema(
        operation_id="deleted_jobs_restore",
        description="Restore a deleted job. Workers then restore its documents to the outputs.",
        request=Nothing,
        responses={202: RestorationSerializer},
    )
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        asked = restoring.restore_deleted(int(pk), made_by=request.user.get_username(), now=read_clock())
        return Response(RestorationSerializer(asked.checked()[0]).data, status=status.HTTP_202_ACCEPTED)
