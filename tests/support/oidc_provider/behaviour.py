"""The groups that the provider sends, and its faults: what `PUT /behaviour/` sets."""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.contrib.auth.models import AnonymousUser, User
from django.http import HttpRequest, HttpResponse
from jwcrypto.jwk import JWK
from jwcrypto.jws import JWS
from oauth2_provider.oauth2_validators import OAuth2Validator


@dataclass
class Behaviour:
    """
    The groups of each user, and the faults of the provider. `claims` replace claims of each ID token. `signature` forges
    the signature as an attacker would: with another key, with the public secret of the client, or without a signature.
    `absent` are fields that an answer of the token endpoint lacks.
    """

    groups: dict[str, list[str]] = field(default_factory=dict)
    claims: dict[str, Any] = field(default_factory=dict)
    signature: str = ""
    absent: list[str] = field(default_factory=list)
    subject_of_userinfo: str = ""
    secret: str = ""


present = Behaviour()


class UserOfCookie:
    """Middleware: the cookie `user` is the login at this provider."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        name = request.COOKIES.get("user", "")
        request.user = User.objects.get_or_create(username=name)[0] if name else AnonymousUser()
        response = self._get_response(request)
        if present.absent and response.headers.get("Content-Type") == "application/json":
            answer = json.loads(response.content)
            response.content = json.dumps({key: value for key, value in answer.items() if key not in present.absent})
        return response


class Validator(OAuth2Validator):  # type: ignore[misc]
    """Sends the name and the groups with every scope."""

    oidc_claim_scope = None

    def get_additional_claims(self, request: Any) -> dict[str, Any]:
        name = request.user.username
        return {"preferred_username": name, "groups": present.groups.get(name, [])}

    def get_userinfo_claims(self, request: Any) -> dict[str, Any]:
        claims = dict(super().get_userinfo_claims(request))
        return {**claims, "sub": present.subject_of_userinfo or claims["sub"]}

    def get_id_token_dictionary(self, token: Any, token_handler: Any, request: Any) -> tuple[dict[str, Any], Any]:
        claims, expires = super().get_id_token_dictionary(token, token_handler, request)
        return {**claims, **present.claims}, expires

    def finalize_id_token(self, id_token: Any, token: Any, token_handler: Any, request: Any) -> str:
        genuine = str(super().finalize_id_token(id_token, token, token_handler, request))
        return forged(genuine, present.signature) if present.signature else genuine


def forged(token: str, signature: str) -> str:
    """Return the same token with the signature of an attacker."""
    signed = JWS()
    signed.deserialize(token)
    payload, header = signed.objects["payload"], json.loads(signed.objects["protected"])
    if signature == "none":
        unsigned = [json.dumps({**header, "alg": "none"}).encode(), payload]
        return ".".join([*(urlsafe_b64encode(part).decode().rstrip("=") for part in unsigned), ""])
    if signature == "secret":
        header, key = {"alg": "HS256", "typ": "JWT"}, JWK.from_password(present.secret)
    else:
        key = JWK.generate(kty="RSA", size=2048)
    forgery = JWS(payload)
    forgery.add_signature(key, protected=json.dumps(header))
    return str(forgery.serialize(compact=True))
