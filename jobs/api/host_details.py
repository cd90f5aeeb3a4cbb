"""Details of a host in the API: its rate by hour, and its sitemaps."""

from typing import Any

from rest_framework import serializers

from jobs.queries.hosts.sitemaps import Sitemap, SitemapDocument
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


class SitemapDocumentSerializer(serializers.Serializer[SitemapDocument]):
    """Document of a job with the address of a sitemap."""

    job = serializers.IntegerField(source="job_id")
    job_name = serializers.CharField()
    fetched_at = serializers.DateTimeField(allow_null=True, help_text="Last request. Null before the first one.")
    result_code = serializers.CharField(source="code", allow_blank=True)


class SitemapSerializer(serializers.Serializer[Sitemap]):
    """Sitemap that robots.txt of a host names. Jobs take no addresses from it."""

    address = serializers.CharField()
    documents = SitemapDocumentSerializer(many=True, help_text="Documents of jobs with this address.")
