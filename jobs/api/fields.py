"""Fields of jobs that Django REST framework lacks."""

import datetime as dt
from collections.abc import Mapping
from typing import Any, Final

from django.db.models import Manager
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from jobs.checks.job_options import LONGEST
from jobs.connectors.repository.web.urls import typed_without_userinfo
from jobs.connectors.stored_secrets import mask
from jobs.connectors.transformation.pipeline import MOST_STAGES, read_pipeline
from jobs.models import OutputConnection
from nodes.api.etags import Masked
from nodes.life.identity import TAG

# Largest whole number that every JSON reader keeps exact. No count here comes near to it.
_HIGHEST: Final = 2**53
MOST_SEEDS: Final = 1_000
MOST_OUTPUTS: Final = 20
HIGHEST_ID: Final = 2**63 - 1


class AddressField(serializers.CharField):
    """
    An address to start from, without user name and password: the crawl never sends them, and readers of the job must
    not see them.
    """

    def to_internal_value(self, data: str) -> str:
        return typed_without_userinfo(super().to_internal_value(data))

    def to_representation(self, value: str) -> str:
        return typed_without_userinfo(super().to_representation(value))


@extend_schema_field({"type": "string", "pattern": f"^({TAG})?$", "default": ""})
class TagField(serializers.RegexField):
    """A tag of workers, or an empty text."""

    def __init__(self, *, help_text: str) -> None:
        super().__init__(rf"^{TAG}\Z", default="", allow_blank=True, help_text=help_text)


@extend_schema_field(OpenApiTypes.DOUBLE)
class SecondsField(serializers.Field[dt.timedelta, object, float, Any]):
    """A span of time in seconds."""

    default_error_messages = {
        "not_a_number": "Write a number of seconds.",
        "out_of_range": "Write a number of seconds greater than 0 and at most 100 years.",
    }

    def to_internal_value(self, data: object) -> dt.timedelta:
        if isinstance(data, bool) or not isinstance(data, int | float):
            self.fail("not_a_number")
        if not 0 < data <= LONGEST.total_seconds():
            self.fail("out_of_range")
        return dt.timedelta(seconds=data)

    def to_representation(self, value: dt.timedelta) -> float:
        return value.total_seconds()


@extend_schema_field(OpenApiTypes.OBJECT)
class ObjectField(serializers.Field[Any, Any, Any, Any]):
    """A JSON object with members that a connector defines and checks."""

    default_error_messages = {
        "not_an_object": "This must be an object.",
        "out_of_range": f"The number {{number}} is out of range: from -{_HIGHEST} to {_HIGHEST}.",
    }

    def to_internal_value(self, data: object) -> dict[str, Any]:
        if not isinstance(data, Mapping):
            self.fail("not_an_object")
        waiting: list[Any] = list(data.values())
        while waiting:
            match waiting.pop():
                case int() as number if not -_HIGHEST <= number <= _HIGHEST:
                    self.fail("out_of_range", number=f"{number:.3e}" if abs(number) < 10**300 else "given")
                case Mapping() as members:
                    waiting.extend(members.values())
                case list() as items:
                    waiting.extend(items)
                case _:
                    pass
        return dict(data)

    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return value


class ConfigurationField(ObjectField):
    """A stored configuration, with a mask in place of each secret. The mask is accepted back as "unchanged"."""

    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return Masked(mask(value), behind=value)


@extend_schema_field(
    {"type": "array", "items": {"type": "integer", "minimum": 1}, "minItems": 1, "maxItems": MOST_OUTPUTS}
)
class OutputsField(serializers.ListField):
    """The outputs of a job by their ids, looked up in one query."""

    default_error_messages = {"unknown": "Output {unknown} does not exist."}
    child = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID)

    def to_internal_value(self, data: list[Any]) -> list[OutputConnection]:
        wanted = list(dict.fromkeys(super().to_internal_value(data)))
        found = OutputConnection.objects.in_bulk(wanted)
        unknown = [str(output_id) for output_id in wanted if output_id not in found]
        if unknown:
            self.fail("unknown", unknown=", ".join(unknown))
        return [found[output_id] for output_id in wanted]

    def to_representation(self, value: "list[Any] | Manager[OutputConnection]") -> list[int]:
        return [output.pk for output in (value.all() if isinstance(value, Manager) else value)]


PIPELINE_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "stages": {
            "type": "array",
            "maxItems": MOST_STAGES,
            "items": {
                "type": "object",
                "required": ["name", "kind"],
                "properties": {
                    "name": {"type": "string", "maxLength": 100},
                    "kind": {"type": "string"},
                    "input": {"type": "string", "description": "`source`, or the name of a stage above."},
                    "settings": {"type": "object", "additionalProperties": True},
                },
            },
        },
        "outputs": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "Stage of an output. Other outputs follow the last stage.",
        },
    },
}


@extend_schema_field(PIPELINE_SCHEMA)
class PipelineField(ObjectField):
    """The stages between the source of a job and its outputs, which are named by their ids."""

    def __init__(self, **options: Any) -> None:
        super().__init__(
            default=dict, help_text="Stages between source and outputs. An output has its id as its key.", **options
        )

    def to_representation(self, value: dict[str, Any]) -> dict[str, Any]:
        return read_pipeline(value).shown()
