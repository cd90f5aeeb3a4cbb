"""
Requests with an API token: `Authorization: Bearer crawlctl_api_…`.

Wrong tokens are limited like wrong passwords. A token above the limit is refused without a look-up.
The framework imports this module while it imports its views, so this module must not import those.
"""

import datetime as dt

from django.db.models import Exists, OuterRef, Q
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from crawlctl.access import logins
from crawlctl.access.api_tokens.scopes import SCOPES
from crawlctl.models import ApiToken, ProviderIdentity, UserOfToken
from jobs.settings.logins import TOKENS
from nodes.api.bearer import digest_of, is_of_a_user, token_in
from nodes.database.clock import read_clock
from nodes.settings.running import current

# Least time between two writes of the time of a token's last use.
_LAST_USE = dt.timedelta(minutes=1)


class ApiTokenAuthentication(BaseAuthentication):
    """Authenticates a request with the API token of a user."""

    def authenticate(self, request: Request) -> tuple[UserOfToken, ApiToken] | None:
        text = token_in(request.headers.get("Authorization", ""))
        if not is_of_a_user(text):
            return None
        sent = request._request  # noqa: SLF001 (DRF offers no other access)
        now = read_clock()
        wait = logins.seconds_closed(text, sent, now=now)
        token = None if wait else _find(text, now=now)
        if token is None:
            if wait := wait or logins.count_wrong(text, sent):
                raise exceptions.Throttled(wait, "Too many wrong tokens. Try again later.")
            raise exceptions.AuthenticationFailed("Invalid API token.")
        _note_use(token, now=now)
        token.owner.scope = SCOPES[token.scope]
        return token.owner, token

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


def _find(text: str, *, now: dt.datetime) -> ApiToken | None:
    valid = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    # crawlctl learns only at a login that a person has left the provider, so an owner must log in from time to time.
    of_provider = ProviderIdentity.objects.filter(user_id=OuterRef("owner_id"))
    confirmed = ~Exists(of_provider) | Exists(of_provider.filter(logged_in_at__gt=now - current()[TOKENS]))
    found = ApiToken.objects.select_related("owner").filter(
        valid, confirmed, digest=digest_of(text), owner__is_active=True
    )
    return found.first()


def _note_use(token: ApiToken, *, now: dt.datetime) -> None:
    if token.last_used_at is not None and token.last_used_at > now - _LAST_USE:
        return
    old = Q(last_used_at__isnull=True) | Q(last_used_at__lt=now - _LAST_USE)
    ApiToken.objects.filter(old, pk=token.pk).update(last_used_at=now)


class ApiTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The description of API tokens in the API schema."""

    target_class = "crawlctl.access.api_tokens.authentication.ApiTokenAuthentication"
    name = "apiToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "Long-lived API token (docs/api.md)."}
