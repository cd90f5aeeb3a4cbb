"""The pages of one archive record: its content, and its body as a download."""

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from jobs.search.archive_api import body_of
from jobs.search.archived import read_record_for
from jobs.ui.archive_views import record_row
from jobs.ui.pages import page
from nodes.database.clock import read_clock
from nodes.errors import Refused
from nodes.web import formats


@page
@require_safe
def record(request: HttpRequest, record_id: int) -> HttpResponse:
    try:
        read = read_record_for(request.user.get_username(), record_id)
    except (Refused, PermissionDenied) as refused:
        return render(request, "ui/archive_record.html", {"problem": str(refused)}, status=_status(refused))
    context = {"read": read, "row": record_row(read.row, read_clock()), "size": formats.size(len(read.content.body))}
    return render(request, "ui/archive_record.html", context)


@page
@require_safe
def body(request: HttpRequest, record_id: int) -> HttpResponse:
    try:
        read = read_record_for(request.user.get_username(), record_id)
    except (Refused, PermissionDenied) as refused:
        return HttpResponse(str(refused), status=_status(refused), content_type="text/plain; charset=utf-8")
    return body_of(read)


def _status(refused: Exception) -> int:
    return 403 if isinstance(refused, PermissionDenied) else 409
