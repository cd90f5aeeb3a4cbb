"""Verifications of archives in the API."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import ArchiveFault, ArchiveVerification
from jobs.verification.archives import verbs
from jobs.verification.resources import (
    STARTED,
    StartedSerializer,
    StateSerializer,
    VerificationsView,
    WantedSerializer,
    examples_of,
    permissions_of,
    started,
)
from nodes.api.strict import read_body


class ArchiveVerificationWantedSerializer(WantedSerializer):
    """Request to verify the archives."""

    sample = serializers.FloatField(
        required=False,
        allow_null=True,
        default=None,
        min_value=0.001,
        max_value=100,
        help_text="Share of the files to compare, in percent. If null, all are compared.",
    )
    repair = serializers.BooleanField(
        default=False,
        help_text="True to write damaged copies again from whole ones, and to read documents again whose body is lost.",
    )
    lost_machine = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=255,
        help_text="Machine that never comes back. Its local copies count as deleted.",
    )


class ArchiveFaultSerializer(serializers.ModelSerializer[ArchiveFault]):
    """Fault of an archive."""

    kind = serializers.ChoiceField(ArchiveFault.Kind.choices)
    job = serializers.IntegerField(source="job_id", allow_null=True)

    class Meta:
        model = ArchiveFault
        fields = ("kind", "path", "place", "job", "hash", "identifier", "result")
        read_only_fields = fields


class ArchiveVerificationSerializer(StateSerializer[ArchiveVerification]):
    """Verification of the archives, with its progress."""

    host = serializers.CharField(help_text="Machine whose local copies are compared; empty: it has not begun.")
    lost_machine = serializers.CharField(help_text="Machine whose local copies count as deleted; empty: none.")

    class Meta:
        model = ArchiveVerification
        fields: tuple[str, ...] = (
            "id",
            "task",
            "state",
            "started_at",
            "started_by",
            "ended_at",
            "refused",
            "sample",
            "repairs",
            "host",
            "lost_machine",
            "files",
            "records",
            "deleted",
            "truncated",
            "damaged",
            "foreign",
            "no_record",
            "no_row",
            "lost",
            "skipped",
            "repaired",
            "partition",
        )
        read_only_fields = fields


class ArchiveVerificationStartedSerializer(StartedSerializer[ArchiveVerification], ArchiveVerificationSerializer):
    """Scheduled verification of the archives, and the verifications that other partitions have scheduled."""

    class Meta(ArchiveVerificationSerializer.Meta):
        fields = (*ArchiveVerificationSerializer.Meta.fields, *STARTED)
        read_only_fields = fields


class ArchiveVerificationResultSerializer(ArchiveVerificationSerializer):
    """Verification of the archives, with faults."""

    examples = serializers.SerializerMethodField(help_text="The first 100 faults.")

    class Meta(ArchiveVerificationSerializer.Meta):
        fields = (*ArchiveVerificationSerializer.Meta.fields, "examples")
        read_only_fields = fields

    @extend_schema_field(ArchiveFaultSerializer(many=True))
    def get_examples(self, verification: ArchiveVerification) -> list[Any]:
        return examples_of(verification, ArchiveFaultSerializer)


@extend_schema_view(
    list=extend_schema(
        description="List verifications of archives, newest first. Those of other partitions follow, one partition after the other."
    ),
    retrieve=extend_schema(
        description="Return one verification with its progress, and 100 of its faults.",
        responses={200: ArchiveVerificationResultSerializer},
    ),
)
class ArchiveVerificationView(VerificationsView):
    permissions_needed = permissions_of("jobs.view_queueitem")
    queryset = ArchiveVerification.objects.all()
    serializer_class = ArchiveVerificationSerializer
    result_class = ArchiveVerificationResultSerializer
    tagged_by = ArchiveVerificationSerializer

    @extend_schema(
        description="Schedule the verification of the archives by a background task in each partition, or in one of them.",
        request=ArchiveVerificationWantedSerializer,
        responses={201: ArchiveVerificationStartedSerializer},
    )
    def create(self, request: Request) -> Response:
        wanted = read_body(ArchiveVerificationWantedSerializer, request)
        user: Any = request.user
        begun = verbs.start_everywhere(
            describe=lambda made: dict(ArchiveVerificationSerializer(made).data),
            partition=wanted["partition"],
            sample=wanted["sample"],
            repairs=wanted["repair"],
            lost_machine=wanted["lost_machine"],
            may=user.has_perm,
            made_by=user.get_username(),
        )
        return started(begun, view="api:archive-verification-detail", request=request)
