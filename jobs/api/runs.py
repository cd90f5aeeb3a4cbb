"""The runs of jobs, the newest first."""

from collections.abc import Sequence
from typing import Any, Final

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, serializers
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import names_of
from jobs.api.fields import HIGHEST_ID
from jobs.lifecycle.endings import Kind
from jobs.lifecycle.job import RunEnd
from jobs.models import DefinitionVersion, Run
from jobs.queries.jobs.run import NodesOfRun, compare_runs
from jobs.queries.jobs.run_differences import Flip, Result
from jobs.queries.jobs.run_documents import ComparedDocuments, Differing, Ended, Pair, SlowerHost
from jobs.queries.jobs.runs import RunLine, count_in_others
from jobs.state.run_samples import SAMPLES_KEPT
from nodes.api.paging import ListingView
from nodes.api.strict import NewestQuery, StrictSerializer, read_query

_COUNTS: Final = ("indexed", "unchanged", "failed", "excluded", "deleted", "bytes")
_NODES: Final = "Null if they are not known: the state of the cluster is kept for 30 days, each minute."
_SILENT: Final = "Partitions that did not answer. Their counts are missing, so the true counts may be higher."


class RunSerializer(serializers.ModelSerializer[Run]):
    """
    Run of a job. Its counts cover all partitions at its end. They are 0 while the run lasts: `counts/` of the job has
    the present counts.
    """

    silent = serializers.SerializerMethodField(help_text=_SILENT)

    def get_silent(self, run: Run) -> list[str]:
        return getattr(run, "silent", [])

    class Meta:
        model = Run
        fields = (
            *("id", "job", "run_no", "started_at", "started_by", "ended_at", "run_end", "reason"),
            *_COUNTS,
            "silent",
        )
        read_only_fields = fields


class RunQuery(NewestQuery):
    """Parameters of the list of runs."""

    job = serializers.IntegerField(source="job_id", min_value=1, max_value=HIGHEST_ID, required=False)
    run_end = serializers.ChoiceField([end.value for end in RunEnd], required=False)


class ComparisonQuery(StrictSerializer):
    """Two runs of one job, in either order."""

    earlier = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID)
    later = serializers.IntegerField(min_value=1, max_value=HIGHEST_ID)


class ComparedRunSerializer(serializers.Serializer[RunLine]):
    """One of two compared runs. While it lasts, its counts are the present ones."""

    id = serializers.IntegerField()
    job = serializers.IntegerField(source="job_id")
    run_no = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    started_by = serializers.CharField()
    ended_at = serializers.DateTimeField(allow_null=True)
    run_end = serializers.CharField()
    reason = serializers.CharField()
    indexed = serializers.IntegerField(source="counts.indexed")
    unchanged = serializers.IntegerField(source="counts.unchanged")
    failed = serializers.IntegerField(source="counts.failed")
    excluded = serializers.IntegerField(source="counts.excluded")
    deleted = serializers.IntegerField(source="counts.deleted")
    bytes = serializers.IntegerField(source="counts.bytes")
    silent = serializers.SerializerMethodField(help_text=_SILENT)

    def get_silent(self, line: RunLine) -> list[str]:
        return names_of(line.silent)


class ChangeBetweenRunsSerializer(serializers.Serializer[object]):
    """Event of the job that is not a transition, such as a change of its rules."""

    at = serializers.DateTimeField()
    made_by = serializers.CharField()
    message = serializers.CharField()


class SettingsBetweenRunsSerializer(serializers.Serializer[object]):
    """Version of the settings: `settings/versions/` has its content."""

    version = serializers.IntegerField(source="number")
    at = serializers.DateTimeField()
    made_by = serializers.CharField()


class DefinitionBetweenRunsSerializer(serializers.Serializer[object]):
    """Version of the job, of one of its connections, or of a policy: `versions/` has its content."""

    id = serializers.IntegerField()
    definition = serializers.ChoiceField(DefinitionVersion.Subject.choices)
    name = serializers.CharField()
    version = serializers.IntegerField(source="number")
    at = serializers.DateTimeField()
    made_by = serializers.CharField()


class NodesOfRunSerializer(serializers.Serializer[NodesOfRun]):
    """Names of the live nodes at the end of a run, or now, with the name of another partition in brackets."""

    managers = serializers.SerializerMethodField()
    workers = serializers.SerializerMethodField()

    def get_managers(self, nodes: NodesOfRun) -> list[str]:
        return sorted(nodes.managers)

    def get_workers(self, nodes: NodesOfRun) -> list[str]:
        return sorted(nodes.workers)


class EndedDocumentSerializer(serializers.Serializer[Ended]):
    """
    Last result of a document at the end of a run. The outcome of a document that was found and not yet read is empty.
    """

    outcome = serializers.SerializerMethodField()
    result_code = serializers.CharField(source="code")

    def get_outcome(self, ended: Ended) -> str:
        return str(ended.outcome.label) if ended.outcome else ""


class DifferingDocumentSerializer(serializers.Serializer[Pair]):
    """Document that differs. `earlier` or `later` is null if that run did not know the document."""

    hash = serializers.SerializerMethodField()
    identifier = serializers.CharField(help_text="Its first 1,000 characters.")
    earlier = EndedDocumentSerializer(allow_null=True)
    later = EndedDocumentSerializer(allow_null=True)

    def get_hash(self, pair: Pair) -> str:
        return pair.hash.hex


class FlippedResultSerializer(serializers.Serializer[Result]):
    """Result of documents. In the earlier run, only codes that are numbers are known."""

    outcome = serializers.SerializerMethodField()
    result_code = serializers.CharField(source="code")

    def get_outcome(self, result: Result) -> str:
        return str(result.outcome.label)


