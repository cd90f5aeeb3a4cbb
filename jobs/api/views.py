"""
The views of jobs, their seeds and their journal, and of connections. Each view calls one function of `jobs.verbs` or
`jobs.queries`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.all_partitions import names_of
from jobs.api.forecasts import ForecastQuery, ForecastSerializer, read_forecast_of
from jobs.api.freshness import FreshJobs
from jobs.api.rehearsals import RehearsedJobs
from jobs.api.removals import RemovalsSerializer, RestorationSerializer, RestoreSerializer
from jobs.api.serializers import (
    CountsEverywhereSerializer,
    CountsSerializer,
    JobEventQuery,
    JobEventSerializer,
    JobInListSerializer,
    JobQuery,
    JobSavedSerializer,
    JobSerializer,
    OutputSerializer,
    RepositorySerializer,
    SendBackSerializer,
    SentBackSerializer,
)
from jobs.models import Job, JobEvent, OutputConnection, RepositoryConnection, Seed
from jobs.queries.jobs.counts import read_counts_everywhere
from jobs.queries.jobs.removals import read_removals_everywhere
from jobs.queries.jobs.seeds import read_first_seeds
from jobs.verbs import connections, control, editing, schedules
from jobs.verbs import restoring_everywhere as restoring
from jobs.verbs.connection_checks import Kind
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NamedQuery, Nothing, read_body, read_query
from nodes.database.clock import read_clock
from nodes.errors import Unknown

_ID = "[0-9]{1,19}"
_LIVE_SEEDS = Prefetch("seeds", Seed.objects.filter(removed_at=None))


def _action_of(verb: control.Verb) -> str:
    """Return the name of a verb's action. It is not `delete`, because a view has this name for the HTTP method."""
    return "delete_job" if verb.name == "delete" else verb.name.replace("-", "_")


def _status_of(verb: control.Verb) -> int:
    """Return the HTTP status of the answer. It is 202 for a deletion, because workers carry it out later."""
    return status.HTTP_202_ACCEPTED if verb.name == "delete" else status.HTTP_200_OK


def _endpoint(verb: control.Verb) -> Callable[..., Response]:
    """Return the action of the view that performs a verb."""

    def perform(view: "JobView", request: Request, pk: str) -> Response:
        return view.perform(request, verb)

    # The framework identifies an action by the name of its function.
    perform.__name__ = _action_of(verb)
    described = extend_schema(
        operation_id=f"jobs_{verb.name.replace('-', '_')}",
        description=verb.effect,
        request=Nothing,
        responses={_status_of(verb): JobSerializer},
    )
    endpoint: Callable[..., Response] = described(action(detail=True, methods=["post"], url_path=verb.name)(perform))
    return endpoint


