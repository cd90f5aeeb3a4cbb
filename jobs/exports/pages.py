"""The pages of exports: their list, and the form of a new one."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.exports import verbs
from jobs.exports.models import Export
from jobs.exports.screens import exports_screen, in_words, topic_of
from jobs.exports.sending import send
from jobs.exports.sources import SOURCES, find, read_filter
from nodes.api.parsing import json_in
from nodes.errors import Invalid, NotAllowed, NotDone, Refused
from nodes.permissions import May
from nodes.web.pages import page_for, user_with_permission

page: Final = page_for("exports.view_export")


@page
@require_safe
def exports(request: HttpRequest) -> HttpResponse:
    """Show the exports, the newest first."""
    context = {
        "screen": exports_screen(_may(request)),
        "sources": [source for source in SOURCES.values() if _may(request)(source.permission)],
        "topic": topic_of(_may(request)),
    }
    return render(request, "exports/list.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new export with the filter of a report, or schedule it."""
    name = user_with_permission(request, "exports.add_export")
    given = request.POST if request.method == "POST" else request.GET
    what, text = given.get("what", "documents"), given.get("filter", "") or "{}"
    problems: dict[str, str] = {}
    shown: list[tuple[str, object]] = []
    try:
        filter_ = json_in(text)
        source = find(what)
        stored, _query = read_filter(source, filter_)
        shown = [(field, in_words(value)) for field, value in stored.items()]
        if request.method == "POST":
            export = verbs.request(
                what=what, format=given.get("format"), filter=filter_, may=_may(request), made_by=name
            )
            messages.success(request, _("Export %(id)d is scheduled.") % {"id": export.pk})
            return redirect("exports")
    except ValueError:
        problems["filter"] = _("This is not a JSON object.")
    except Invalid as invalid:
        problems = {field: " ".join(sentences) for field, sentences in invalid.problems.items()}
    except NotAllowed as refused:
        problems["what"] = str(refused)
    context = {
        "what": what,
        "title": SOURCES[what].title if what in SOURCES else what,
        "filter": text,
        "shown": shown,
        "formats": Export.Format.choices,
        "format": given.get("format", Export.Format.CSV),
        "problems": problems,
    }
    return render(request, "exports/new.html", context, status=400 if problems and request.method == "POST" else 200)


@page
@require_safe
def file(request: HttpRequest, export_id: int) -> HttpResponse | StreamingHttpResponse:
    """Return the file of an export."""
    try:
        return send(verbs.read(export_id, may=_may(request)))
    except Refused as refused:
        messages.warning(request, str(refused))
        return redirect("exports")


@page
@require_POST
def cancel(request: HttpRequest, export_id: int) -> HttpResponse:
    """Cancel an export."""
    name = user_with_permission(request, "exports.add_export")
    try:
        verbs.cancel(export_id, may=_may(request), made_by=name)
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(
            request,
            _("Export %(id)d is cancelled. If it is running, it ends after its present part.") % {"id": export_id},
        )
    return redirect("exports")


@page
@require_POST
def delete(request: HttpRequest, export_id: int) -> HttpResponse:
    """Delete an export and its file."""
    name = user_with_permission(request, "exports.delete_export")
    try:
        verbs.delete(export_id, may=_may(request), made_by=name)
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, _("Export %(id)d is deleted.") % {"id": export_id})
    return redirect("exports")


def _may(request: HttpRequest) -> May:
    user: Any = request.user
    return user.has_perm  # type: ignore[no-any-return]
