"""The pages that run, cancel and reschedule background tasks. A change of many tasks first shows their number."""

from typing import Any, Final

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from nodes.database.clock import read_clock
from nodes.errors import Invalid, Refused, TooSlow
from nodes.tasks import verbs
from nodes.tasks.kinds import Kind
from nodes.tasks.pages.fields import moment_field
from nodes.tasks.pages.filters import ArchivedFilterForm, ScheduledFilterForm, TaskFilterForm
from nodes.tasks.pages.forms import TaskForm, copied
from nodes.tasks.pages.frame import MAY_RUN, chosen_kind, offered_kinds, page, tabs
from nodes.tasks.pages.screens import ended_row, scheduled_row
from nodes.tasks.queries import archived, count, read_task, scheduled
from nodes.web import formats
from nodes.web.pages import user_with_permission
from nodes.web.translated_words import translated

# Largest number of tasks that a confirmation page shows.
_EXAMPLES: Final = 20


@page
@require_http_methods(["GET", "HEAD", "POST"])
def run(request: HttpRequest) -> HttpResponse:
    """Show the kinds, or the form of one kind; on POST, schedule the task."""
    name = user_with_permission(request, MAY_RUN)
    kind = chosen_kind(request)
    if kind is None:
        return render(
            request, "tasks/kinds.html", {"kinds": offered_kinds(), "title": _("Run a task"), "tabs": tabs("")}
        )
    form = TaskForm(kind, request.POST if request.method == "POST" else None, initial=_initial(request, kind))
    if request.method == "POST" and form.is_valid():
        try:
            task = verbs.create(**form.wanted(), made_by=name)
        except Invalid as invalid:
            form.show(invalid)
        else:
            messages.success(request, _("Task %(id)d is scheduled.") % {"id": task.pk})
            return redirect("task", task.pk)
    context = {
        "form": form,
        "kind": kind,
        "title": translated(kind.title),
        "go": _("Run"),
        "back": reverse("task-run"),
        "tabs": tabs(""),
    }
    return render(request, "tasks/form.html", context)


@page
@require_POST
def cancel(request: HttpRequest, task_id: int) -> HttpResponse:
    """Archive a waiting task, or ask a running one to end."""
    name = user_with_permission(request, MAY_RUN)
    try:
        is_archived = verbs.cancel(task_id, made_by=name)
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        message = (
            _("Task %(id)d is cancelled.")
            if is_archived
            else _("Task %(id)d is being cancelled. It is running, and may take a while to end.")
        )
        messages.success(request, message % {"id": task_id})
    return redirect(_back(request, task_id))


@page
@require_POST
def reschedule(request: HttpRequest, task_id: int) -> HttpResponse:
    """Schedule a copy of an ended task, at a date if one is given."""
    name = user_with_permission(request, MAY_RUN)
    try:
        at = moment_field().clean(request.POST.get("at", ""))
        task = verbs.reschedule(task_id, at=at, made_by=name)
    except Refused as refused:
        messages.warning(request, str(refused))
    except ValidationError as error:
        messages.warning(request, " ".join(error.messages))
    else:
        messages.success(request, _("Task %(id)d is scheduled.") % {"id": task.pk})
        return redirect("task", task.pk)
    return redirect(_back(request, task_id))


@page
@require_http_methods(["GET", "HEAD", "POST"])
def cancel_some(request: HttpRequest) -> HttpResponse:
    """Count the scheduled tasks that pass the filters; on POST, cancel them."""
    name = user_with_permission(request, MAY_RUN)
    form = ScheduledFilterForm(request.GET)
    if not _has_filter(form):
        return _refuse(request, "tasks-scheduled")
    chosen = scheduled(form.as_filter())
    if request.method == "POST":
        number = verbs.cancel_all(chosen, made_by=name)
        message = ngettext("%(n)s task is cancelled.", "%(n)s tasks are cancelled.", number)
        messages.success(request, message % {"n": formats.number(number)})
        return redirect(f"{reverse('tasks-scheduled')}?{form.as_query()}")
    words = {
        "title": _("Cancel tasks"),
        "effect": _("Waiting tasks are archived as cancelled. Running tasks may take a while to end."),
        "go": _("Cancel these tasks"),
        "tone": "danger",
        "back": f"{reverse('tasks-scheduled')}?{form.as_query()}",
        "most": verbs.MOST_CANCELLED,
    }
    return _confirm(request, form, chosen.select_related("worker").order_by("id"), scheduled_row, words)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def reschedule_some(request: HttpRequest) -> HttpResponse:
    """Count the ended tasks that pass the filters; on POST, schedule a copy of each."""
    name = user_with_permission(request, MAY_RUN)
    form = ArchivedFilterForm(request.GET)
    if not _has_filter(form):
        return _refuse(request, "tasks-archived")
    chosen = archived(form.as_filter())
    if request.method == "POST":
        number = verbs.reschedule_all(chosen, made_by=name)
        message = ngettext("%(n)s task is scheduled again.", "%(n)s tasks are scheduled again.", number)
        messages.success(request, message % {"n": formats.number(number)})
        return redirect("tasks-scheduled")
    words = {
        "title": _("Run tasks again"),
        "effect": _(
            "A copy of each task is scheduled for now, without its attempts. The ended tasks stay in the archive."
        ),
        "go": _("Run these tasks again"),
        "tone": "primary",
        "back": f"{reverse('tasks-archived')}?{form.as_query()}",
        "most": verbs.MOST_RESCHEDULED,
    }
    return _confirm(request, form, chosen.order_by("-id"), ended_row, words)


def _confirm(request: HttpRequest, form: TaskFilterForm, chosen: Any, row: Any, words: dict[str, Any]) -> HttpResponse:
    """Show how many tasks would change, and some of them."""
    now, context = read_clock(), {**words, "tabs": tabs(""), "query": form.as_query()}
    try:
        number = count(chosen, most=words["most"])
    except TooSlow as slow:
        context["problem"] = str(slow)
    else:
        limits = {"n": formats.number(min(number, words["most"])), "most": formats.number(words["most"])}
        context["number"] = number
        context["matches"] = ngettext("%(n)s task matches.", "%(n)s tasks match.", number) % limits
        if number > words["most"]:
            context["matches"] = _("More than %(most)s tasks match. The first %(most)s are changed.") % limits
        context["rows"] = [row(task, now=now) for task in chosen[:_EXAMPLES]]
        context["more"] = formats.more(min(number, words["most"]) - len(context["rows"]))
    return render(request, "tasks/some.html", context)


def _has_filter(form: TaskFilterForm) -> bool:
    return form.is_valid() and bool(form.as_query())


def _refuse(request: HttpRequest, name: str) -> HttpResponse:
    messages.warning(request, _("Choose at least one filter first. The action then applies to all tasks that match."))
    return redirect(name)


def _initial(request: HttpRequest, kind: Kind) -> dict[str, Any]:
    """Return the parts of the task that the address names, if it is of this kind."""
    like = request.GET.get("like", "")
    seen = read_task(int(like)) if like.isdecimal() and len(like) < 19 else None
    return copied(seen.task) if seen is not None and seen.task.kind == kind.name else {}


def _back(request: HttpRequest, task_id: int) -> str:
    """Return the address of the page that had the button, or else of the page of the task."""
    back = request.POST.get("next", "")
    return back if url_has_allowed_host_and_scheme(back, allowed_hosts=None) else reverse("task", args=[task_id])
