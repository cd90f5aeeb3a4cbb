"""Serializers and views of the API that verifications of outputs and of archives share."""

from typing import Any, Final, Generic, TypeVar

from django.db import models
from django.urls import reverse
from drf_spectacular.utils import extend_schema_field
from rest_framework import mixins, serializers
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import EverywhereView, PlacedSerializer
from jobs.models import Verification
from jobs.partitions import this_partition
from jobs.verbs.control import MAY_CONTROL
from jobs.verification.all_partitions import Begun
from jobs.verification.attempts import state_of
from nodes.api.base import created
from nodes.api.strict import NewestQuery, StrictSerializer

V = TypeVar("V", bound=Verification)

# Largest number of faults that one answer names.
SHOWN: Final = 100


class StateSerializer(PlacedSerializer, serializers.ModelSerializer[V], Generic[V]):
    """Verification of any kind, with its state: whether it waits, runs, or has ended."""

    state = serializers.SerializerMethodField(help_text="`waiting`, `running`, `done`, `refused` or `ended early`.")

    @extend_schema_field(serializers.ChoiceField(["waiting", "running", "done", "refused", "ended early"]))
    def get_state(self, verification: V) -> str:
        return state_of(verification)


class WantedSerializer(StrictSerializer):
    """The field of a request for a verification that names the partition to verify."""

    partition = serializers.CharField(
        required=False,
        allow_blank=True,
        default="",
        max_length=31,
        help_text="Name of the partition to verify. Empty: all, in the control partition.",
    )


class VerificationElsewhereSerializer(serializers.Serializer[Any]):
    """Verification that another partition has scheduled, with its ids there."""

    partition = serializers.CharField()
    id = serializers.IntegerField(help_text="Number of the verification there.")
    task = serializers.IntegerField(help_text="Number of its task there.")


class VerificationRefusalSerializer(serializers.Serializer[Any]):
    """Partition that refuses to schedule a verification, with the reason."""

    partition = serializers.CharField()
    why = serializers.CharField()


class StartedSerializer(StateSerializer[V], Generic[V]):
    """Scheduled verification, and the verifications that other partitions have scheduled."""

    elsewhere = VerificationElsewhereSerializer(
        many=True, read_only=True, help_text="Verifications of other partitions."
    )
    silent = serializers.ListField(
        child=serializers.CharField(), read_only=True, help_text="Partitions that did not answer."
    )
    refusals = VerificationRefusalSerializer(
        many=True, read_only=True, help_text="Partitions that schedule no verification."
    )


STARTED: Final = ("elsewhere", "silent", "refusals")


def started(begun: Begun[dict[str, Any]], *, view: str, request: Request) -> Response:
    """Return the answer to a request that scheduled verifications: the first one, and those of other partitions."""
    first, *others = begun.rows
    shown = {
        **first.line,
        "elsewhere": [{"partition": one.partition, "id": one.line["id"], "task": one.line["task"]} for one in others],
        "silent": begun.silent,
        "refusals": [{"partition": name, "why": why} for name, why in begun.refused.items()],
    }
    return created(
        shown, at=this_partition.address_in(first.partition, reverse(view, args=[shown["id"]])), request=request
    )


def examples_of(verification: Verification, serializer: type[serializers.ModelSerializer[Any]]) -> list[Any]:
    """Return the first faults of a verification, as this serializer shows them."""
    model: type[models.Model] = serializer.Meta.model
    found = model._default_manager.filter(verification=verification)[:SHOWN]  # noqa: SLF001 (Django documents it)
    return list(serializer(found, many=True).data)


class VerificationsView(mixins.RetrieveModelMixin, EverywhereView):
    """Verifications of one kind. `result_class` is the serializer of one verification with its faults."""

    http_method_names = ["get", "head", "options", "post"]
    of_jobs = False
    result_class: type[serializers.BaseSerializer[Any]]
    query_class = NewestQuery
    keyset = ("-id",)
    tagged_fields = ("state", "attempt")
    lookup_value_regex = "[0-9]{1,18}"

    def get_serializer_class(self) -> type[serializers.BaseSerializer[Any]]:
        return self.result_class if self.action == "retrieve" else self.serializer_class  # type: ignore[return-value]


def permissions_of(may_view: str) -> dict[str, str]:
    """Return the permission of each action on verifications."""
    return {"list": may_view, "retrieve": may_view, "create": MAY_CONTROL}
