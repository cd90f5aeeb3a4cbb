"""The OpenAPI description of the API, with one schema for all errors."""

from typing import Any, Literal

from drf_spectacular.openapi import AutoSchema
from rest_framework import serializers

from nodes.api.paging import ListingView


class Problem(serializers.Serializer[Any]):
    """Reason why a request failed. Nothing was changed."""

    title = serializers.CharField(help_text="Meaning of the status.")
    status = serializers.IntegerField(help_text="Status of the answer.")
    code = serializers.SlugField(help_text="Stable code for programs.")
    detail = serializers.CharField(help_text="Sentence for people.")
    fields = serializers.DictField(  # type: ignore[assignment]  # DRF takes declared fields out of the class
        child=serializers.ListField(child=serializers.CharField()),
        required=False,
        help_text="Problems by field. Inner fields have dots: `seeds.0.urls`.",
    )
    allowed = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="With 409: actions of the job that are possible now."
    )


class Schema(AutoSchema):
    """The description of one operation."""

    def get_override_parameters(self) -> list[Any]:
        if isinstance(self.view, ListingView) and self.view.action == "list":
            return [self.view.query_class]
        return super().get_override_parameters()

    def _map_serializer_field(self, field: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (as in its base)
        described = super()._map_serializer_field(field, *args, **kwargs)  # type: ignore[no-untyped-call]
        if isinstance(field, serializers.ListSerializer) and described:
            # Adds the bounds of a list of objects: the base describes them for lists of values only.
            bounds = {"minItems": getattr(field, "min_length", None), "maxItems": getattr(field, "max_length", None)}
            described = described | {name: bound for name, bound in bounds.items() if bound is not None}
        return described

    def _insert_field_validators(self, field: Any, schema: dict[str, Any]) -> None:  # noqa: ANN401 (as in its base)
        super()._insert_field_validators(field, schema)  # type: ignore[no-untyped-call]
        if schema.get("oneOf", [None])[-1] == {"type": "string", "maxLength": 0}:
            # The base allows a pattern or the empty text. A text that matches both would be refused by `oneOf`.
            schema["anyOf"] = schema.pop("oneOf")

    def _get_response_bodies(self, direction: Literal["request", "response"] = "response") -> dict[str, Any]:
        bodies: dict[str, Any] = super()._get_response_bodies(direction)
        media_types = ["application/problem+json"]
        bodies["default"] = self._get_response_for_code(Problem, "default", media_types, direction=direction)  # type: ignore[no-untyped-call]
        return bodies
