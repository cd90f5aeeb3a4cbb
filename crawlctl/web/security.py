"""
Headers that limit how a browser uses and stores our pages.

Our own pages load only our own files and run no inline script. So even unescaped text of a crawled site could not run a
script. The admin's pages are unfold's: they need inline styles and scripts, and Alpine evaluates expressions.
"""

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.urls import reverse

_OWN: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; font-src 'self'; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
_ADMIN: Final = (
    "default-src 'none'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data:; font-src 'self'; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)


class ContentSecurityPolicy:
    """Middleware: send a policy with each answer that has none."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        is_admin = request.path_info.startswith(reverse("admin:index"))
        response.headers.setdefault("Content-Security-Policy", _ADMIN if is_admin else _OWN)
        return response


class NoStore:
    """Middleware: forbid browsers and proxies to store an answer of a view, unless the view allows it."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self._get_response(request)
        # After a logout, "Back" must not show pages that only a logged-in user may see.
        response.headers.setdefault("Cache-Control", "no-store")
        return response
