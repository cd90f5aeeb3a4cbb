"""The field that distinguishes rows of several databases."""

from typing import Any

from rest_framework import serializers


class PlacedSerializer(serializers.Serializer[Any]):
    """A row of this partition, or of another partition."""

    partition = serializers.SerializerMethodField(
        help_text="Name of the partition that has it. Empty if it is the partition that answers."
    )

    def get_partition(self, _row: object) -> str:
        return str(self.context.get("partition", ""))
