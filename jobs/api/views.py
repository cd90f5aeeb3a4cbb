"""Jobs, their seeds and journal, and connections. Each view calls one function that decides."""

from collections.abc import Callable, Sequence
from typing import Any

from django.db import connection
from django.db.models import Prefetch, QuerySet
from django.shortcuts import get_object_or_404
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework import mixins, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from jobs.api.removals import RemovalsSerializer, RestorationSerializer, RestoreSerializer
from jobs.api.serializers import (
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
from jobs.queries.jobs.removals import read_removals
from jobs.queries.jobs.seeds import read_first_seeds
from jobs.queue.counting.counters import read_run
from jobs.state.transitions import StateChange
from jobs.verbs import connections, control, editing, restoring
from nodes.api.base import created
from nodes.api.paging import ListingView
from nodes.api.strict import NamedQuery, Nothing, read_body
from nodes.database.clock import read_clock
from nodes.errors import Unknown

_ID = "[0-9]{1,19}"
_LIVE_SEEDS = Prefetch("seeds", Seed.objects.filter(removed_at=None))


@extend_schema_view(
    list=extend_schema(
        description="List all jobs, oldest first, each with its first seeds and without its specification."
    ),
    retrieve=extend_schema(
        description="Return one job with its specification and all its seeds. PUT accepts this body."
    ),
)
class JobView(mixins.RetrieveModelMixin, ListingView):
    permissions_needed = {
        "list": "jobs.view_job",
        "retrieve": "jobs.view_job",
        "counts": "jobs.view_job",
        "create": "jobs.add_job",
        "update": "jobs.change_job",
        "partial_update": "jobs.change_job",
        "destroy": "jobs.delete_job",
        "start": "jobs.control_job",
        "pause": "jobs.control_job",
        "resume": "jobs.control_job",
        "abort": "jobs.control_job",
        "start_minimal": "jobs.control_job",
        "restart": "jobs.control_job",
        "restart_minimal": "jobs.control_job",
        "reset_seeding": "jobs.control_job",
        "removals": "jobs.view_job",
        "restore": "jobs.control_job",
        "allow_removals": "jobs.control_job",
        "refuse_removals": "jobs.control_job",
        "send_back": "jobs.control_job",
        "delete_job": "jobs.delete_job",
    }
    serializer_class = JobSerializer
    tagged_by = JobSerializer
    query_class = JobQuery
    lookup_value_regex = _ID

    def get_queryset(self) -> QuerySet[Job]:
        jobs = Job.objects.prefetch_related("outputs", "windows")
        return jobs.defer("specification") if self.action == "list" else jobs.prefetch_related(_LIVE_SEEDS)

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
        return self._make(request, control.delete, status=status.HTTP_202_ACCEPTED)

    @extend_schema(operation_id="jobs_start", description="Start a run.", request=Nothing)
    @action(detail=True, methods=["post"])
    def start(self, request: Request, pk: str) -> Response:
        return self._make(request, control.start)

    @extend_schema(operation_id="jobs_pause", description="Pause the run.", request=Nothing)
    @action(detail=True, methods=["post"])
    def pause(self, request: Request, pk: str) -> Response:
        return self._make(request, control.pause)

    @extend_schema(operation_id="jobs_resume", description="Resume the paused run.", request=Nothing)
    @action(detail=True, methods=["post"])
    def resume(self, request: Request, pk: str) -> Response:
        return self._make(request, control.resume)

    @extend_schema(operation_id="jobs_abort", description="Abort the run. Nothing is removed.", request=Nothing)
    @action(detail=True, methods=["post"])
    def abort(self, request: Request, pk: str) -> Response:
        return self._make(request, control.abort)

    @extend_schema(
        operation_id="jobs_start_minimal",
        description="Start a minimal run, which reads only documents that the source reports as changed. It removes no unreached documents.",
        request=Nothing,
    )
    @action(detail=True, methods=["post"], url_path="start-minimal")
    def start_minimal(self, request: Request, pk: str) -> Response:
        return self._make(request, control.start_minimal)

    @extend_schema(operation_id="jobs_restart", description="Abort the run, then start the next one.", request=Nothing)
    @action(detail=True, methods=["post"])
    def restart(self, request: Request, pk: str) -> Response:
        return self._make(request, control.restart)

    @extend_schema(
        operation_id="jobs_restart_minimal",
        description="Abort the run, then start a minimal one.",
        request=Nothing,
    )
    @action(detail=True, methods=["post"], url_path="restart-minimal")
    def restart_minimal(self, request: Request, pk: str) -> Response:
        return self._make(request, control.restart_minimal)

    @extend_schema(
        operation_id="jobs_reset_seeding",
        description="Let the next run read the whole source, as in the first run.",
        request=Nothing,
    )
    @action(detail=True, methods=["post"], url_path="reset-seeding")
    def reset_seeding(self, request: Request, pk: str) -> Response:
        return self._make(request, control.reset_seeding)

    @extend_schema(
        operation_id="jobs_removals",
        description="Return the removals that wait for approval, with their causes.",
        responses=RemovalsSerializer,
    )
    @action(detail=True)
    def removals(self, request: Request, pk: str) -> Response:
        found = read_removals(int(pk))
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
        return Response(RestorationSerializer(asked).data, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="jobs_allow_removals",
        description="Allow the removals that wait for approval.",
        request=Nothing,
    )
    @action(detail=True, methods=["post"], url_path="allow-removals")
    def allow_removals(self, request: Request, pk: str) -> Response:
        return self._make(request, control.allow_removals)

    @extend_schema(
        operation_id="jobs_refuse_removals",
        description="Refuse the removals that wait for approval. The next run looks for these documents again.",
        request=Nothing,
    )
    @action(detail=True, methods=["post"], url_path="refuse-removals")
    def refuse_removals(self, request: Request, pk: str) -> Response:
        return self._make(request, control.refuse_removals)

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
        operation_id="jobs_delete",
        description="Delete the job, its documents, and its content in the outputs. The job disappears when that is complete.",
        request=Nothing,
        responses={202: JobSerializer},
    )
    @action(detail=True, methods=["post"], url_path="delete")
    def delete_job(self, request: Request, pk: str) -> Response:
        return self._make(request, control.delete, status=status.HTTP_202_ACCEPTED)

    @extend_schema(
        operation_id="jobs_counts",
        description="Return the counts of the current or last run, exact at this moment.",
        responses=CountsSerializer,
    )
    @action(detail=True)
    def counts(self, request: Request, pk: str) -> Response:
        job = get_object_or_404(Job.objects.only("run_no"), pk=pk)
        connection.ensure_connection()
        counts = read_run(connection.connection, job_id=job.pk, run_no=job.run_no)
        return Response(CountsSerializer(counts).data)

    def _change(self, request: Request, *, partial: bool) -> Response:
        job = self.get_object()
        wanted = self.get_serializer(job, data=request.data, partial=partial)
        wanted.is_valid(raise_exception=True)
        changes = {name: value for name, value in wanted.validated_data.items() if name != "repository"}
        saved = editing.change_job(job.pk, **changes, made_by=request.user.get_username(), now=read_clock())
        return Response(self._shown(saved))

    def _make(
        self, request: Request, transition: Callable[..., StateChange], *, status: int = status.HTTP_200_OK
    ) -> Response:
        read_body(Nothing, request)
        transition(int(self.kwargs["pk"]), made_by=request.user.get_username(), now=read_clock())
        return Response(self.get_serializer(self.get_object()).data, status=status)

    def _shown(self, saved: editing.JobSaved) -> dict[str, Any]:
        job = self.get_queryset().get(pk=saved.job.pk)
        return {**JobSerializer(job).data, "warnings": saved.warnings}


@extend_schema_view(list=extend_schema(description="List the journal of jobs, newest first."))
class JobEventView(ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "jobs.view_jobevent"}
    queryset = JobEvent.objects.all()
    serializer_class = JobEventSerializer
    query_class = JobEventQuery
    keyset = ("-id",)


class ConnectionView(mixins.RetrieveModelMixin, ListingView):
    """The common part of both kinds of connections."""

    model: connections.Kind
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
        return Response(RestorationSerializer(asked, many=True).data, status=status.HTTP_202_ACCEPTED)

    def _mark(
        self, request: Request, wish: Callable[..., OutputConnection], *, status: int = status.HTTP_200_OK
    ) -> Response:
        read_body(Nothing, request)
        marked = wish(int(self.kwargs["pk"]), made_by=request.user.get_username(), now=read_clock())
        return Response(self.get_serializer(marked).data, status=status)
