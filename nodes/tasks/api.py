"""Background tasks: scheduled and archived ones, templates, the roster, kinds and statistics."""

import datetime as dt
from dataclasses import asdict
from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse
from drf_spectacular.utils import extend_schema, extend_schema_field, extend_schema_view
from rest_framework import mixins, serializers, status
from rest_framework.decorators import action
from rest_framework.request import Request
from rest_framework.response import Response

from nodes.api.base import ContractView, created
from nodes.api.paging import ListingView
from nodes.api.placed import PlacedSerializer
from nodes.api.strict import MomentField, NewestQuery, Nothing, PageQuery, StrictSerializer, read_body, read_query
from nodes.database.clock import read_clock
from nodes.errors import Invalid
from nodes.tasks import kinds, verbs
from nodes.tasks.models import ArchivedTask, Task, TaskTemplate, TaskWorker
from nodes.tasks.queries import STATES
from nodes.tasks.retrying import Why
from nodes.tasks.schedules import next_moments, read_schedule
from nodes.tasks.statistics import read_statistics

_ID: Final = "[0-9]{1,18}"
_FACTS: Final = (
    "id",
    "kind",
    "arguments",
    "group",
    "tags",
    "urn",
    "retry_policy",
    "created_at",
    "created_by",
    "made_of",
    "made_of_urn",
    "execution",
    "attempts",
    "crashes",
    "last_due_at",
    "last_started_at",
    "last_ended_at",
    "last_crashed",
    "last_class",
    "last_message",
    "last_trace",
    "last_worker",
    "late_endings",
)
# Any JSON: the functions that store a task check the parts, and name what is wrong.
_GROUP_HELP: Final = "Group of workers that may execute it. Without one: `generic`."
_POLICY_HELP: Final = "Retry policy (docs/tasks.md). Without one: the policy of the kind."


class TaskPartsSerializer(StrictSerializer):
    """The parts of a task that its creator chooses."""

    kind = serializers.CharField(max_length=200, help_text="Kind of the task, from `/api/v1/task-kinds/`.")
    arguments = serializers.JSONField(default=dict, help_text="Arguments of the kind, an object.")
    group = serializers.CharField(
        max_length=64, required=False, allow_null=True, allow_blank=True, help_text=_GROUP_HELP
    )
    tags = serializers.ListField(
        child=serializers.CharField(max_length=64), max_length=50, default=list, help_text="Words to find tasks by."
    )
    retry_policy = serializers.JSONField(required=False, allow_null=True, help_text=_POLICY_HELP)


class NewTaskSerializer(TaskPartsSerializer):
    """Task to schedule."""

    urn = serializers.CharField(max_length=200, default="", allow_blank=True, help_text="Name of your choice.")
    at = serializers.DateTimeField(
        required=False, allow_null=True, help_text="Date by the database's clock. Without one, the task is due now."
    )


class TaskWorkerSerializer(PlacedSerializer, serializers.ModelSerializer[TaskWorker]):
    """Worker of the roster."""

    task = serializers.SerializerMethodField(help_text="Number of its task. Null if the worker is free.")
    is_running = serializers.SerializerMethodField(help_text="True if the task has begun.")

    class Meta:
        model = TaskWorker
        fields = (
            "id",
            "name",
            "work_on",
            "since",
            "last_seen_at",
            "is_leaving",
            "host",
            "pid",
            "task",
            "is_running",
            "partition",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.IntegerField(allow_null=True))
    def get_task(self, worker: TaskWorker) -> int | None:
        task = getattr(worker, "task", None)
        return None if task is None else int(task.pk)

    def get_is_running(self, worker: TaskWorker) -> bool:
        task = getattr(worker, "task", None)
        return task is not None and task.started_at is not None


class TaskSerializer(PlacedSerializer, serializers.ModelSerializer[Task]):
    """Scheduled task. Fields with `last_` are those of its last attempt."""

    state = serializers.SerializerMethodField(help_text="`waiting`, `assigned` or `running`.")
    is_cancelled = serializers.SerializerMethodField(help_text="True if a running task is being cancelled.")

    class Meta:
        model = Task
        fields = (
            *_FACTS,
            "state",
            "scheduled_at",
            "worker",
            "epoch",
            "assigned_at",
            "started_at",
            "progress",
            "is_cancelled",
            "partition",
        )
        read_only_fields = fields

    def get_state(self, task: Task) -> str:
        if task.started_at is not None:
            return "running"
        return "waiting" if task.worker_id is None else "assigned"

    def get_is_cancelled(self, task: Task) -> bool:
        return bool(task.cancelled_by)


