"""The lists of background tasks of all partitions. The partition that has a task shows the page of this task."""

import uuid
from collections.abc import Callable
from typing import Any

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.dateparse import parse_datetime
from django.utils.http import urlencode
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from jobs.partitions import this_partition
from jobs.queries.tasks import (
    CountedEverywhere,
    ListedEverywhere,
    TemplateKey,
    WorkerKey,
    read_archived_everywhere,
    read_roster_everywhere,
    read_scheduled_everywhere,
    read_tasks_everywhere,
    read_templates_everywhere,
)
from jobs.ui.partitions_views import silent_partitions
from jobs.ui.tasks_screens import archived_screen, roster_screen, scheduled_screen, tasks_screen, templates_screen
from nodes.database.clock import read_clock
from nodes.errors import TooSlow
from nodes.tasks.pages.filters import ArchivedFilterForm, ScheduledFilterForm, TaskFilterForm, key_as_text
from nodes.tasks.pages.frame import page, tabs
from nodes.tasks.pages.topics import tasks_topic


@page
@require_safe
def tasks(request: HttpRequest) -> HttpResponse:
    form = TaskFilterForm(request.GET)
    group = form.as_filter().group if form.is_valid() else ""
    seen, now = read_tasks_everywhere(group=group), read_clock()
    context = {
        "tabs": tabs("tasks"),
        "form": form,
        "group": group,
        "screen": tasks_screen(seen, now=now),
        "silent": silent_partitions(seen.silent, now=now),
        "topic": tasks_topic("tasks", form.as_query() if form.is_valid() else ""),
    }
    return render(request, "tasks/overview.html", context)


@page
@require_safe
def scheduled(request: HttpRequest) -> HttpResponse:
    form = ScheduledFilterForm(request.GET)
    listed, context = _list(form, read_scheduled_everywhere, name="tasks-scheduled", change="tasks-cancel")
    context["screen"] = scheduled_screen(listed, now=read_clock())
    return render(request, "tasks/scheduled.html", context)


@page
@require_safe
def archived(request: HttpRequest) -> HttpResponse:
    form = ArchivedFilterForm(request.GET)
    listed, context = _list(form, read_archived_everywhere, name="tasks-archived", change="tasks-reschedule")
    context["screen"] = archived_screen(listed, now=read_clock())
    return render(request, "tasks/archived.html", context)


@page
@require_safe
def templates(request: HttpRequest) -> HttpResponse:
    key = _template_key(request)
    found, now = read_templates_everywhere(after=key), read_clock()
    context = {
        "screen": templates_screen(found, now=now, is_first=key is None),
        "silent": silent_partitions(found.silent, now=now),
        "tabs": tabs("tasks-templates"),
        **_pages("tasks-templates", found, lambda seen: seen.template.urn, is_first=key is None),
    }
    return render(request, "tasks/templates.html", context)


@page
@require_safe
def workers(request: HttpRequest) -> HttpResponse:
    key = _worker_key(request)
    found, now = read_roster_everywhere(after=key), read_clock()
    context = {
        "screen": roster_screen(found, now=now, is_first=key is None),
        "silent": silent_partitions(found.silent, now=now),
        "tabs": tabs("tasks-workers"),
        **_pages("tasks-workers", found, lambda one: f"{one.since.isoformat()},{one.pk}", is_first=key is None),
    }
    return render(request, "tasks/workers.html", context)


def _template_key(request: HttpRequest) -> TemplateKey | None:
    """
    Return the key of the last template on the previous page; None for the first page.

    Raises:
        Http404: there is no such page.
    """
    urn, partition = request.GET.get("after", ""), request.GET.get("partition", "")
    if not urn:
        return None
    if not urn.isprintable():
        raise Http404(_("Invalid page of the list. Start from the first page."))
    return TemplateKey(urn, partition)


def _worker_key(request: HttpRequest) -> WorkerKey | None:
    """
    Return the key of the last worker on the previous page; None for the first page.

    Raises:
        Http404: there is no such page.
    """
    said, partition = request.GET.get("after", ""), request.GET.get("partition", "")
    if not said:
        return None
    since, _comma, number = said.partition(",")
    try:
        at, worker = parse_datetime(since), uuid.UUID(number)
    except ValueError:
        at, worker = None, uuid.UUID(int=0)
    if at is None or at.tzinfo is None:
        raise Http404(_("Invalid page of the list. Start from the first page."))
    return WorkerKey(at, worker, partition)


def _pages(name: str, found: CountedEverywhere, key_of: Callable[[Any], str], *, is_first: bool) -> dict[str, Any]:
    """Return the links to other pages of a list without filters, and its topic. Only the first page is live."""
    following = ""
    if found.has_next:
        last = found.rows[-1]
        of_partition = {"partition": last.partition} if last.partition else {}
        following = urlencode({"after": key_of(last.line), **of_partition})
    return {
        "first_query": "" if is_first else "all",
        "next_query": following,
        "topic": tasks_topic(name) if is_first else "",
    }


def _list(
    form: TaskFilterForm, read: Callable[..., ListedEverywhere], *, name: str, change: str
) -> tuple[ListedEverywhere, dict[str, Any]]:
    """
    Return a page of a list, and the context of its template. Only the first page is live.

    `change` is the name of the page that changes all listed tasks of one partition.
    """
    listed, problem = ListedEverywhere(), ""
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
        "silent": silent_partitions(listed.silent, now=read_clock()) if listed.silent else (),
        "query": query,
        "first_query": "" if is_live or not is_valid else query or "all",
        "next_query": form.as_query(after=key_as_text(listed.next)) if listed.next else "",
        "changes": _changes(change),
        "topic": tasks_topic(name, query) if is_live else "",
    }
    return listed, context


def _changes(name: str) -> list[dict[str, str]]:
    """
    Return the address of a page in each partition, with the name of the partition. The name is "" if there is only one
    partition.
    """
    placement, address = this_partition.placement(), reverse(name)
    if placement is None or not placement.is_control:
        return [{"name": "", "address": address}]
    own = {"name": placement.here, "address": address}
    return [own, *({"name": other, "address": this_partition.address_in(other, address)} for other in placement.others)]
