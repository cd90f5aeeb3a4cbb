"""The page that shows one background task."""

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from nodes.database.clock import read_clock
from nodes.tasks.pages.frame import page, tabs
from nodes.tasks.pages.screens import task_screen
from nodes.tasks.pages.topics import task_topic
from nodes.tasks.queries import read_task


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
