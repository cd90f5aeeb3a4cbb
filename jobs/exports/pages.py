"""The pages of exports: their list, and the form of a new one."""

import json
from typing import Any, Final

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from jobs.exports import verbs
from jobs.exports.models import Export
from jobs.exports.sending import send
from jobs.exports.sources import SOURCES, find, read_filter
from nodes.database.clock import read_clock
from nodes.errors import Invalid, NotAllowed, NotDone, Refused
from nodes.web import formats
from nodes.web.pages import name_of_who_may, page_for

page: Final = page_for("exports.view_export")
# Exports on the page.
_SHOWN: Final = 100
_STATES: Final = {
    "waiting": (gettext_lazy("waiting"), "waiting"),
    "running": (gettext_lazy("running"), "active"),
    "done": (gettext_lazy("done"), "indexed"),
    "cancelled": (gettext_lazy("cancelled"), "excluded"),
    "failed": (gettext_lazy("failed"), "failed"),
}


@page
@require_safe
def exports(request: HttpRequest) -> HttpResponse:
    rows = [_row(verbs.look(export)) for export in verbs.visible(_may(request))[:_SHOWN]]
    context = {
        "rows": rows,
        "sources": [source for source in SOURCES.values() if _may(request)(source.permission)],
        "refreshes": any(row["is_open"] for row in rows),
    }
    return render(request, "exports/list.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    """Show the form of a new export with the filter of a report, or schedule it."""
    name = name_of_who_may(request, "exports.add_export")
    given = request.POST if request.method == "POST" else request.GET
    what, text = given.get("what", "documents"), given.get("filter", "") or "{}"
    problems: dict[str, str] = {}
    shown: list[tuple[str, object]] = []
    try:
        filter_ = json.loads(text)
        source = find(what)
        stored, _query = read_filter(source, filter_)
        shown = [(field, _in_words(value)) for field, value in stored.items()]
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
    """Answer with the file of an export."""
    try:
        return send(verbs.read(export_id, may=_may(request)))
    except Refused as refused:
        messages.warning(request, str(refused))
        return redirect("exports")


@page
@require_POST
def cancel(request: HttpRequest, export_id: int) -> HttpResponse:
    """Cancel an export."""
    name = name_of_who_may(request, "exports.add_export")
    try:
        verbs.cancel(export_id, may=_may(request), made_by=name)
    except Refused as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, _("Export %(id)d is asked to end.") % {"id": export_id})
    return redirect("exports")


@page
@require_POST
def delete(request: HttpRequest, export_id: int) -> HttpResponse:
    """Delete an export and its file."""
    name = name_of_who_may(request, "exports.delete_export")
    try:
        verbs.delete(export_id, may=_may(request), made_by=name)
    except NotDone as refused:
        messages.warning(request, str(refused))
    else:
        messages.success(request, _("Export %(id)d is deleted.") % {"id": export_id})
    return redirect("exports")


def _may(request: HttpRequest) -> verbs.May:
    user: Any = request.user
    return user.has_perm  # type: ignore[no-any-return]


def _row(seen: verbs.Seen) -> dict[str, object]:
    now = read_clock()
    export = seen.export
    label, tone = _STATES[seen.state]
    is_open = seen.state in {"waiting", "running"}
    return {
        "id": export.pk,
        "title": SOURCES[export.what].title,
        "format": Export.Format(export.format).label,
        "filter": "; ".join(f"{name}: {_in_words(value)}" for name, value in export.filter.items() if value != []),
        "state": label,
        "tone": tone,
        "problem": seen.problem,
        "rows": formats.number(export.rows),
        "total": formats.number(export.total) if is_open and export.total is not None else "",
        "done": min(100, 100 * export.rows // export.total) if is_open and export.total else None,
        "size": formats.size(export.bytes) if export.file else formats.UNKNOWN,
        "at": formats.moment(export.created_at, now=now),
        "by": export.created_by,
        "expires": formats.time_until(export.expires_at, now=now) if export.expires_at else formats.UNKNOWN,
        "is_open": is_open,
        "has_file": bool(export.file),
    }


def _in_words(value: object) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