@extend_schema_view(
    list=extend_schema(
        description="List all jobs, oldest first, each with its first seeds and without its specification."
    ),
    retrieve=extend_schema(
        description="Return one job with its specification and all its seeds. PUT accepts this body."
    ),
)
class JobView(RehearsedJobs, FreshJobs, mixins.RetrieveModelMixin, ListingView):
    queried = ("list", "forecast")
    permissions_needed = {
        "list": "jobs.view_job",
        "retrieve": "jobs.view_job",
        "counts": "jobs.view_job",
        "forecast": "jobs.view_job",
        "freshness": "jobs.view_job",
        "create": "jobs.add_job",
        "update": "jobs.change_job",
        "partial_update": "jobs.change_job",
        "rehearse": "jobs.change_job",
        "destroy": "jobs.delete_job",
        "removals": "jobs.view_job",
        "restore": control.MAY_CONTROL,
        "send_back": control.MAY_CONTROL,
        "pause_schedule": control.MAY_CONTROL,
        "resume_schedule": control.MAY_CONTROL,
        **{_action_of(verb): verb.permission for verb in control.VERBS.values()},
    }
    serializer_class = JobSerializer
    tagged_by = JobSerializer
    query_class = JobQuery
    lookup_value_regex = _ID

    def get_queryset(self) -> QuerySet[Job]:
        jobs = Job.objects.prefetch_related("outputs", "windows")
        return jobs.defer("specification", "pipeline") if self.action == "list" else jobs.prefetch_related(_LIVE_SEEDS)

    def get_serializer_class(self) -> type[JobSerializer]:
        return JobInListSerializer if self.action == "list" else JobSerializer

    def paginate_queryset(self, queryset: QuerySet[Any] | Sequence[Any]) -> list[Any] | None:
        page = super().paginate_queryset(queryset)
        found = read_first_seeds(job.pk for job in page or [])
        for job in page or []:
            job.seeds_found = found[job.pk]
        return page

    @extend_schema(description="Create a job. It is not started.", responses={201: JobSavedSerializer})
    def create(self, request: Request) -> Response:
        wanted = self.get_serializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        saved = editing.create_job(**wanted.validated_data, made_by=request.user.get_username(), now=read_clock())
        return created(self._shown(saved), at=reverse("api:job-detail", args=[saved.job.pk]), request=request)

    @extend_schema(
        description="Replace the configuration of a job that is not running.", responses={200: JobSavedSerializer}
    )
    def update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=False)

    @extend_schema(description="Change fields of a job that is not running.", responses={200: JobSavedSerializer})
    def partial_update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=True)

    @extend_schema(description="Delete the job, as `delete/` does.", responses={202: JobSerializer})
    def destroy(self, request: Request, pk: str) -> Response:
        return self.perform(request, control.VERBS["delete"])

    @extend_schema(
        operation_id="jobs_removals",
        description="Return the removals that wait for approval, with their causes.",
        responses=RemovalsSerializer,
    )
    @action(detail=True)
    def removals(self, request: Request, pk: str) -> Response:
        found = read_removals_everywhere(int(pk))
        if found is None:
            raise Unknown("job", int(pk))
        return Response(RemovalsSerializer(found).data)

    @extend_schema(
        operation_id="jobs_restore",
        description="Restore the removals of a run to every output, without requests to the source. Workers do it after this request.",
        request=RestoreSerializer,
        responses={202: RestorationSerializer},
    )
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: str) -> Response:
        wanted = read_body(RestoreSerializer, request)
        asked_by: Any = {"made_by": request.user.get_username(), "now": read_clock()}
        if "output" in wanted:
            asked = restoring.restore_output(int(pk), wanted["output"], **asked_by)
        else:
            asked = restoring.restore(int(pk), **wanted, **asked_by)
        return Response(RestorationSerializer(asked.checked()[0]).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="jobs_send_back",
        description="Retry the failed documents of the run: all, or those with the given result codes.",
        request=SendBackSerializer,
        responses=SentBackSerializer,
    )
    @action(detail=True, methods=["post"], url_path="send-back")
    def send_back(self, request: Request, pk: str) -> Response:
        wanted = read_body(SendBackSerializer, request)
        sent = control.send_back_failed(int(pk), **wanted, made_by=request.user.get_username(), now=read_clock())
        return Response(SentBackSerializer(sent).data)

    @extend_schema(
        operation_id="jobs_pause_schedule",
        description="Pause the schedule of the job: no window starts a run until it is resumed. A present run goes on.",
        request=Nothing,
        responses=JobSerializer,
    )
    @action(detail=True, methods=["post"], url_path="pause-schedule")
    def pause_schedule(self, request: Request, pk: str) -> Response:
        return self._scheduled(request, schedules.pause)

    @extend_schema(
        operation_id="jobs_resume_schedule",
        description="Resume the schedule of the job. Windows that opened during the pause start nothing.",
        request=Nothing,
        responses=JobSerializer,
    )
    @action(detail=True, methods=["post"], url_path="resume-schedule")
    def resume_schedule(self, request: Request, pk: str) -> Response:
        return self._scheduled(request, schedules.resume)

    @extend_schema(
        operation_id="jobs_counts",
        description="Return the counts of the current or last run, exact at this moment.",
        responses=CountsEverywhereSerializer,
    )
    @action(detail=True)
    def counts(self, request: Request, pk: str) -> Response:
        job = get_object_or_404(Job.objects.only("run_no"), pk=pk)
        found = read_counts_everywhere(job.pk, run_no=job.run_no)
        return Response({**CountsSerializer(found.counts).data, "silent": names_of(found.silent)})

    @extend_schema(
        operation_id="jobs_forecast",
        description=(
            "Return the likely end of the present run with a band, also for other numbers of workers, rates or a window. "
            "Each moment is null if the run has no end, is held, or has shown too little progress."
        ),
        parameters=[ForecastQuery],
        responses=ForecastSerializer,
    )
    @action(detail=True)
    def forecast(self, request: Request, pk: str) -> Response:
        return Response(ForecastSerializer(read_forecast_of(int(pk), read_query(ForecastQuery, request))).data)

    def _change(self, request: Request, *, partial: bool) -> Response:
        job = self.get_object()
        saved = editing.change_job(
            job.pk,
            **self.changes_in(request, job, partial=partial),
            made_by=request.user.get_username(),
            now=read_clock(),
        )
        return Response(self._shown(saved))

    def changes_in(self, request: Request, job: Job, *, partial: bool) -> dict[str, Any]:
        """Return the fields of a job that a request changes, as `editing.change_job` takes them."""
        wanted = self.get_serializer(job, data=request.data, partial=partial)
        wanted.is_valid(raise_exception=True)
        return {name: value for name, value in wanted.validated_data.items() if name != "repository"}

    def _scheduled(self, request: Request, change: Callable[..., Job]) -> Response:
        """Change the schedule, and return the job."""
        read_body(Nothing, request)
        change(int(self.kwargs["pk"]), made_by=request.user.get_username(), now=read_clock())
        return Response(self.get_serializer(self.get_object()).data)

    def perform(self, request: Request, verb: control.Verb) -> Response:
        """Perform a verb, and return the job."""
        read_body(Nothing, request)
        verb.perform(int(self.kwargs["pk"]), made_by=request.user.get_username(), now=read_clock())
        return Response(self.get_serializer(self.get_object()).data, status=_status_of(verb))

    def _shown(self, saved: editing.JobSaved) -> dict[str, Any]:
        job = self.get_queryset().get(pk=saved.job.pk)
        return {**JobSerializer(job).data, "warnings": saved.warnings}


