"""
Idempotency keys: a request that is sent twice is executed once.

The IETF draft "The Idempotency-Key HTTP Header Field" defines the header. A key belongs to its user. Answers are
kept for a day (`jobs.duties.housekeep`). Refusals are not kept: they change nothing, so the key stays free.

The row of a key is inserted in the transaction of the change. A second request with the key therefore waits until the
first has ended, and a crash keeps both the key and the change, or neither. Views that ask other processes commit before
they answer. Such a view refuses a second request while the first has no answer.
"""

import hashlib
import json
from typing import Any, Final

from rest_framework import exceptions, serializers, status
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.utils.encoders import JSONEncoder

from nodes.models import KeptAnswer

HEADER: Final = "Idempotency-Key"
_LONGEST: Final = 255
_KEPT_HEADERS: Final = ("Location", "ETag")


class KeyReused(exceptions.APIException):
    """The key was used for another request."""

    status_code = status.HTTP_422_UNPROCESSABLE_ENTITY
    default_code = "key_reused"
    default_detail = "This Idempotency-Key was used for another request; choose a new key for each."


class KeyInUse(exceptions.APIException):
    """The first request with the key has no answer yet."""

    status_code = status.HTTP_409_CONFLICT
    default_code = "key_in_use"
    default_detail = (
        "The first request with this Idempotency-Key has no answer yet. Send it again later. After a minute without an answer, check whether "
        "the change was made, then use a new key."
    )


class AnsweredBefore(Exception):
    """The request was answered before. `response` is that answer."""

    def __init__(self, response: Response) -> None:
        self.response = response
        super().__init__("answered before")


def refuse_key() -> serializers.ValidationError:
    sentence = "This operation takes no Idempotency-Key, because its answers hold a secret and are not stored."
    return serializers.ValidationError({HEADER: [sentence]})


def claim(request: Request) -> KeptAnswer:
    """
    Return the new row of the request's key, which has no answer yet.

    Raises:
        AnsweredBefore: the same request was executed before.
        KeyReused: another request had the key.
        KeyInUse: the first request with the key has no answer yet.
        ValidationError: the header is not a valid key.
    """
    key = request.headers[HEADER]
    if not 1 <= len(key) <= _LONGEST or not (key.isascii() and key.isprintable()):
        raise serializers.ValidationError(
            {HEADER: [f"The Idempotency-Key must be 1 to {_LONGEST} printable ASCII characters."]}
        )
    fingerprint = _fingerprint(request)
    user: Any = request.user
    kept, is_new = KeptAnswer.objects.get_or_create(user=user, key=key, defaults={"fingerprint": fingerprint})
    if is_new:
        return kept
    if kept.fingerprint != fingerprint:
        raise KeyReused
    if kept.status is None:
        raise KeyInUse
    raise AnsweredBefore(
        Response(kept.body, status=kept.status, headers={**kept.headers, "Idempotency-Replayed": "true"})
    )


def keep(kept: KeptAnswer, response: Response) -> None:
    """Store this answer for requests with the same key."""
    kept.status = response.status_code
    kept.body = json.loads(json.dumps(response.data, cls=JSONEncoder))
    kept.headers = {name: response.headers[name] for name in _KEPT_HEADERS if name in response.headers}
    kept.save(update_fields=["status", "body", "headers"])


def _fingerprint(request: Request) -> str:
    digest = hashlib.sha256(f"{request.method} {request.get_full_path()}\n".encode())
    digest.update(_body(request))
    return digest.hexdigest()


def _body(request: Request) -> bytes:
    django_request: Any = request._request  # noqa: SLF001 (DRF offers no other access)
    body: bytes = django_request.body
    return body
