"""Authenticates services by a token, which each request has as `Authorization: Bearer …`."""

import datetime as dt

from django.http import HttpRequest
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework import exceptions
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from jobs.authorities.models import ServiceToken
from jobs.authorities.verbs import MAY_ASK
from nodes.api.bearer import digest_of, is_of_a_user, token_in
from nodes.database.clock import read_clock


class ServiceCaller:
    """
    A service with a token, which takes the place of a user in a request. It may only ask for access tokens of users.
    """

    is_authenticated = True
    is_active = True
    is_anonymous = False
    pk = None

    def __init__(self, name: str) -> None:
        self.name = name

    def has_perm(self, permission: str) -> bool:
        return permission == MAY_ASK

    def get_username(self) -> str:
        return self.name


def find_caller(request: HttpRequest) -> ServiceCaller | None:
    """Return the service that sends this request; None without a valid token."""
    token = token_in(request.headers.get("Authorization", ""))
    if not token:
        return None
    found = ServiceToken.objects.filter(digest=digest_of(token)).first()
    return ServiceCaller(found.name) if found and _is_valid(found.expires_at, now=read_clock()) else None


def _is_valid(expires_at: dt.datetime | None, *, now: dt.datetime) -> bool:
    return expires_at is None or expires_at > now


class ServiceTokenAuthentication(BaseAuthentication):
    """Authenticates a service by its token."""

    def authenticate(self, request: Request) -> tuple[ServiceCaller, None] | None:
        token = token_in(request.headers.get("Authorization", ""))
        if not token or is_of_a_user(token):
            return None
        caller = find_caller(request._request)  # noqa: SLF001 (DRF offers no other access)
        if caller is None:
            raise exceptions.AuthenticationFailed("Invalid token of a service.")
        return caller, None

    def authenticate_header(self, request: Request) -> str:
        return "Bearer"


class ServiceTokenScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]
    """The description of the authentication of services in the API schema."""

    target_class = "jobs.authorities.callers.ServiceTokenAuthentication"
    name = "serviceToken"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "description": "Token of a service (docs/authorities.md)."}
