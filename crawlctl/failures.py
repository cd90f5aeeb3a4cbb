"""What a browser or a program reads when its request could not be answered at all."""

import sys
from http import HTTPStatus
from typing import Final

import psycopg
from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.template.loader import render_to_string
from django.views.defaults import server_error

from nodes.outage import outage

# Some pages read over a plain connection, whose errors Django does not wrap.
_AWAY: Final = (OperationalError, InterfaceError, psycopg.OperationalError, psycopg.InterfaceError)


def answer_failure(request: HttpRequest) -> HttpResponse:
    """
    Say that the database is away where it is, and else that something is wrong here; Django's `handler500`.

    The API's own views answer for themselves. Here arrive pages, and what stands before any view.
    """
    error = sys.exception()
    if not isinstance(error, _AWAY):
        return server_error(request)
    said = outage(error)
    if request.path.startswith("/api/"):
        problem = {"code": "database_unavailable", "detail": f"{said}; try again."}
        return JsonResponse(problem, status=HTTPStatus.SERVICE_UNAVAILABLE)
    # Without the request: who is logged in would have to be asked of the database.
    return HttpResponse(render_to_string("503.html", {"said": said}), status=HTTPStatus.SERVICE_UNAVAILABLE)
