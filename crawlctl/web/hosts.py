"""Requests for a host that this server does not serve: refused with one line in the log."""

from collections.abc import Callable
from http import HTTPStatus

from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.utils.log import log_response

from jobs.api.errors import Problem

_DETAIL = "This server does not accept the host name of the request. Use one of its own names, or add this one to CRAWLCTL_ALLOWED_HOSTS."


class KnownHosts:
    """
    Middleware: answer 400 if the Host header names no host of this server.

    Django answers 400 as well, but with a page and with a traceback in the log for each such request. This middleware
    must precede all others that read the host.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        try:
            request.get_host()
        except DisallowedHost:
            refusal = Problem(HTTPStatus.BAD_REQUEST, "unknown_host", _DETAIL).as_json()
            host = request.headers.get("Host", "")
            log_response("Refused a request for the unknown host %.100r", host, response=refusal, request=request)
            return refusal
        return self._get_response(request)