for _verb in control.VERBS.values():
    setattr(JobView, _action_of(_verb), _endpoint(_verb))


@extend_schema_view(list=extend_schema(description="List the journal of jobs, newest first."))
class JobEventView(ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "jobs.view_jobevent"}
    queryset = JobEvent.objects.all()
    serializer_class = JobEventSerializer
    query_class = JobEventQuery
    keyset = ("-id",)


class ConnectionView(mixins.RetrieveModelMixin, ListingView):
    """The common part of the views of repositories and outputs."""

    model: Kind
    query_class = NamedQuery
    lookup_value_regex = _ID

    def get_queryset(self) -> QuerySet[Any]:
        return self.model._default_manager.all()  # noqa: SLF001 (Django's own word)

    def create(self, request: Request) -> Response:
        wanted = self.get_serializer(data=request.data)
        wanted.is_valid(raise_exception=True)
        made = connections.create(self.model, **wanted.validated_data, made_by=request.user.get_username())
        at = reverse(f"api:{self.basename}-detail", args=[made.pk])
        return created(self.get_serializer(made).data, at=at, request=request)

    def update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=False)

    def partial_update(self, request: Request, pk: str) -> Response:
        return self._change(request, partial=True)

    def destroy(self, request: Request, pk: str) -> Response:
        connections.delete(self.model, int(pk), made_by=request.user.get_username())
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _change(self, request: Request, *, partial: bool) -> Response:
        stored = self.get_object()
        wanted = self.get_serializer(stored, data=request.data, partial=partial)
        wanted.is_valid(raise_exception=True)
        changes = {name: value for name, value in wanted.validated_data.items() if name != "connector"}
        changed = connections.change(self.model, stored.pk, **changes, made_by=request.user.get_username())
        return Response(self.get_serializer(changed).data)


