"""The answers of pages to refusals that their views do not expect."""

import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs, urlsplit

from django.contrib import messages
from django.contrib.auth.views import redirect_to_login
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.defaults import page_not_found, permission_denied

from crawlctl.web.failures import answer_conflict
from nodes.database.conflicts import is_late_conflict, lost_a_conflict
from nodes.errors import NotAllowed, NotDone, Unknown
from nodes.web.translated_words import missing

logger = logging.getLogger(__name__)

# End of Django's own sentence for a missing row. It is English in all languages, and names the model.
_OF_DJANGO: Final = " matches the given query."


class ShowRefusals:
    """
    Middleware: show the sentence of a refusal on the page with the button, instead of a general error.

    A view checks a form before it makes a change. Meanwhile a job may start, or another user may change it, and some
    changes are possible in the control partition only. The session may end while a form is open: then the login leads
    back to the page with the form. PostgreSQL may undo a change in favour of another one: then the form can be sent
    again. Views of the API answer their refusals themselves.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        answer = self._get_response(request)
        if _lost_its_session(request, answer):
            messages.warning(
                request, _("Your session had ended, so nothing was changed. Log in, and send the form again.")
            )
            return redirect_to_login(_path_before(request))
        if answer.status_code == HTTPStatus.METHOD_NOT_ALLOWED and _is_bare(request, answer):
            page = render(request, "405.html", status=answer.status_code)
            page.headers["Allow"] = answer.headers["Allow"]
            return page
        return answer

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        match error:
            case Unknown():
                return answer_not_found(request, Http404(missing(error)))
            case NotAllowed():
                return permission_denied(request, PermissionDenied(str(error)))
            case NotDone() if request.method == "POST":
                messages.warning(request, str(error))
                return redirect(_page_before(request))
            case _ if lost_a_conflict(error):
                return answer_conflict(request)
            case _ if request.method == "POST" and is_late_conflict(error):
                logger.warning("A concurrent change came first (%s). Answered 409.", str(error).splitlines()[0])
                return answer_conflict(request)
            case _:
                return None


def _page_before(request: HttpRequest) -> str:
    """Return the address of the page that sent a form; "/" if it is unknown or on another site."""
    before = request.headers.get("Referer", "")
    is_own = url_has_allowed_host_and_scheme(
        before, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return before if before and is_own else "/"


def _path_before(request: HttpRequest) -> str:
    """Return the path and the query of the page that sent a form."""
    before = urlsplit(_page_before(request))
    return before._replace(scheme="", netloc="", fragment="").geturl() or "/"


def _lost_its_session(request: HttpRequest, answer: HttpResponse) -> bool:
    """
    True if a form was sent without a valid session. The answer is then a redirect to the login. After the login, the
    browser would open the target of the form, which may accept forms only.
    """
    if request.method != "POST" or answer.status_code != HTTPStatus.FOUND:
        return False
    to = urlsplit(answer.headers["Location"])
    return to.path == reverse("login") and parse_qs(to.query).get("next") == [request.get_full_path()]


def _is_bare(request: HttpRequest, answer: HttpResponse) -> bool:
    """True if this answer has no content, so that a browser would show an empty page."""
    return not answer.streaming and not answer.content and "text/html" in request.headers.get("Accept", "")


def answer_not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show that something does not exist, with the sentence of the view if it gave one. Django's `handler404`."""
    message = exception.args[0] if exception.args else ""
    # For an unknown address, Django gives a table of all addresses.
    is_sentence = isinstance(message, str) and not message.endswith(_OF_DJANGO)
    return page_not_found(request, Http404(message if is_sentence else ""))


def refuse_forgery(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Answer a form whose CSRF token does not belong to the login. Django's `CSRF_FAILURE_VIEW`."""
    message = _(
        "Nothing was changed: the form is older than your login, or the browser sends no cookies. Open the page again, "
        "and send the form again."
    )
    return permission_denied(request, PermissionDenied(message))
