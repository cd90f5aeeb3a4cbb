"""The runs of jobs, the newest first."""

from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import serializers

from jobs.api.fields import HIGHEST_ID
from jobs.lifecycle.job import RunEnd
from jobs.models import Run
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery


class RunSerializer(serializers.ModelSerializer[Run]):
    """Run of a job. Its counts are those at its end, and 0 while it lasts: `counts/` of the job has the present ones."""

    class Meta:
        model = Run
        fields = (
            *("id", "job", "run_no", "started_at", "started_by", "ended_at", "run_end", "reason"),
            *("indexed", "unchanged", "failed", "excluded", "deleted", "bytes"),
        )
        read_only_fields = fields


class RunQuery(NewestQuery):
    """The runs of jobs."""

    job = serializers.IntegerField(source="job_id", min_value=1, max_value=HIGHEST_ID, required=False)
    run_end = serializers.ChoiceField([end.value for end in RunEnd], required=False)


@extend_schema_view(list=extend_schema(description="List the runs of all jobs, newest first."))
class RunView(ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "jobs.view_job"}
    queryset = Run.objects.all()
    serializer_class = RunSerializer
    query_class = RunQuery
    keyset = ("-id",)
