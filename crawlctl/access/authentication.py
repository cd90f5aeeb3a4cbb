"""
Tokens of the API: a login issues a token (`crawlctl.access.tokens`), each request carries it, and it expires.

Only a digest is stored, so a reader of the database has no usable token. The framework imports this module while it
imports its views, so this module must not import those.
"""

from django.contrib.auth.base_user import AbstractBaseUser
from drf_spectacular.contrib.knox_auth_token import KnoxTokenScheme
from knox import auth
from knox.models import AuthToken
from rest_framework import exceptions


class TokenAuthentication(auth.TokenAuthentication):  # type: ignore[misc]
    """Authenticates a request with a header `Authorization: Token …`."""

    def authenticate_credentials(self, token: bytes) -> tuple[AbstractBaseUser, AuthToken]:
        # Knox decodes the token and looks it up. Both fail on some of the bytes that a client may send.
        if not token.isalnum():
            raise exceptions.AuthenticationFailed("Invalid token.")
        user, row = super().authenticate_credentials(token)
        return user, row


class TokenScheme(KnoxTokenScheme):  # type: ignore[no-untyped-call]
    """The description of token authentication in the API schema."""

    target_class = "crawlctl.access.authentication.TokenAuthentication"
    name = "token"