class FlippedDocumentsSerializer(serializers.Serializer[Flip]):
    """
    Number of documents of a host that ended with another result than before. New and changed documents are counted for
    all hosts together, as the host `""`.
    """

    host = serializers.CharField()
    earlier = FlippedResultSerializer(allow_null=True)
    later = FlippedResultSerializer(allow_null=True)
    documents = serializers.IntegerField(source="number")
    examples = serializers.ListField(child=serializers.CharField())


class DifferingDocumentsSerializer(serializers.Serializer[Differing]):
    """
    Documents of one kind: their number among the compared documents (`count`), and the estimated number among all
    documents of both runs (`estimate`).

    With a probability of 95 %, the number of all documents is between `least` and `most`. If the number is exact, both
    are equal. `flips` are the largest numbers of documents by host and result, if they were counted.
    """

    kind = serializers.ChoiceField([kind.value for kind in Kind])
    count = serializers.IntegerField()
    estimate = serializers.IntegerField(source="of_all.number")
    least = serializers.IntegerField(source="of_all.least")
    most = serializers.IntegerField(source="of_all.most")
    examples = DifferingDocumentSerializer(many=True)
    flips = FlippedDocumentsSerializer(many=True)


class SlowerHostSerializer(serializers.Serializer[SlowerHost]):
    """Host whose answers took longer: medians over the documents that both runs read with the same result code."""

    host = serializers.CharField(source="name")
    documents = serializers.IntegerField()
    earlier_ms = serializers.IntegerField()
    later_ms = serializers.IntegerField()


class ComparedDocumentsSerializer(serializers.Serializer[ComparedDocuments]):
    """Documents that differ between both runs, and slower hosts."""

    is_exact = serializers.BooleanField(
        help_text="True if all documents of both runs were compared. False if a sample was: the same documents of both runs."
    )
    compared = serializers.IntegerField(help_text="Documents that were compared.")
    estimate = serializers.IntegerField(
        source="of_all", help_text="Number of documents of both runs. An estimate, unless `is_exact` is true."
    )
    are_counted = serializers.BooleanField(
        help_text="True if the runs counted the documents that differ, so that numbers do not depend on a sample."
    )
    are_limits = serializers.BooleanField(
        help_text="True if other runs lie between both. Counted numbers are then upper limits."
    )
    kinds = DifferingDocumentsSerializer(many=True)
    slower_hosts = SlowerHostSerializer(source="slower", many=True)
    silent = serializers.SerializerMethodField(help_text="Partitions that did not answer. Their documents are missing.")

    def get_silent(self, found: ComparedDocuments) -> list[str]:
        return names_of(found.silent)


class ComparisonSerializer(serializers.Serializer[object]):
    """Two runs of a job, the documents that differ, and recorded changes between the starts of both runs."""

    earlier = ComparedRunSerializer()
    later = ComparedRunSerializer()
    changes = ChangeBetweenRunsSerializer(many=True)
    settings = SettingsBetweenRunsSerializer(many=True)
    definitions = DefinitionBetweenRunsSerializer(many=True)
    earlier_nodes = NodesOfRunSerializer(allow_null=True, help_text=_NODES)
    later_nodes = NodesOfRunSerializer(allow_null=True, help_text=_NODES)
    nodes_missing = serializers.ListField(
        child=serializers.CharField(),
        help_text="Partitions whose nodes are not known: they did not answer, or kept no minute.",
    )
    documents = ComparedDocumentsSerializer(
        allow_null=True,
        help_text="Null if a run has no record of its documents: it has not ended, or is not among the last "
        f"{SAMPLES_KEPT} of the job.",
    )
    is_complete = serializers.BooleanField(
        help_text="False if there may be earlier changes: only the newest events and versions are examined."
    )


def _with_others(runs: list[Run]) -> list[Run]:
    """Add the counts of other partitions to runs that have ended."""
    ended = {(run.job_id, run.run_no): run for run in runs if run.ended_at is not None}
    found = count_in_others(ended)
    for key, run in ended.items():
        run.silent = names_of(found.silent)  # type: ignore[attr-defined]
        for part in found.counts.get(key, ()):
            for name in _COUNTS:
                setattr(run, name, getattr(run, name) + getattr(part, name))
    return runs


@extend_schema_view(
    list=extend_schema(description="List the runs of all jobs, newest first."),
    retrieve=extend_schema(description="Return a run."),
)
class RunView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options"]
    queried = ("list", "comparison")
    permissions_needed = {"list": "jobs.view_job", "retrieve": "jobs.view_job", "comparison": "jobs.view_job"}
    lookup_value_regex = "[0-9]{1,18}"
    queryset = Run.objects.all()
    serializer_class = RunSerializer
    query_class = RunQuery
    keyset = ("-id",)

    def paginate_queryset(self, queryset: QuerySet[Any] | Sequence[Any]) -> list[Any]:
        return _with_others(super().paginate_queryset(queryset) or [])

    def get_object(self) -> Run:
        (run,) = _with_others([super().get_object()])
        return run

    @extend_schema(
        operation_id="runs_comparison",
        description="Compare two runs of a job: their counts, their documents, and changes of the job and the settings between their starts.",
        parameters=[ComparisonQuery],
        responses=ComparisonSerializer,
        filters=False,
    )
    @action(detail=False, pagination_class=None)
    def comparison(self, request: Request) -> Response:
        query = read_query(ComparisonQuery, request)
        return Response(ComparisonSerializer(compare_runs(query["earlier"], query["later"])).data)
