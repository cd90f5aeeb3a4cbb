"""
`/healthz` and `/readyz`: probes of a supervisor or of a load balancer, which have no login.

A probe often uses an address that is not a name of this server, and http behind a TLS proxy. So this middleware is the
first, before the middlewares that would refuse or redirect such a request.
"""

import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Final

from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed, JsonResponse

from jobs.api.errors import Problem
from nodes.database.outage import OUTAGES, outage
from nodes.database.schema import SchemaBehind, SchemaRefused, SchemaTooOld, require_current

_METHODS: Final = ("GET", "HEAD")
# Time for which an answer of /readyz is repeated (seconds), so that strangers cannot load the database with requests.
_KEPT_FOR: Final = 1.0


class Probes:
    """Middleware: answer 200 at /healthz if this process answers, and 200 or 503 at /readyz."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response
        self._one_at_a_time = threading.Lock()
        self._problem: Problem | None = None
        self._checked_at = float("-inf")

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.path_info not in {"/healthz", "/readyz"}:
            return self._get_response(request)
        if request.method not in _METHODS:
            return HttpResponseNotAllowed(_METHODS)
        problem = self._why_not_ready() if request.path_info == "/readyz" else None
        answer = problem.as_json() if problem else JsonResponse({"status": "ok"})
        answer.headers["Cache-Control"] = "no-store"
        return answer

    def _why_not_ready(self) -> Problem | None:
        with self._one_at_a_time:
            if time.monotonic() - self._checked_at > _KEPT_FOR:
                self._problem = _check_database()
                self._checked_at = time.monotonic()
            return self._problem


def _check_database() -> Problem | None:
    """Return the reason why the pages cannot use the database, or None."""
    try:
        require_current()
    except SchemaBehind as error:
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "schema_behind", str(error))
    except SchemaRefused as error:
        code = "schema_too_old" if isinstance(error, SchemaTooOld) else "schema_too_new"
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, code, str(error))
    except OUTAGES as error:
        return Problem(HTTPStatus.SERVICE_UNAVAILABLE, "database_unavailable", f"{outage(error)}.")
    return None
