"""ETags of resources that can be changed, so that a client changes only what it has seen (RFC 9110, If-Match)."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.http import parse_etags
from rest_framework import exceptions, serializers, status
from rest_framework.utils.encoders import JSONEncoder

_ANY: Final = "*"


class Masked(dict[str, Any]):
    """A shown value with masks in place of secrets. The ETag depends on the value `behind` it."""

    def __init__(self, shown: Mapping[str, Any], *, behind: object) -> None:
        super().__init__(shown)
        self.behind = behind


class PreconditionFailed(exceptions.APIException):
    """The request names an ETag in If-Match that is not the current one. `tag` is the current one, if there is one."""

    status_code = status.HTTP_412_PRECONDITION_FAILED
    default_code = "precondition_failed"

    def __init__(self, tag: str | None) -> None:
        self.tag = tag
        super().__init__(
            "This address has no ETag, so send the request without If-Match."
            if tag is None
            else f"It was changed since you read it. Its ETag is now {tag}. Read it again, and repeat your change."
        )


def changeable_part(serializer: serializers.Serializer[Any], shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """
    Return the fields of a representation that clients may set; None if the representation lacks one of them.

    The other fields change by themselves while a job runs.
    """
    return part_of(shown, [name for name, field in serializer.fields.items() if not field.read_only])


def part_of(shown: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any] | None:
    """Return these fields of a representation; None if the representation lacks one of them."""
    if not all(name in shown for name in names):
        return None
    values = ((name, shown[name]) for name in names)
    return {name: value.behind if isinstance(value, Masked) else value for name, value in values}


def tag_of(representation: object) -> str:
    """Return the strong ETag of a representation."""
    written = json.dumps(representation, cls=JSONEncoder, sort_keys=True, separators=(",", ":"))
    return f'"{hashlib.sha256(written.encode()).hexdigest()[:32]}"'


def accepts_any(header: str) -> bool:
    """True if this If-Match accepts every state of the resource."""
    return parse_etags(header) == [_ANY]


def check_if_match(header: str, tag: str | None) -> None:
    """
    Accept a request whose If-Match names the current ETag or `*`.

    Raises:
        PreconditionFailed: the header names other ETags only, or the resource has none.
    """
    if not accepts_any(header) and tag not in parse_etags(header):
        raise PreconditionFailed(tag)
