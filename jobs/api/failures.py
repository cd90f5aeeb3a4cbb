"""Failures of documents over all jobs, by host and cause."""

from collections.abc import Sequence
from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers

from jobs.api.all_partitions import EverywhereView, PlacedSerializer
from jobs.api.fields import HIGHEST_ID
from jobs.queries.documents.conditions import lanes_of_host
from jobs.queries.documents.failures import STEPS, FailureLine, describe_groups, groups_of_jobs
from jobs.words.codes import explain_code
from nodes.api.strict import PageQuery
from nodes.database.clock import read_clock


class FailureSerializer(PlacedSerializer):
    """Failures of a job at one host for one cause."""

    id = serializers.IntegerField(help_text="Number of the failure in its partition.")
    job = serializers.IntegerField(source="job_id")
    host = serializers.CharField()
    result_code = serializers.CharField(source="code")
    meaning = serializers.SerializerMethodField(help_text="Meaning of the result code. Empty if it has none.")
    first_at = serializers.DateTimeField(help_text="Moment of the first failure.")
    last_at = serializers.DateTimeField(help_text="Moment of the last failure.")
    times = serializers.IntegerField(help_text="Number of failures since the first one.")
    failed = serializers.IntegerField(help_text="Number of documents that have this failure in the job's present run.")
    trend = serializers.ListField(
        child=serializers.IntegerField(),
        min_length=STEPS,
        max_length=STEPS,
        help_text="Failures of the last 7 days in steps of 6 hours, the oldest first.",
    )
    sample = serializers.CharField(help_text="Address of the last failed document. Empty if it left the queue.")

    def get_meaning(self, line: FailureLine) -> str:
        return explain_code(line.code)


class FailureQuery(PageQuery):
    """Parameters of the list of failures."""

    job = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID, required=False)
    host = serializers.CharField(
        max_length=300, required=False, help_text="Host name, with its port unless that is 80 or 443."
    )
    result_code = serializers.CharField(max_length=30, required=False)


@extend_schema_view(list=extend_schema(description="List the failures of all jobs by host and cause, last seen first."))
class FailureView(EverywhereView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "jobs.view_queueitem"}
    queryset = groups_of_jobs().select_related("bin")
    serializer_class = FailureSerializer
    query_class = FailureQuery
    keyset = ("-last_at", "-id")

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        if "job" in query:
            queryset = queryset.filter(job_id=query["job"])
        if "host" in query:
            queryset = queryset.filter(bin__in=lanes_of_host(query["host"]).values("bin"))
        if "result_code" in query:
            queryset = queryset.filter(code=query["result_code"])
        return queryset

    def described(self, rows: Sequence[Any]) -> Sequence[FailureLine | None]:
        lines = {line.id: line for line in describe_groups(rows, now=read_clock())}
        return [lines.get(row.pk) for row in rows]
