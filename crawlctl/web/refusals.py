"""The answers of pages to refusals that their views do not expect."""

from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.defaults import page_not_found, permission_denied

from nodes.errors import NotAllowed, NotDone, Unknown


class ShowRefusals:
    """
    Middleware: show the sentence of a refusal on the page with the button, instead of a general error.

    A view checks a form before it makes a change. Meanwhile a job may start, or another user may change it, and some
    changes are possible in the control partition only. Views of the API answer their refusals themselves.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self._get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        match error:
            case Unknown():
                return page_not_found(request, Http404(str(error)))
            case NotAllowed():
                return permission_denied(request, PermissionDenied(str(error)))
            case NotDone() if request.method == "POST":
                messages.warning(request, str(error))
                return redirect(_page_before(request))
            case _:
                return None


def _page_before(request: HttpRequest) -> str:
    """Return the page that sent a form."""
    before = request.headers.get("Referer", "")
    is_own = url_has_allowed_host_and_scheme(
        before, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return before if before and is_own else "/"