class ArchivedTaskSerializer(PlacedSerializer, serializers.ModelSerializer[ArchivedTask]):
    """Task that has ended, with the reason."""

    why = serializers.ChoiceField([why.value for why in Why], read_only=True)

    class Meta:
        model = ArchivedTask
        fields = (*_FACTS, "why", "archived_at", "result", "partition")
        read_only_fields = fields


class CancelledSerializer(serializers.Serializer[Any]):
    """Answer to a cancellation."""

    task = serializers.IntegerField()
    is_archived = serializers.BooleanField(help_text="False if the task is running, and is being cancelled.")


class WhenSerializer(StrictSerializer):
    """Date of a task."""

    at = serializers.DateTimeField(required=False, allow_null=True, help_text="Without one, the task is due now.")


class SomeTasksSerializer(StrictSerializer):
    """Choice of tasks. At least one filter is needed."""

    kind = serializers.CharField(required=False, max_length=200)
    group = serializers.CharField(required=False, max_length=64)
    tag = serializers.CharField(required=False, max_length=64)

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if not attrs:
            raise serializers.ValidationError(f"Give at least one filter: {', '.join(self.fields)}.")
        return attrs


class ManyScheduledSerializer(SomeTasksSerializer):
    """Choice of scheduled tasks. At least one filter is needed."""

    state = serializers.ChoiceField(list(STATES), required=False)


class ManySerializer(SomeTasksSerializer):
    """Choice of archived tasks. At least one filter is needed."""

    why = serializers.ChoiceField([why.value for why in Why], required=False)
    since = serializers.DateTimeField(required=False, help_text="Tasks that ended at this moment or later.")


class NumberOfCancelledSerializer(serializers.Serializer[Any]):
    """Number of cancelled tasks."""

    cancelled = serializers.IntegerField(
        help_text="Waiting tasks that were archived, and running tasks that are being cancelled."
    )


class NumberSerializer(serializers.Serializer[Any]):
    """Number of scheduled tasks."""

    scheduled = serializers.IntegerField()


class TemplateSerializer(serializers.ModelSerializer[TaskTemplate]):
    """Template of repeated tasks."""

    _now: dt.datetime | None = None
    next_runs = serializers.SerializerMethodField(help_text="The next five moments.")

    class Meta:
        model = TaskTemplate
        fields = (
            "id",
            "urn",
            "kind",
            "arguments",
            "group",
            "tags",
            "retry_policy",
            "schedule",
            "unique",
            "is_built_in",
            "created_at",
            "created_by",
            "executions",
            "last_moment",
            "last_task",
            "next_at",
            "next_runs",
        )
        read_only_fields = fields

    @extend_schema_field(serializers.ListField(child=serializers.DateTimeField()))
    def get_next_runs(self, template: TaskTemplate) -> list[Any]:
        # Read once for all templates of a list, which share this serializer.
        self._now = self._now or read_clock()
        try:
            return list(next_moments(read_schedule(template.schedule), after=self._now))
        except Invalid:
            return []


class NewTemplateSerializer(TaskPartsSerializer):
    """Template to create, or to update if there is one of this name."""

    urn = serializers.CharField(max_length=200, help_text="Unique name.")
    schedule = serializers.JSONField(
        help_text='`{"cron": "14 2 * * *", "time_zone": "Europe/Berlin"}` or `{"every_minutes": 15}`.'
    )
    unique = serializers.BooleanField(
        default=False, help_text="True to skip a moment while the last task has not ended."
    )


class KindSerializer(serializers.Serializer[Any]):
    """Kind of tasks."""

    name = serializers.CharField()
    title = serializers.CharField()
    schema = serializers.JSONField(help_text="JSON schema of the arguments.")
    retry_policy = serializers.JSONField(help_text="Policy of tasks that name none.")


class StatisticsSerializer(serializers.Serializer[Any]):
    """Numbers of tasks at a moment."""

    at = serializers.DateTimeField()
    group = serializers.CharField(help_text="Empty: all groups.")
    queued = serializers.IntegerField(help_text="Tasks that are due and wait.")
    running = serializers.IntegerField()
    postponed = serializers.IntegerField(help_text="Tasks that are not due yet.")
    zombies = serializers.IntegerField(help_text="Tasks that have been due for more than a day.")
    workers = serializers.IntegerField(help_text="Workers that take tasks of the group.")
    throughput = serializers.IntegerField(help_text="Tasks that ended in the last minute.")
    latency = serializers.FloatField(
        allow_null=True, help_text="Average seconds from the date to the start, in the last hour."
    )
    execution_time = serializers.FloatField(
        allow_null=True, help_text="Average seconds from the start to the end, in the last hour."
    )


