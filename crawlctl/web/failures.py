"""The answers to requests that ended in an unexpected error, for browsers and programs."""

import logging
import sys
from http import HTTPStatus
from typing import Final

import psycopg
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from nodes.database.outage import outage

# Some pages read over a plain connection, whose errors Django does not wrap.
_AWAY: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)


def log_outage_in_one_line(record: logging.LogRecord) -> bool:
    """Give the reason of an outage instead of a traceback: a filter of the logger `django.request`."""
    error = record.exc_info[1] if record.exc_info else None
    request = getattr(record, "request", None)
    if isinstance(error, _AWAY) and isinstance(request, HttpRequest):
        record.msg, record.args = "%s. Answered %s with 503.", (outage(error), request.path)
        record.exc_info = record.exc_text = None
    return True


def answer_failure(request: HttpRequest) -> HttpResponse:
    """
    Return the answer to a failed request: an outage of the database, or a general error. Django's `handler500`.

    The API's own views answer their errors themselves. This handles pages, and failures outside of any view.
    """
    error = sys.exception()
    if not isinstance(error, _AWAY):
        return server_error(request)
    said = outage(error)
    if request.path.startswith("/api/"):
        problem = {"code": "database_unavailable", "detail": f"{said}; try again."}
        return JsonResponse(problem, status=HTTPStatus.SERVICE_UNAVAILABLE)
    # The page is rendered without the request, whose user would have to be read from the database.
    return HttpResponse(render_to_string("503.html", {"said": said}), status=HTTPStatus.SERVICE_UNAVAILABLE)
