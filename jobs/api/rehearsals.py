"""The rehearsal of a change of a job in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import Job
from jobs.queries.rehearsals.comparing import Group
from jobs.queries.rehearsals.documents import Arrivals
from jobs.queries.rehearsals.jobs import HostLoad, Loss, Rehearsal
from jobs.verbs.rehearsing import rehearse
from nodes.database.clock import read_clock
from nodes.tasks.models import Task


class DocumentGroupSerializer(serializers.Serializer[Group]):
    """Number of documents, with the first few documents."""

    number = serializers.IntegerField()
    examples = serializers.ListField(child=serializers.CharField(), help_text="At most 20.")


class RefusedSerializer(serializers.Serializer[Any]):
    """Documents that one rule refuses."""

    reason = serializers.CharField(help_text="Rule in words.")
    number = serializers.IntegerField()
    examples = serializers.ListField(child=serializers.CharField(), help_text="At most 20.")


class ArrivalsSerializer(serializers.Serializer[Arrivals]):
    """Addresses that the job would read only because of the change."""

    found = DocumentGroupSerializer(
        help_text="Addresses in the job's sample of rejected addresses that the changed rules admit."
    )
    new_forms = DocumentGroupSerializer(
        help_text="New addresses instead of known ones, because links lose parameters under the changed rules."
    )
    within = DocumentGroupSerializer(help_text="Known addresses that come within the hop limits.")
    likely = serializers.IntegerField(
        help_text="Likely number of all arrivals. The sum of `found`, `new_forms` and `within` if the sample is whole."
    )
    sample = serializers.IntegerField(help_text="Number of rejected addresses in the sample.")
    is_whole = serializers.BooleanField(help_text="True if the sample has every rejected address.")


class LossSerializer(serializers.Serializer[Loss]):
    """Documents that leave an output."""

    output = serializers.CharField(help_text="Name of the output.")
    documents = serializers.IntegerField()


class HostLoadSerializer(serializers.Serializer[HostLoad]):
    """Documents of a host, and the time of a full run there, before and after the change."""

    host = serializers.CharField()
    before = serializers.IntegerField(help_text="Documents before the change.")
    after = serializers.IntegerField(help_text="Documents after the change.")
    gap = serializers.FloatField(
        allow_null=True, help_text="Seconds between two request starts. 0 without a rate. Null if the host is denied."
    )
    seconds_before = serializers.FloatField(
        allow_null=True, help_text="Shortest time of a full run before the change. Null without a rate."
    )
    seconds_after = serializers.FloatField(allow_null=True, help_text="Shortest time of a full run after the change.")


class RehearsalSerializer(serializers.Serializer[Rehearsal]):
    """Effects of a change of a job in its next full run. Nothing was stored."""

    documents = serializers.IntegerField(help_text="Documents of the job now.")
    staying = serializers.IntegerField(help_text="Documents that stay.")
    dropped = serializers.IntegerField(help_text="Documents that leave the job.")
    is_judged = serializers.BooleanField(
        help_text="False if the source decides only when it reads a document. Then no document is counted as dropped."
    )
    refused = serializers.SerializerMethodField(help_text="Documents that a rule refuses, by rule.")
    unlinked = DocumentGroupSerializer(help_text="Documents to which no link of a staying document leads any more.")
    beyond = DocumentGroupSerializer(help_text="Documents to which only paths beyond a hop limit lead.")
    arrivals = ArrivalsSerializer()
    at_the_end = serializers.IntegerField(
        help_text="Documents at the maximum number of hops. Their links are unknown, and not counted here."
    )
    losses = LossSerializer(many=True)
    needs_approval = serializers.BooleanField(help_text="True if the delete guard would let the removals wait.")
    hosts = HostLoadSerializer(many=True, help_text="Hosts with the largest changes, at most 20.")
    starts_before = serializers.ListField(child=serializers.CharField(), help_text="Next five starts by the schedule.")
    starts_after = serializers.ListField(child=serializers.CharField())
    notes = serializers.ListField(child=serializers.CharField(), help_text="Reasons why these numbers are not exact.")
    silent = serializers.ListField(
        child=serializers.CharField(),
        help_text="Partitions that did not answer. Their documents are missing, and documents that only their pages link to count as leaving.",
    )
    warnings = serializers.ListField(
        child=serializers.CharField(), help_text="Warnings that a save of the change would give."
    )

    @extend_schema_field(RefusedSerializer(many=True))
    def get_refused(self, rehearsal: Rehearsal) -> list[dict[str, Any]]:
        return [
            {"reason": reason, "number": group.number, "examples": group.examples}
            for reason, group in rehearsal.refused.items()
        ]


class RehearsalTaskSerializer(serializers.Serializer[Any]):
    """Task that rehearses a change of a job."""

    task = serializers.IntegerField(help_text="Number of the background task. The result of the task has the effects.")


class RehearsedJobs:
    """The part of the view of jobs with the operation that rehearses a change."""

    @extend_schema(
        operation_id="jobs_rehearse",
        description=(
            "Return the effects of a change of the job: documents that leave and arrive, documents that leave each "
            "output, load of hosts, next starts. The job stays as it is. The body is that of PATCH. If a rehearsal takes "
            "more than 4 s, a background task finds the effects."
        ),
        responses={200: RehearsalSerializer, 202: RehearsalTaskSerializer},
    )
    @action(detail=True, methods=["post"])
    def rehearse(self, request: Request, pk: str) -> Response:
        view: Any = self
        job: Job = view.get_object()
        changes = view.changes_in(request, job, partial=True)
        found = rehearse(job.pk, **changes, made_by=request.user.get_username(), now=read_clock())
        if isinstance(found, Task):
            return Response({"task": found.pk}, status=status.HTTP_202_ACCEPTED)
        return Response(RehearsalSerializer(found).data)
