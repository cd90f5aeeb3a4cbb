"""
Logins at the provider of OpenID Connect, by means of Authlib: the authorization code flow with PKCE, state and nonce.

Authlib checks neither the audience nor the issuer of the metadata by itself, and has no timeout. So this module states
each check: issuer, audience, expiry, nonce, an asymmetric signature, a timeout, and no redirect of a request that holds
our secret. The browser keeps an attempt in a signed cookie, so visitors without a login write no row.
"""

import secrets
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache
from typing import Any, Final, Self
from urllib.parse import urlsplit

import requests
from authlib.common.errors import AuthlibBaseError
from authlib.integrations.django_client import DjangoOAuth2App
from authlib.integrations.requests_client import OAuth2Session
from joserfc.errors import JoseError

from jobs.settings import logins
from nodes.settings.running import current

# Limit of each request to the provider (seconds).
_TIMEOUT: Final = 10
# Time for which metadata and keys are kept (seconds). A key that is not among them is requested immediately.
_KEPT: Final = 600
# Time after a failure in which crawlctl does not request metadata again (seconds). Visitors cause these requests
# without a login.
_PAUSE: Final = 5
# Largest difference between our clock and the provider's (seconds).
_LEEWAY: Final = 60
# Asymmetric signatures only. The key of a symmetric one is our own secret, so everyone who knows this secret could
# sign.
_SIGNATURES: Final = frozenset(
    {"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA", "Ed25519"}
)
_ENDPOINTS: Final = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_OTHER_ENDPOINTS: Final = ("userinfo_endpoint", "end_session_endpoint")
_BASIC: Final = "client_secret_basic"
_LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})

Claims = Mapping[str, Any]


class Unavailable(Exception):
    """The provider does not answer, or its metadata are wrong."""


class AnswerRefused(Exception):
    """An answer does not belong to the attempt, or proves nothing."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login that has begun: secrets that connect the browser, the code and the ID token."""

    state: str
    nonce: str
    code_verifier: str
    redirect_uri: str

    def as_json(self) -> dict[str, str]:
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, str]) -> Self:
        return cls(**stored)


def is_configured() -> bool:
    return bool(current()[logins.ISSUER])


def begin(redirect_uri: str) -> tuple[str, Attempt]:
    """
    Return the address of the provider's login page, and the attempt that its answer must belong to.

    Raises:
        Unavailable: the provider does not answer, or its metadata are wrong.
    """
    begun = _client().create_authorization_url(redirect_uri)
    attempt = Attempt(
        state=begun["state"], nonce=begun["nonce"], code_verifier=begun["code_verifier"], redirect_uri=redirect_uri
    )
    return begun["url"], attempt


def complete(attempt: Attempt, *, state: str, code: str) -> Claims:
    """
    Exchange the code of an answer for an ID token, and return its checked claims.

    Raises:
        AnswerRefused: the answer does not belong to this attempt, or its ID token is invalid.
        Unavailable: the provider does not answer, or its metadata are wrong.
    """
    if not secrets.compare_digest(attempt.state.encode(), state.encode()):
        raise AnswerRefused("its state is not the state of the request")
    client = _client()
    try:
        token = client.fetch_access_token(
            redirect_uri=attempt.redirect_uri, code=code, code_verifier=attempt.code_verifier
        )
        claims = _checked_claims(client, token, attempt)
        return {**_more_claims(client, token, claims), **claims}
    except requests.RequestException as error:
        raise Unavailable(str(error)) from error
    except _FAILURES as error:
        raise AnswerRefused(str(error)) from error


def end_address(return_to: str) -> str:
    """
    Return the address at which users log out of the provider; "" if the provider has no such address.

    Raises:
        Unavailable: the provider does not answer, or its metadata are wrong.
    """
    client = _client()
    if "end_session_endpoint" not in client.server_metadata:
        return ""
    return str(client.create_logout_url(return_to, client_id=client.client_id)["url"])


class _BadMetadata(ValueError):
    """The metadata of the provider are not usable."""


# Errors of a provider that is silent, or that sends wrong types: Authlib and joserfc check no types.
_FAILURES: Final = (
    requests.RequestException,
    AuthlibBaseError,
    JoseError,
    ValueError,
    TypeError,
    KeyError,
    AttributeError,
)