class TaskQuery(PageQuery):
    ordering = serializers.ChoiceField(["id", "-id"], default="id", help_text="`-id`: newest first.")
    group = serializers.CharField(required=False, max_length=64)
    kind = serializers.CharField(required=False, max_length=200)
    tag = serializers.CharField(required=False, max_length=64)
    state = serializers.ChoiceField(["waiting", "assigned", "running"], required=False)


class ArchivedTaskQuery(NewestQuery):
    group = serializers.CharField(required=False, max_length=64)
    kind = serializers.CharField(required=False, max_length=200)
    tag = serializers.CharField(required=False, max_length=64)
    why = serializers.ChoiceField([why.value for why in Why], required=False)
    made_of_urn = serializers.CharField(required=False, max_length=200, help_text="Name of the template.")


class StatisticsQuery(StrictSerializer):
    group = serializers.CharField(required=False, max_length=64)
    at = MomentField(required=False)


@extend_schema_view(
    list=extend_schema(description="List scheduled tasks, oldest first."),
    retrieve=extend_schema(description="Return one scheduled task. An ended one is in `/api/v1/archived-tasks/`."),
)
class TaskView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post"]
    permissions_needed = {
        "list": "tasks.view_task",
        "retrieve": "tasks.view_task",
        "create": "tasks.run_task",
        "cancel": "tasks.run_task",
        "cancel_many": "tasks.run_task",
    }
    queryset = Task.objects.all()
    serializer_class = TaskSerializer
    query_class = TaskQuery
    tagged_by = TaskSerializer
    tagged_fields = ("state", "attempts", "is_cancelled")
    lookup_value_regex = _ID

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        queryset = queryset.filter(**STATES.get(query.pop("state", ""), {}))
        return super().narrowed(_tagged(queryset, query), query)

    @extend_schema(description="Schedule a task.", request=NewTaskSerializer, responses={201: TaskSerializer})
    def create(self, request: Request) -> Response:
        task = verbs.create(**read_body(NewTaskSerializer, request), made_by=_name(request))
        return created(
            TaskSerializer(task, context=self.get_serializer_context()).data,
            at=reverse("api:task-detail", args=[task.pk]),
            request=request,
        )

    @extend_schema(
        operation_id="tasks_cancel",
        description="Archive a waiting task, or ask a running one to end.",
        request=Nothing,
        responses={200: CancelledSerializer},
    )
    @action(detail=True, methods=["post"])
    def cancel(self, request: Request, pk: str) -> Response:
        read_body(Nothing, request)
        is_archived = verbs.cancel(int(pk), made_by=_name(request))
        return Response({"task": int(pk), "is_archived": is_archived})

    @extend_schema(
        operation_id="tasks_cancel_many",
        description=f"Cancel scheduled tasks, the oldest first, at most {verbs.MOST_CANCELLED}.",
        request=ManyScheduledSerializer,
        responses={200: NumberOfCancelledSerializer},
    )
    @action(detail=False, methods=["post"], url_path="cancel", url_name="cancel-many")
    def cancel_many(self, request: Request) -> Response:
        wanted = read_body(ManyScheduledSerializer, request)
        chosen = _tagged(Task.objects.filter(**STATES.get(wanted.pop("state", ""), {})), wanted)
        return Response({"cancelled": verbs.cancel_all(chosen.filter(**wanted), made_by=_name(request))})