class RepositoryView(ConnectionView):
    """List the repositories: connections that provide documents."""

    model = RepositoryConnection
    permissions_needed = {
        "list": "jobs.view_repositoryconnection",
        "retrieve": "jobs.view_repositoryconnection",
        "create": "jobs.add_repositoryconnection",
        "update": "jobs.change_repositoryconnection",
        "partial_update": "jobs.change_repositoryconnection",
        "destroy": "jobs.delete_repositoryconnection",
        "clear_history": "jobs.change_repositoryconnection",
    }
    serializer_class = RepositorySerializer
    tagged_by = RepositorySerializer

    @extend_schema(
        operation_id="repositories_clear_history",
        description="Clear the history of this source. The main manager does it after this request.",
        request=Nothing,
        responses={202: RepositorySerializer},
    )
    @action(detail=True, methods=["post"], url_path="clear-history")
    def clear_history(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        marked = connections.clear_history(int(pk), made_by=request.user.get_username(), now=read_clock())
        return Response(self.get_serializer(marked).data, status=status.HTTP_202_ACCEPTED)


class OutputView(ConnectionView):
    """List the outputs: connections that receive documents."""

    model = OutputConnection
    permissions_needed = {
        "list": "jobs.view_outputconnection",
        "retrieve": "jobs.view_outputconnection",
        "create": "jobs.add_outputconnection",
        "update": "jobs.change_outputconnection",
        "partial_update": "jobs.change_outputconnection",
        "destroy": "jobs.delete_outputconnection",
        "reindex": "jobs.change_outputconnection",
        "clear": "jobs.change_outputconnection",
        "restore": "jobs.change_outputconnection",
    }
    serializer_class = OutputSerializer
    tagged_by = OutputSerializer

    def get_queryset(self) -> QuerySet[OutputConnection]:
        return OutputConnection.objects.prefetch_related("lost_lines")

    @extend_schema(
        operation_id="outputs_reindex",
        description="Let the next run of each job write all its documents to this output again.",
        request=Nothing,
    )
    @action(detail=True, methods=["post"])
    def reindex(self, request: Request, pk: str) -> Response:
        return self._mark(request, connections.index_again)

    @extend_schema(
        operation_id="outputs_clear",
        description="Remove all present content of this output. Workers do it after this request.",
        request=Nothing,
        responses={202: OutputSerializer},
    )
    @action(detail=True, methods=["post"])
    def clear(self, request: Request, pk: str) -> Response:
        return self._mark(request, connections.clear, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="outputs_restore",
        description="Restore the documents that clearing removed from this output, without requests to the source. Workers do it after this request.",
        request=Nothing,
        responses={202: RestorationSerializer(many=True)},
    )
    @action(detail=True, methods=["post"])
    def restore(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        asked = restoring.restore_cleared(int(pk), made_by=request.user.get_username(), now=read_clock())
        return Response(RestorationSerializer(asked.checked(), many=True).data, status=status.HTTP_202_ACCEPTED)

    def _mark(
        self, request: Request, action: Callable[..., OutputConnection], *, status: int = status.HTTP_200_OK
    ) -> Response:
        read_body(Nothing, request)
        marked = action(int(self.kwargs["pk"]), made_by=request.user.get_username(), now=read_clock())
        return Response(self.get_serializer(marked).data, status=status)
