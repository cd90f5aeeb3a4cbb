"""The parts that the resources of all verifications have in the API."""

from typing import Any, Final, Generic, TypeVar

from django.db import models
from drf_spectacular.utils import extend_schema_field
from rest_framework import mixins, serializers

from jobs.api.everywhere import EverywhereView, PlacedSerializer
from jobs.models import Verification
from jobs.verbs.control import MAY_CONTROL
from jobs.verification.attempts import state_of
from nodes.api.strict import NewestQuery

V = TypeVar("V", bound=Verification)

# Faults that one answer names.
SHOWN: Final = 100


class StateSerializer(PlacedSerializer, serializers.ModelSerializer[V], Generic[V]):
    """Verification with its state."""

    state = serializers.SerializerMethodField(help_text="`waiting`, `running`, `done`, `refused` or `ended early`.")

    @extend_schema_field(serializers.ChoiceField(["waiting", "running", "done", "refused", "ended early"]))
    def get_state(self, verification: V) -> str:
        return state_of(verification)


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
