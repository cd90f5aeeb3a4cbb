"""
Tokens of the API: a password buys one (`crawlctl.tokens`), it is sent with each request, and it ends.

Only a digest is stored, so who reads the database has no usable token. The framework loads this module
while it loads its views, so it must not ask for those.
"""

from django.contrib.auth.base_user import AbstractBaseUser
from drf_spectacular.contrib.knox_auth_token import KnoxTokenScheme
from knox import auth
from knox.models import AuthToken
from rest_framework import exceptions


class TokenAuthentication(auth.TokenAuthentication):  # type: ignore[misc]
    """A request with a header `Authorization: Token …`."""

    def authenticate_credentials(self, token: bytes) -> tuple[AbstractBaseUser, AuthToken]:
        # Knox decodes it and looks it up: neither goes well with any byte that a client may send.
        if not token.isalnum():
            raise exceptions.AuthenticationFailed("Invalid token.")
        user, row = super().authenticate_credentials(token)
        return user, row


class TokenScheme(KnoxTokenScheme):  # type: ignore[no-untyped-call]
    """How the API's description speaks of it."""

    target_class = "crawlctl.authentication.TokenAuthentication"
    name = "token"
