"""
Background tasks in the set-up pages: tasks, ended tasks, templates and the roster. Actions call the functions of
`nodes.tasks.verbs`.
"""

from typing import Any

from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.html import format_html
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from unfold.decorators import action

from nodes.admin.by_key import ListByKey
from nodes.admin.confirmation import confirm_for_one, confirm_for_selected, may_offer, row_number
from nodes.admin.lists import OwnedList
from nodes.tasks import verbs
from nodes.tasks.models import ArchivedTask, Task, TaskFacts, TaskTemplate, TaskWorker
from nodes.tasks.pages.screens import schedule_in_words

_MAY_RUN = "tasks.run_task"
_ATTEMPTS = ("attempts", "last_started_at", "last_ended_at", "last_class", "last_message", "trace", "last_worker")
_FACTS = (
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
)


def _name(request: HttpRequest) -> str:
    return str(request.user.get_username())


class TaskAdmin(ListByKey):
    """Scheduled tasks, the highest number first. An action cancels them."""

    list_display = ("number", "kind", "group", "state", "scheduled_at", "attempts", "urn")
    search_fields = ("=kind", "=group", "=urn")
    search_help_text = gettext_lazy("Number, kind, group or name of a task")
    list_select_related = ("worker",)
    fields = (*_FACTS, "state", "scheduled_at", "worker", "started_at", "progress", "cancelled_by", *_ATTEMPTS)
    readonly_fields = ("state", "trace")
    actions = ("cancel_selected",)
    actions_detail = ("page", "cancel")

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        return _found(queryset, search_term)

    def has_run_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(_MAY_RUN)

    def has_cancel_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """True for a task without a request to cancel it."""
        if not object_id or not self.has_run_permission(request):
            return False
        possible = Task.objects.filter(pk=row_number(object_id), cancelled_by="").exists()
        why = _("The task has ended, or is already being cancelled.")
        return may_offer(request, "cancel", is_possible=possible, why=why)

    @admin.display(description=gettext_lazy("number"), ordering="id")
    def number(self, task: Task) -> str:
        return str(task.pk)

    @admin.display(description=gettext_lazy("last traceback"))
    def trace(self, task: Task) -> str:
        return _trace(task)

    @admin.display(description=gettext_lazy("state"))
    def state(self, task: Task) -> str:
        if task.started_at is not None:
            return _("being cancelled") if task.cancelled_by else _("running")
        return _("waiting") if task.worker_id is None else _("assigned")

    @admin.action(description=gettext_lazy("Cancel tasks"), permissions=["run"])
    def cancel_selected(self, request: HttpRequest, chosen: QuerySet[Task]) -> HttpResponseBase:
        def cancel() -> str:
            return _("Tasks cancelled: %(n)d.") % {"n": verbs.cancel_all(chosen, made_by=_name(request))}

        return confirm_for_selected(
            request,
            self.admin_site,
            list(chosen),
            title=_("Cancel tasks"),
            question=_("Waiting tasks are archived as cancelled. Running tasks may take a while to end."),
            act=cancel,
        )

    @action(description=gettext_lazy("Page of the task"), url_path="page", permissions=("view",))  # type: ignore[untyped-decorator]
    def page(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return redirect("task", row_number(object_id))

    @action(description=gettext_lazy("Cancel"), url_path="cancel", permissions=("cancel",))  # type: ignore[untyped-decorator]
    def cancel(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        def cancel() -> str:
            is_archived = verbs.cancel(row_number(object_id), made_by=_name(request))
            message = (
                _("Task %(id)s is cancelled.")
                if is_archived
                else _("Task %(id)s is being cancelled. It is running, and may take a while to end.")
            )
            return message % {"id": object_id}

        return confirm_for_one(
            request,
            self.admin_site,
            title=_("Cancel"),
            question=_("Cancel task %(id)s? If it is running, it may take a while to end.") % {"id": object_id},
            back=reverse("admin:tasks_task_changelist"),
            act=cancel,
        )


class ArchivedTaskAdmin(ListByKey):
    """Ended tasks, the newest first. An action schedules copies of them."""

    list_display = ("number", "kind", "group", "why", "archived_at", "attempts", "last_class")
    search_fields = ("=kind", "=group", "=why")
    search_help_text = gettext_lazy("Number, kind, group or reason of the end")
    fields = (*_FACTS, "why", "archived_at", "result", *_ATTEMPTS, "late_endings")
    readonly_fields = ("trace",)
    actions = ("reschedule_selected",)
    actions_detail = ("page", "reschedule")

    def get_search_results(self, request: HttpRequest, queryset: Any, search_term: str) -> tuple[Any, bool]:
        return _found(queryset, search_term, ("kind", "group", "why"))

    def has_run_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm(_MAY_RUN)

    @admin.display(description=gettext_lazy("number"), ordering="id")
    def number(self, task: ArchivedTask) -> str:
        return str(task.pk)

    @admin.display(description=gettext_lazy("last traceback"))
    def trace(self, task: ArchivedTask) -> str:
        return _trace(task)

    @admin.action(description=gettext_lazy("Run tasks again"), permissions=["run"])
    def reschedule_selected(self, request: HttpRequest, chosen: QuerySet[ArchivedTask]) -> HttpResponseBase:
        def reschedule() -> str:
            return _("Tasks scheduled: %(n)d.") % {"n": verbs.reschedule_all(chosen, made_by=_name(request))}

        return confirm_for_selected(
            request,
            self.admin_site,
            list(chosen),
            title=_("Run tasks again"),
            question=_("A copy of each task is scheduled for now, without its attempts."),
            act=reschedule,
        )

    @action(description=gettext_lazy("Page of the task"), url_path="page", permissions=("view",))  # type: ignore[untyped-decorator]
    def page(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return redirect("task", row_number(object_id))

    @action(description=gettext_lazy("Run again"), url_path="reschedule", permissions=("run",))  # type: ignore[untyped-decorator]
    def reschedule(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        def reschedule() -> str:
            task = verbs.reschedule(row_number(object_id), made_by=_name(request))
            return _("Task %(id)d is scheduled.") % {"id": task.pk}

        return confirm_for_one(
            request,
            self.admin_site,
            title=_("Run again"),
            question=_("Schedule a copy of task %(id)s for now, without its attempts?") % {"id": object_id},
            back=reverse("admin:tasks_archivedtask_change", args=[object_id]),
            act=reschedule,
        )


class TaskTemplateAdmin(OwnedList):
    """Templates. Their forms are those of the pages, which also show the next runs."""

    list_display = ("urn", "kind", "group", "stored_schedule", "executions", "next_at", "is_built_in")
    search_fields = ("urn",)
    search_help_text = gettext_lazy("Part of a name")
    ordering = ("urn",)
    actions_list = ("add_template",)
    actions_detail = ("edit", "remove")
    fields = (
        *("urn", "kind", "arguments", "group", "tags", "retry_policy", "schedule", "unique", "is_built_in"),
        *("created_at", "created_by", "executions", "last_moment", "last_task", "next_at"),
    )

    def has_edit_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        return request.user.has_perm("tasks.change_tasktemplate")

    def has_remove_permission(self, request: HttpRequest, object_id: str | None = None) -> bool:
        """False for a built-in template: it cannot be removed."""
        if not request.user.has_perm("tasks.delete_tasktemplate"):
            return False
        possible = TaskTemplate.objects.filter(pk=row_number(object_id), is_built_in=False).exists()
        why = _("The template is built in, or is already removed.")
        return may_offer(request, "remove", is_possible=possible, why=why, model=TaskTemplate, object_id=object_id)

    @admin.display(description=gettext_lazy("schedule"))
    def stored_schedule(self, template: TaskTemplate) -> str:
        return schedule_in_words(template)

    @action(description=gettext_lazy("New template"), url_path="new", permissions=("edit",))  # type: ignore[untyped-decorator]
    def add_template(self, request: HttpRequest) -> HttpResponseBase:
        return redirect("task-template-new")

    @action(description=gettext_lazy("Edit"), url_path="edit", permissions=("edit",))  # type: ignore[untyped-decorator]
    def edit(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        return redirect("task-template", row_number(object_id))

    @action(description=gettext_lazy("Remove"), url_path="remove", permissions=("remove",))  # type: ignore[untyped-decorator]
    def remove(self, request: HttpRequest, object_id: str) -> HttpResponseBase:
        template = get_object_or_404(TaskTemplate, pk=row_number(object_id))

        def remove() -> str:
            verbs.remove_template(template.urn, made_by=_name(request))
            return _("The template %(urn)s is removed. The tasks that it has made stay.") % {"urn": template.urn}

        return confirm_for_one(
            request,
            self.admin_site,
            title=_("Remove"),
            question=_("Remove the template %(urn)s? It then makes no more tasks. The tasks that it has made stay.")
            % {"urn": template.urn},
            back=reverse("admin:tasks_tasktemplate_changelist"),
            act=remove,
        )


class TaskWorkerAdmin(OwnedList):
    """The roster of task workers. Their processes write it."""

    list_display = ("name", "host", "pid", "work_on", "its_task", "since", "last_seen_at", "is_leaving")
    search_fields = ("name", "=host", "=work_on")
    list_select_related = ("task",)
    ordering = ("since", "id")
    fields = ("name", "work_on", "its_task", "since", "last_seen_at", "is_leaving", "host", "pid")
    readonly_fields = ("its_task",)

    @admin.display(description=gettext_lazy("task"))
    def its_task(self, worker: TaskWorker) -> str:
        task: Task | None = getattr(worker, "task", None)
        if task is None:
            return "—"
        return format_html('<a href="{}">{}</a>', reverse("task", args=[task.pk]), str(task))


def _trace(task: TaskFacts) -> str:
    return format_html('<pre class="trace">{}</pre>', task.last_trace) if task.last_trace else "—"


def _found(queryset: Any, term: str, fields: tuple[str, ...] = ("kind", "group", "urn")) -> tuple[Any, bool]:
    """Return the tasks with this number, or with exactly this text in one of the fields."""
    term = term.strip()
    if not term:
        return queryset, False
    if term.isdecimal() and len(term) < 19:
        return queryset.filter(pk=int(term)), False
    wanted = Q()
    for field in fields:
        wanted |= Q(**{field: term})
    return queryset.filter(wanted), False
