"""Details of a host in the API: its rate by hour, its sitemaps, and the evidence of politeness."""

from typing import Any

from rest_framework import serializers

from jobs.queries.hosts.evidence import Minute
from jobs.queries.hosts.sitemaps import Sitemap, SitemapDocument
from jobs.queries.hosts.week import Hour
from nodes.api.strict import StrictSerializer


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


class GapSerializer(serializers.Serializer[Any]):
    """Minutes in which requests may be missing."""

    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    why = serializers.CharField()


class MinuteSerializer(serializers.Serializer[Minute]):
    """Requests to a host in one minute."""

    at = serializers.DateTimeField(help_text="Start of the minute.")
    requests = serializers.IntegerField()
    unanswered = serializers.IntegerField(help_text="Requests without an answer.")
    most_in_a_second = serializers.IntegerField()
    bytes_read = serializers.IntegerField()
    gap = serializers.FloatField(
        allow_null=True,
        help_text="Shortest minimum gap that was in force in the minute (seconds). Null without a request.",
    )
    refusals = serializers.IntegerField(help_text="Answers that made the crawler wait, such as 429.")


class EvidenceSerializer(serializers.Serializer[Any]):
    """Evidence of politeness of a host: the state of its chain."""

    is_recorded = serializers.BooleanField(help_text="True if requests are recorded now.")
    blocks = serializers.IntegerField(help_text="Number of the last block.")
    hash = serializers.CharField(allow_blank=True, help_text="Hash of the last block.")
    pruned = serializers.IntegerField(help_text="Number of the last block that retention has deleted.")
    verified = serializers.IntegerField(help_text="Number of the newest blocks, whose hashes this request verified.")
    problem = serializers.CharField(
        allow_blank=True, help_text="First wrong block, with the reason. Empty if all hashes are right."
    )
    complete_until = serializers.DateTimeField(
        allow_null=True, help_text="Until this moment, the record has all requests, except in its gaps."
    )
    gaps = GapSerializer(many=True, help_text="Gaps of the last day, the newest first.")
    minutes = MinuteSerializer(many=True, help_text="Minutes of the last day with requests, the oldest first.")


class EvidencePeriodSerializer(StrictSerializer):
    """Period of the evidence in whole minutes."""

    since = serializers.DateTimeField(required=False, help_text="First minute. Default: the first one of the record.")
    until = serializers.DateTimeField(required=False, help_text="End of the last minute. Default: the last one.")