class _Session(OAuth2Session):  # type: ignore[misc]
    """A session that follows no redirect. A provider needs no redirects, and our secret must not reach another host."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, default_timeout=_TIMEOUT, **more)
        self.max_redirects = 0


class _Client(DjangoOAuth2App):  # type: ignore[misc]
    """Authlib's client with checked metadata, which it reads again from time to time."""

    client_cls = _Session

    def __init__(self, *, issuer: str, client_id: str, client_secret: str, scope: str) -> None:
        super().__init__(
            framework=None,
            client_id=client_id,
            client_secret=client_secret or None,
            client_kwargs={"scope": scope, "code_challenge_method": "S256"},
        )
        self.issuer = issuer
        self._read_at = self._failed_at = float("-inf")
        self._reading = threading.Lock()

    def load_server_metadata(self) -> dict[str, Any]:
        """Return the metadata. One thread at a time reads them. After a failure, no thread reads them for a while."""
        with self._reading:
            if time.monotonic() - self._failed_at < _PAUSE:
                raise Unavailable("it failed a moment ago")
            if time.monotonic() - self._read_at > _KEPT:
                try:
                    self.server_metadata, self._read_at = self._read(), time.monotonic()
                except _FAILURES:
                    self._failed_at = time.monotonic()
                    raise
        return self.server_metadata

    def _read(self) -> dict[str, Any]:
        with self._get_session() as session:
            answer = session.get(f"{self.issuer.rstrip('/')}/.well-known/openid-configuration", withhold_token=True)
        answer.raise_for_status()
        metadata = answer.json()
        checked = _checked_metadata(metadata, self.issuer)
        return {**checked, "token_endpoint_auth_method": self._authentication(metadata)}

    def _authentication(self, metadata: Mapping[str, Any]) -> str:
        """Return the method by which crawlctl proves itself at the token endpoint."""
        if not self.client_secret:
            return "none"
        offered = metadata.get("token_endpoint_auth_methods_supported", [_BASIC])
        return _BASIC if _BASIC in offered else "client_secret_post"


def _client() -> _Client:
    """
    Return the client of the present settings, with metadata of the provider.

    Raises:
        Unavailable: the provider does not answer, or its metadata are wrong.
    """
    given = current()
    scope = " ".join(dict.fromkeys(("openid", *given[logins.SCOPE])))
    client = _kept_client(given[logins.ISSUER], given[logins.CLIENT_ID], given[logins.CLIENT_SECRET], scope)
    try:
        client.load_server_metadata()
    except _FAILURES as error:
        raise Unavailable(str(error)) from error
    return client


@lru_cache(maxsize=1)
def _kept_client(issuer: str, client_id: str, client_secret: str, scope: str) -> _Client:
    return _Client(issuer=issuer, client_id=client_id, client_secret=client_secret, scope=scope)


def _checked_metadata(metadata: dict[str, Any], issuer: str) -> dict[str, Any]:
    """Return the parts that a login uses, with asymmetric signatures only."""
    if metadata["issuer"] != issuer:
        raise _BadMetadata(f"the metadata are those of the issuer {metadata['issuer']!r}")
    used = {name: metadata[name] for name in _ENDPOINTS}
    used |= {name: metadata[name] for name in _OTHER_ENDPOINTS if metadata.get(name)}
    for name, address in used.items():
        parts = urlsplit(address)
        if parts.scheme != "https" and not (parts.scheme == "http" and parts.hostname in _LOOPBACK):
            raise _BadMetadata(f"{name} is no https address")
    # RS256 is the signature that each provider must offer.
    signatures = sorted(_SIGNATURES.intersection(metadata.get("id_token_signing_alg_values_supported", ["RS256"])))
    if not signatures:
        raise _BadMetadata("the provider offers no asymmetric signature")
    return {**used, "issuer": issuer, "id_token_signing_alg_values_supported": signatures}


def _checked_claims(client: _Client, token: Mapping[str, Any], attempt: Attempt) -> Claims:
    expected = {
        "iss": {"essential": True, "value": client.issuer},
        "aud": {"essential": True, "value": client.client_id},
        "sub": {"essential": True},
    }
    claims = client.parse_id_token(token, nonce=attempt.nonce, claims_options=expected, leeway=_LEEWAY)
    if claims is None:
        raise AnswerRefused("the answer has no ID token")
    return dict(claims)


def _more_claims(client: _Client, token: Mapping[str, Any], claims: Claims) -> Claims:
    """Return the claims of the user that are not in the ID token. Some providers show groups only there."""
    if "userinfo_endpoint" not in client.server_metadata:
        return {}
    more = dict(client.userinfo(token=token))
    if more.get("sub") != claims["sub"]:
        raise AnswerRefused("the claims are those of another user")
    return more
