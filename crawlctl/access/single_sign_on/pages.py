"""The pages of a login at the provider, and of a login link."""

import json
import logging
from collections.abc import Mapping
from typing import Any, Final

from django.conf import settings
from django.contrib.auth.forms import AuthenticationForm
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_safe

from crawlctl.access.logins import login_methods
from crawlctl.access.single_sign_on import links, provider, users
from crawlctl.access.single_sign_on.identity import Identity, identity_of
from crawlctl.access.single_sign_on.sessions import start_session
from jobs.settings import logins
from nodes.errors import Refused
from nodes.settings.running import current

logger = logging.getLogger(__name__)

# Name of the signed cookie that holds the login attempt of a browser, and its lifetime (seconds): long enough for the
# pages of the provider.
_COOKIE: Final = "crawlctl_login"
_SALT: Final = "crawlctl.access.single_sign_on.pages"
_TIME_TO_LOG_IN: Final = 600


@require_safe
def begin(request: HttpRequest) -> HttpResponse:
    """Lead the browser to the login page of the provider."""
    _check_provider()
    onward = _own_address(request, request.GET.get("next", ""))
    if request.user.is_authenticated:
        return HttpResponseRedirect(onward)
    try:
        address, attempt = provider.begin(request.build_absolute_uri(reverse("login-provider-answer")))
    except provider.Unavailable as error:
        return _unavailable(request, error)
    response = HttpResponseRedirect(address)
    response.set_signed_cookie(
        _COOKIE,
        json.dumps({"attempt": attempt.as_json(), "next": onward}),
        salt=_SALT,
        max_age=_TIME_TO_LOG_IN,
        path=reverse("login-provider"),
        secure=settings.SESSION_COOKIE_SECURE,
        httponly=True,
        # The provider's answer comes as a request from another site. "Strict" would not send the cookie with that
        # request.
        samesite="Lax",
    )
    return response


@require_safe
def answer(request: HttpRequest) -> HttpResponse:
    """Log in the user that the provider names."""
    _check_provider()
    response = _log_in(request, _attempt_of(request))
    # An attempt accepts only one answer, even if that is invalid.
    response.delete_cookie(_COOKIE, path=reverse("login-provider"), samesite="Lax")
    return response


@require_safe
def end(request: HttpRequest) -> HttpResponse:
    """Lead the browser to the log-out page of the provider."""
    _check_provider()
    try:
        address = provider.end_address(request.build_absolute_uri(reverse("login")))
    except provider.Unavailable as error:
        return _unavailable(request, error)
    if not address:
        return _refusal(
            request, _("The provider offers no logout from here. Log out on the pages of the provider."), status=404
        )
    return HttpResponseRedirect(address)


@require_http_methods(["GET", "HEAD", "POST"])
def by_link(request: HttpRequest) -> HttpResponse:
    """Log in with a link. The link opens a page with a button, because programs that preview links send only GET."""
    text = request.POST.get("link") or request.GET.get("link", "")
    if request.method != "POST":
        return render(request, "account/login_link.html", {"link": text})
    if links.log_in_by(request, text):
        return redirect(settings.LOGIN_REDIRECT_URL)
    return _refusal(
        request,
        _("This link is invalid, has expired, or was already used. Ask an administrator for a new one."),
        status=403,
    )


def _log_in(request: HttpRequest, kept: Mapping[str, Any] | None) -> HttpResponse:
    if kept is None:
        return _refusal(request, _("This login took too long, or began in another browser. Log in again."), status=400)
    if "code" not in request.GET:
        # Anyone can send a text as error, so only the log shows it.
        logger.warning("the provider refused a login: %.200r", request.GET.get("error", ""))
        return _refusal(request, _("The provider did not log you in. Try again."), status=403)
    try:
        identity = _identity(
            provider.complete(
                provider.Attempt.from_json(kept["attempt"]),
                state=request.GET.get("state", ""),
                code=request.GET["code"],
            )
        )
        user = users.accept(identity)
    except provider.Unavailable as error:
        return _unavailable(request, error)
    except provider.AnswerRefused as error:
        logger.warning("an answer of the provider was refused: %.200s", error)
        return _refusal(request, _("The answer of the provider is not valid. Log in again."), status=400)
    except Refused as refused:
        logger.warning("a user of the provider was refused: %.200s", refused)
        return _refusal(request, str(refused), status=403)
    start_session(request, user, at_provider=True)
    return HttpResponseRedirect(_own_address(request, kept["next"]))


def _identity(claims: Mapping[str, Any]) -> Identity:
    given = current()
    mapping: tuple[str, ...] = given[logins.ROLES]
    identity = identity_of(
        claims,
        issuer=given[logins.ISSUER],
        name_claim=given[logins.NAME_CLAIM],
        groups_claim=given[logins.GROUPS_CLAIM],
        mapping=mapping,
    )
    if identity is None:
        raise provider.AnswerRefused("the subject is invalid")
    return identity


def _attempt_of(request: HttpRequest) -> Mapping[str, Any] | None:
    text = request.get_signed_cookie(_COOKIE, default="", salt=_SALT, max_age=_TIME_TO_LOG_IN)
    return json.loads(text) if text else None


def _own_address(request: HttpRequest, address: str) -> str:
    """Return an address of our own pages unchanged; for any other address, return the address of the first page."""
    is_own = url_has_allowed_host_and_scheme(
        address, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    return address if is_own else resolve_url(settings.LOGIN_REDIRECT_URL)


def _check_provider() -> None:
    if not provider.is_configured():
        raise Http404("There is no provider of OpenID Connect.")


def _unavailable(request: HttpRequest, error: provider.Unavailable) -> HttpResponse:
    logger.warning("the provider of logins cannot be used: %.200s", error)
    return _refusal(
        request, _("The provider does not answer. Try again, or ask an administrator for a login link."), status=503
    )


def _refusal(request: HttpRequest, sentence: str, *, status: int) -> HttpResponse:
    shown = {"refusal": sentence, "form": AuthenticationForm(request), **login_methods()}
    return render(request, "ui/login.html", shown, status=status)
