"""
Login for a token of the API, and its revocation.

A token ends with the password that gave it, as a session does (`crawlctl.access.accounts.end_tokens_with_password`).
"""

from typing import Any, Final

from django.contrib.auth import authenticate
from django.urls import reverse
from drf_spectacular.utils import extend_schema
from knox.models import AuthToken
from rest_framework import exceptions, serializers, status
from rest_framework.permissions import AllowAny, BasePermission, IsAuthenticated
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from crawlctl.access import logins
from crawlctl.access.authentication import TokenAuthentication
from nodes.api.base import created
from nodes.api.strict import Nothing, StrictSerializer

# Largest number of tokens of one user. A program that requests one at each start must not fill the table: a further
# token ends the oldest.
MOST_OF_A_USER: Final = 20


class Credentials(StrictSerializer):
    """Login with a password."""

    username = serializers.CharField(max_length=150)
    password = serializers.CharField(max_length=4096, trim_whitespace=False, write_only=True)


class Token(serializers.Serializer[Any]):
    token = serializers.CharField(help_text="Token, shown only in this answer.")
    expires_at = serializers.DateTimeField()


class TokenView(APIView):
    """Creates a token for a user name and a password (POST), and revokes the token of the request (DELETE)."""

    authentication_classes = (TokenAuthentication,)
    # Largest size of a body (bytes). It is small because the sender has not logged in yet.
    most_bytes = 64 * 1024

    def get_permissions(self) -> list[BasePermission]:
        return [AllowAny() if self.request.method == "POST" else IsAuthenticated()]

    def perform_authentication(self, request: Request) -> None:
        # An old token in the header must not prevent the request for a new one.
        if request.method != "POST":
            super().perform_authentication(request)

    @extend_schema(
        operation_id="token_create",
        description="Return a token for a user name and a password.",
        request=Credentials,
        responses={201: Token},
        auth=[],
    )
    def post(self, request: Request) -> Response:
        given = Credentials(data=request.data)
        given.is_valid(raise_exception=True)
        if not logins.login_methods()["passwords"]:
            raise exceptions.PermissionDenied("Passwords are switched off. Use an API token of your account.")
        user = authenticate(request._request, **given.validated_data)  # noqa: SLF001 (DRF offers no other access)
        if user is None:
            if wait := logins.seconds_to_wait(request._request):  # noqa: SLF001
                raise exceptions.Throttled(wait, "Too many wrong passwords. Try again later.")
            raise exceptions.AuthenticationFailed("Wrong user name or password.")
        row, token = AuthToken.objects.create(user=user)
        surplus = AuthToken.objects.filter(user=user).order_by("-created").values_list("pk", flat=True)[MOST_OF_A_USER:]
        AuthToken.objects.filter(pk__in=list(surplus)).delete()
        return created({"token": token, "expires_at": row.expiry}, at=reverse("api:token"), request=request)

    @extend_schema(operation_id="token_destroy", description="Revoke the token of this request.", responses={204: None})
    def delete(self, request: Request) -> Response:
        Nothing(data=request.data).is_valid(raise_exception=True)
        request.auth.delete()
        return Response(status=status.HTTP_204_NO_CONTENT)
