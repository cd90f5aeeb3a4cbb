"""The field that distinguishes rows of several databases."""

from typing import Any

from rest_framework import serializers


class PlacedSerializer(serializers.Serializer[Any]):
    """A row of this partition, or of another partition."""

    partition = serializers.SerializerMethodField(help_text="Other partition that has it. Empty: this one.")

    def get_partition(self, _row: object) -> str:
        return str(self.context.get("partition", ""))
