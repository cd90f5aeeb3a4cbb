"""The rate of a host by hour in the API."""

from typing import Any

from rest_framework import serializers

from jobs.queries.hosts.week import Hour


class HourSerializer(serializers.Serializer[Hour]):
    """Requests of a host in one hour, and the loosest limits that applied to them."""

    at = serializers.DateTimeField(help_text="Start of the hour.")
    seconds = serializers.FloatField(help_text="Seconds of the hour whose requests are counted.")
    starts = serializers.IntegerField(help_text="Started requests.")
    bytes_read = serializers.IntegerField()
    starts_per_second = serializers.FloatField()
    bytes_per_second = serializers.FloatField()
    allowed_starts_per_second = serializers.FloatField(
        allow_null=True, help_text="Null if there was no limit, or no request."
    )
    allowed_bytes_per_second = serializers.FloatField(
        allow_null=True, help_text="Null if there was no limit, or no request."
    )


class WeekSerializer(serializers.Serializer[Any]):
    """Rate of a host in the last seven days."""

    hours = HourSerializer(
        many=True, help_text="The last 168 hours, the oldest first. Empty if the host had no request in them."
    )
