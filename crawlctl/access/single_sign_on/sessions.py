"""Sessions after a login at a provider: they end after a bounded time, and store that the login was at the provider."""

from typing import Final

from django.contrib.auth import login
from django.contrib.auth.models import User
from django.http import HttpRequest
from django.utils import timezone

from jobs.settings.logins import SESSION
from nodes.settings.running import current

_BACKEND: Final = "crawlctl.access.logins.GuardedBackend"
_AT_PROVIDER: Final = "began_at_provider"


def start_session(request: HttpRequest, user: User, *, at_provider: bool = False) -> None:
    """Log the user in. Pages, the API and sockets obey the end of the session, which no request postpones."""
    login(request, user, backend=_BACKEND)
    request.session[_AT_PROVIDER] = at_provider
    # Sessions expire by the clock of the web server, as in Django.
    request.session.set_expiry(timezone.now() + current()[SESSION])  # noqa: TID251


def began_at_provider(request: HttpRequest) -> bool:
    return bool(request.session.get(_AT_PROVIDER))
