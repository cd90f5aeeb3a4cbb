"""The answers to requests that ended in an unexpected error, for browsers and programs."""

import logging
import sys
from http import HTTPStatus
from typing import Final

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.template.loader import render_to_string
from django.views.defaults import server_error

from nodes.database.conflicts import lost_a_conflict
from nodes.database.outage import is_outage, outage

# Parts of names of fields for secrets.
_SECRET: Final = ("password", "secret")


def log_outage_in_one_line(record: logging.LogRecord) -> bool:
    """Give the reason of an outage instead of a traceback: a filter of the logger `django.request`."""
    error = record.exc_info[1] if record.exc_info else None
    request = getattr(record, "request", None)
    if not is_outage(error) or not isinstance(request, HttpRequest):
        return True
    record.exc_info = record.exc_text = None
    if lost_a_conflict(error):
        record.msg, record.args = "The database undid a change for another one. Answered %s with 409.", (request.path,)
    else:
        record.msg, record.args = "%s. Answered %s with 503.", (outage(error), request.path)
    return True


def answer_failure(request: HttpRequest) -> HttpResponse:
    """
    Return the answer to a failed request: an outage of the database, a conflict, or a general error. Django's `handler500`.

    The API's own views answer their errors themselves. This handles pages, and failures outside of any view.
    """
    error = sys.exception()
    if not is_outage(error):
        return server_error(request)
    if lost_a_conflict(error):
        return answer_conflict(request)
    reason = outage(error)
    if request.path.startswith("/api/"):
        problem = {"code": "database_unavailable", "detail": f"{reason}; try again."}
        return JsonResponse(problem, status=HTTPStatus.SERVICE_UNAVAILABLE)
    # The page is rendered without the request, whose user would have to be read from the database.
    return HttpResponse(render_to_string("503.html", {"reason": reason}), status=HTTPStatus.SERVICE_UNAVAILABLE)


def answer_conflict(request: HttpRequest) -> HttpResponse:
    """Return the answer to a request whose transaction PostgreSQL undid in favour of another one."""
    if request.path.startswith("/api/"):
        problem = {
            "code": "conflict",
            "detail": "Another change was made at this moment, so this one was undone. Try again.",
        }
        return JsonResponse(problem, status=HTTPStatus.CONFLICT)
    shown = {"sent": _fields_to_send_again(request), "is_form": request.method == "POST"}
    return render(request, "409.html", shown, status=HTTPStatus.CONFLICT)


def _fields_to_send_again(request: HttpRequest) -> list[tuple[str, str]] | None:
    """
    Return the fields of a form, for a button that sends the form again.

    Return None if a page must not show them (secrets), or cannot (files): a reload of the answer sends these again.
    """
    has_secret = any(word in name.lower() for name in request.POST for word in _SECRET)
    if request.method != "POST" or request.FILES or has_secret:
        return None
    own = "csrfmiddlewaretoken"
    return [(name, value) for name, values in request.POST.lists() if name != own for value in values]
