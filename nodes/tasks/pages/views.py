"""The pages that show background tasks: their lists, one task, and the roster."""

from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from nodes.database.clock import read_clock
from nodes.errors import TooSlow
from nodes.tasks.pages.filters import ArchivedFilterForm, ScheduledFilterForm, TaskFilterForm, key_as_text
from nodes.tasks.pages.frame import page, tabs
from nodes.tasks.pages.screens import archived_screen, roster_screen, scheduled_screen, task_screen, tasks_screen
from nodes.tasks.pages.topics import task_topic, tasks_topic
from nodes.tasks.queries import Listed, list_archived, list_scheduled, read_roster, read_task, read_tasks


@page
@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    form = TaskFilterForm(request.GET)
    group = form.as_filter().group if form.is_valid() else ""
    context = {
        "tabs": tabs("tasks"),
        "form": form,
        "group": group,
        "screen": tasks_screen(read_tasks(group=group), now=read_clock()),
        "topic": tasks_topic("tasks", form.as_query() if form.is_valid() else ""),
    }
    return render(request, "tasks/overview.html", context)


@page
@require_safe
def scheduled(request: HttpRequest) -> HttpResponse:
    form = ScheduledFilterForm(request.GET)
    listed, context = _list(form, list_scheduled, name="tasks-scheduled")
    context["screen"] = scheduled_screen(listed, now=read_clock())
    return render(request, "tasks/scheduled.html", context)


@page
@require_safe
def archived(request: HttpRequest) -> HttpResponse:
    form = ArchivedFilterForm(request.GET)
    listed, context = _list(form, list_archived, name="tasks-archived")
    context["screen"] = archived_screen(listed, now=read_clock())
    return render(request, "tasks/archived.html", context)


@page
@require_safe
def task(request: HttpRequest, task_id: int) -> HttpResponse:
    seen = read_task(task_id)
    if seen is None:
        sentence = _("Task %(id)d does not exist, or the cleaner has deleted it from the archive.") % {"id": task_id}
        raise Http404(sentence)
    context = {
        "screen": task_screen(seen, now=read_clock()),
        "tabs": tabs(""),
        "topic": task_topic(task_id),
    }
    return render(request, "tasks/task.html", context)


@page
@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    screen = roster_screen(*read_roster(), now=read_clock())
    context = {"screen": screen, "tabs": tabs("tasks-workers"), "topic": tasks_topic("tasks-workers")}
    return render(request, "tasks/workers.html", context)


def _list(form: TaskFilterForm, read: Any, *, name: str) -> tuple[Listed, dict[str, Any]]:
    """Return a page of a list, and the rest of the context of its template. The first page is live."""
    listed, problem = Listed(()), ""
    is_valid = form.is_valid()
    if is_valid:
        try:
            listed = read(form.as_filter(), after=form.key)
        except TooSlow as slow:
            problem = str(slow)
    is_live = is_valid and not problem and form.key is None
    query = form.as_query() if is_valid else ""
    context = {
        "tabs": tabs(name),
        "form": form,
        "problem": problem,
        "query": query,
        "first_query": "" if is_live or not is_valid else query or "all",
        "next_query": form.as_query(after=key_as_text(listed.next)) if listed.next else "",
        "topic": tasks_topic(name, query) if is_live else "",
    }
    return listed, context
