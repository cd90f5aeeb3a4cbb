"""
The language of each request: the language of the account, otherwise of the cookie, otherwise the first of the browser's
languages that crawlctl has.

The account's language is copied into the session at each login, because each page reads the session anyway. Answers for
programs are in English.
"""

from collections.abc import Callable
from typing import Any, Final

from django.conf import settings
from django.contrib.auth import SESSION_KEY
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBadRequest
from django.shortcuts import redirect, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import get_language_from_request
from django.views.decorators.http import require_POST

from crawlctl.languages import CODES, ENGLISH, speaking
from crawlctl.models import LanguageOfUser
from nodes.database.outage import OUTAGES

# Key of the language in a session.
_KEY: Final = "language"
# Beginnings of the paths that programs read.
_FOR_PROGRAMS: Final = ("/api/", "/metrics", "/UserACLs", "/mcf-authority-service/")


class SpeakLanguage:
    """Middleware: translate the texts of pages into the language of the request."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        language = ENGLISH if request.path_info.startswith(_FOR_PROGRAMS) else language_of(request)
        with speaking(language):
            response = self._get_response(request)
        response.headers.setdefault("Content-Language", language)
        return response


def language_of(request: HttpRequest) -> str:
    """Return the code of the language for the pages of this request."""
    try:
        stored = request.session.get(_KEY)
    except OUTAGES:
        # The view decides whether it can answer without the database.
        stored = None
    return stored if stored in CODES else get_language_from_request(request)


def remember_language(request: HttpRequest, user: User, **_signal: object) -> None:
    """Copy the account's language into the session of a login. A login with a token has no session."""
    if SESSION_KEY in request.session:
        stored = LanguageOfUser.objects.filter(user=user).first()
        if stored is not None:
            request.session[_KEY] = stored.language


@require_POST
def choose_language(request: HttpRequest) -> HttpResponse:
    """Keep the chosen language with the account, and in this browser for the time without a login."""
    language = request.POST.get("language", "")
    if language not in CODES:
        return HttpResponseBadRequest(f"Unknown language. Possible values: {', '.join(sorted(CODES))}.")
    user: Any = request.user
    if user.is_authenticated:
        LanguageOfUser.objects.update_or_create(user_id=user.pk, defaults={"language": language})
        request.session[_KEY] = language
    response = redirect(_return_address(request))
    response.set_cookie(
        settings.LANGUAGE_COOKIE_NAME,
        language,
        max_age=settings.LANGUAGE_COOKIE_AGE,
        secure=settings.LANGUAGE_COOKIE_SECURE,
        httponly=True,
        samesite="Lax",
    )
    return response


def _return_address(request: HttpRequest) -> str:
    """Return the address of the page with the form, if it is one of ours."""
    given = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(given, {request.get_host()}, require_https=request.is_secure()):
        return given
    return resolve_url("account" if request.user.is_authenticated else settings.LOGIN_URL)
