"""Verifications of outputs in the API."""

from collections.abc import Sequence
from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.models import Fault, OutputConnection, OutputFault, OutputVerification
from jobs.verification import verbs
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


class VerificationWantedSerializer(WantedSerializer):
    """Request to verify an output."""

    output = serializers.IntegerField(min_value=1, max_value=2**63 - 1)
    sample = serializers.FloatField(
        required=False,
        allow_null=True,
        default=None,
        min_value=0.001,
        max_value=100,
        help_text="Share of the documents to compare, in percent. If null, all are compared.",
    )
    repair = serializers.BooleanField(
        default=False, help_text="True to read missing and stale documents again, and to remove ghosts."
    )
    most = serializers.IntegerField(
        required=False,
        allow_null=True,
        default=None,
        min_value=0,
        max_value=verbs.MOST_REPAIRS,
        help_text="Maximum number of repairs. If null, there is no limit.",
    )
    allow_removals = serializers.BooleanField(
        default=False,
        help_text="True to remove ghosts even above the thresholds of the delete guard. For administrators.",
    )


class OutputFaultSerializer(serializers.ModelSerializer[OutputFault]):
    """Document that differs between the output and the record, with the result of its repair."""

    kind = serializers.ChoiceField(Fault.choices)

    class Meta:
        model = OutputFault
        fields = ("kind", "hash", "identifier", "result")
        read_only_fields = fields


class VerificationSerializer(StateSerializer[OutputVerification]):
    """Verification of an output, with its progress."""

    output = serializers.IntegerField(
        source="output_id",
        allow_null=True,
        help_text="Null if another partition has the verification, and no output of this partition has its name.",
    )
    in_sync = serializers.SerializerMethodField(help_text="Share of the documents read that are in sync, in percent.")
    buckets = serializers.SerializerMethodField(help_text="Number of buckets to compare, of 4,096.")

    class Meta:
        model = OutputVerification
        fields: tuple[str, ...] = (
            "id",
            "output",
            "task",
            "state",
            "started_at",
            "started_by",
            "compared_at",
            "ended_at",
            "refused",
            "buckets",
            "repairs",
            "most",
            "allows_removals",
            "documents",
            "in_sync",
            "missing",
            "ghost",
            "stale",
            "damaged",
            "skipped",
            "repaired",
            "question",
            "partition",
        )
        read_only_fields = fields

    def get_in_sync(self, verification: OutputVerification) -> float:
        return verbs.share_in_sync(verification)

    def get_buckets(self, verification: OutputVerification) -> int:
        return verbs.buckets_of(verification)


class VerificationStartedSerializer(StartedSerializer[OutputVerification], VerificationSerializer):
    """Scheduled verification of an output, and the verifications that other partitions have scheduled."""

    class Meta(VerificationSerializer.Meta):
        fields = (*VerificationSerializer.Meta.fields, *STARTED)
        read_only_fields = fields


class VerificationResultSerializer(VerificationSerializer):
    """Verification of an output, with documents that differ."""

    examples = serializers.SerializerMethodField(help_text="The first 100 documents that differ.")

    class Meta(VerificationSerializer.Meta):
        fields = (*VerificationSerializer.Meta.fields, "examples")
        read_only_fields = fields

    @extend_schema_field(OutputFaultSerializer(many=True))
    def get_examples(self, verification: OutputVerification) -> list[Any]:
        return examples_of(verification, OutputFaultSerializer)


@extend_schema_view(
    list=extend_schema(
        description="List verifications of outputs, newest first. Those of other partitions follow, one partition after the other."
    ),
    retrieve=extend_schema(
        description="Return one verification with its progress, and 100 of the documents that differ.",
        responses={200: VerificationResultSerializer},
    ),
)
class VerificationView(VerificationsView):
    permissions_needed = permissions_of("jobs.view_outputconnection")
    queryset = OutputVerification.objects.select_related("output")
    serializer_class = VerificationSerializer
    result_class = VerificationResultSerializer
    tagged_by = VerificationSerializer

    def with_names(self, row: dict[str, Any], one: Any) -> dict[str, Any]:  # noqa: ANN401 (a verification)
        return {**row, "output": one.output.name}

    def replace_names(self, rows: Sequence[dict[str, Any]]) -> None:
        names = {row["output"] for row in rows}
        numbers = dict(OutputConnection.objects.filter(name__in=names).values_list("name", "pk")) if names else {}
        for row in rows:
            row["output"] = numbers.get(row["output"])

    @extend_schema(
        description="Schedule the verification of an output by a background task in each partition, or in one of them.",
        request=VerificationWantedSerializer,
        responses={201: VerificationStartedSerializer},
    )
    def create(self, request: Request) -> Response:
        wanted = read_body(VerificationWantedSerializer, request)
        user: Any = request.user
        begun = verbs.start_everywhere(
            wanted["output"],
            describe=lambda made: {**VerificationSerializer(made).data, "output": wanted["output"]},
            partition=wanted["partition"],
            sample=wanted["sample"],
            repairs=wanted["repair"],
            most=wanted["most"],
            allows_removals=wanted["allow_removals"],
            may=user.has_perm,
            made_by=user.get_username(),
        )
        return started(begun, view="api:verification-detail", request=request)