@extend_schema_view(
    list=extend_schema(description="List ended tasks, newest first."),
    retrieve=extend_schema(description="Return one ended task."),
)
class ArchivedTaskView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post"]
    permissions_needed = {
        "list": "tasks.view_archivedtask",
        "retrieve": "tasks.view_archivedtask",
        "reschedule": "tasks.run_task",
        "reschedule_many": "tasks.run_task",
    }
    queryset = ArchivedTask.objects.all()
    serializer_class = ArchivedTaskSerializer
    query_class = ArchivedTaskQuery
    keyset = ("-id",)
    tagged_by = ArchivedTaskSerializer
    tagged_fields = ("why", "late_endings")
    lookup_value_regex = _ID

    def narrowed(self, queryset: QuerySet[Any], query: dict[str, Any]) -> QuerySet[Any]:
        return super().narrowed(_tagged(queryset, query), query)

    @extend_schema(
        operation_id="archived_tasks_reschedule",
        description="Schedule a copy of an ended task, without its attempts.",
        request=WhenSerializer,
        responses={201: TaskSerializer},
    )
    @action(detail=True, methods=["post"])
    def reschedule(self, request: Request, pk: str) -> Response:
        task = verbs.reschedule(int(pk), **read_body(WhenSerializer, request), made_by=_name(request))
        return created(
            TaskSerializer(task, context=self.get_serializer_context()).data,
            at=reverse("api:task-detail", args=[task.pk]),
            request=request,
        )

    @extend_schema(
        operation_id="archived_tasks_reschedule_many",
        description=f"Schedule copies of ended tasks, the newest first, at most {verbs.MOST_RESCHEDULED}.",
        request=ManySerializer,
        responses={200: NumberSerializer},
    )
    @action(detail=False, methods=["post"], url_path="reschedule", url_name="reschedule-many")
    def reschedule_many(self, request: Request) -> Response:
        wanted = read_body(ManySerializer, request)
        chosen = _tagged(ArchivedTask.objects.all(), wanted)
        if "since" in wanted:
            chosen = chosen.filter(archived_at__gte=wanted.pop("since"))
        return Response({"scheduled": verbs.reschedule_all(chosen.filter(**wanted), made_by=_name(request))})


@extend_schema_view(
    list=extend_schema(description="List the templates of repeated tasks."),
    retrieve=extend_schema(description="Return one template with its next runs."),
)
class TaskTemplateView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options", "post", "delete"]
    permissions_needed = {
        "list": "tasks.view_tasktemplate",
        "retrieve": "tasks.view_tasktemplate",
        "create": "tasks.change_tasktemplate",
        "destroy": "tasks.delete_tasktemplate",
    }
    queryset = TaskTemplate.objects.all()
    serializer_class = TemplateSerializer
    tagged_by = TemplateSerializer
    tagged_fields = ("kind", "arguments", "group", "tags", "retry_policy", "schedule", "unique")
    lookup_value_regex = _ID

    @extend_schema(
        description="Create a template, or update the one of this name. An update keeps its counters.",
        request=NewTemplateSerializer,
        responses={201: TemplateSerializer},
    )
    def create(self, request: Request) -> Response:
        template = verbs.put_template(**read_body(NewTemplateSerializer, request), made_by=_name(request))
        at = reverse("api:task-template-detail", args=[template.pk])
        return created(TemplateSerializer(template).data, at=at, request=request)

    @extend_schema(
        description="Remove a template. The tasks that it has made stay. Built-in templates cannot be removed."
    )
    def destroy(self, request: Request, pk: str) -> Response:
        verbs.remove_template(self.get_object().urn, made_by=_name(request))
        return Response(status=status.HTTP_204_NO_CONTENT)


@extend_schema_view(
    list=extend_schema(description="List the task workers of the roster."),
    retrieve=extend_schema(description="Return one task worker."),
)
class TaskWorkerView(mixins.RetrieveModelMixin, ListingView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"list": "tasks.view_taskworker", "retrieve": "tasks.view_taskworker"}
    queryset = TaskWorker.objects.select_related("task")
    serializer_class = TaskWorkerSerializer
    keyset = ("since", "id")
    lookup_value_regex = "[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"


class TaskKindsView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "tasks.view_task"}

    @extend_schema(
        operation_id="task_kinds",
        description="List the kinds of tasks that can be scheduled.",
        responses={200: KindSerializer(many=True)},
    )
    def get(self, request: Request) -> Response:
        read_query(Nothing, request)
        return Response(
            [
                {
                    "name": kind.name,
                    "title": kind.title,
                    "schema": kind.schema,
                    "retry_policy": dict(kind.retry_policy),
                }
                for kind in kinds.offered()
            ]
        )


class TaskStatisticsView(ContractView):
    http_method_names = ["get", "head", "options"]
    permissions_needed = {"get": "tasks.view_task"}

    @extend_schema(
        operation_id="task_statistics",
        description="Return the numbers of tasks, now or at another moment.",
        parameters=[StatisticsQuery],
        responses={200: StatisticsSerializer},
    )
    def get(self, request: Request) -> Response:
        return Response(StatisticsSerializer(asdict(read_statistics(**read_query(StatisticsQuery, request)))).data)


def _tagged(queryset: QuerySet[Any], wanted: dict[str, Any]) -> QuerySet[Any]:
    """Return the tasks with the `tag` in `wanted`, if it has one, and remove the tag from `wanted`."""
    return queryset.filter(verbs.tagged(wanted.pop("tag"))) if "tag" in wanted else queryset


def _name(request: Request) -> str:
    return str(request.user.get_username())
