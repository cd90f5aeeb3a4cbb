"""
Requests of webmasters for other limits, as signed texts.

Nothing is stored before a proof, so visitors cannot fill a table: the address of a page contains the request. The token
that the webmaster publishes is computed from the request, but the request cannot be computed from the token. So a
visitor who reads the token in the DNS can neither repeat the request nor make another one with the same token.
"""

import datetime as dt
import re
import secrets
from dataclasses import dataclass
from typing import Final

from django.core import signing
from django.utils.crypto import salted_hmac

from jobs.verbs.webmasters import check_gap

_SALT: Final = "crawlctl.webmasters.limit_request"
_PUBLISHED: Final = "crawlctl.webmasters.published"
# Time for which a request is valid.
VALID_FOR: Final = dt.timedelta(days=7)
# Longest text of a request (characters).
_LONGEST: Final = 1_000
_PORT: Final = re.compile(r":\d+$")


class InvalidLimitRequest(Exception):
    """The text is not a request that this server has signed, or the request is too old."""


@dataclass(frozen=True, slots=True)
class LimitRequest:
    """
    A visitor's request for a limit. `gap` is the time between two starts (seconds); None stops all requests to the
    host.

    If it `lifts`, it ends the limit of an earlier request. `text` is its signed form.
    """

    host: str
    gap: float | None
    lifts: bool
    text: str

    @property
    def token(self) -> str:
        """Return the token that proves control when it is published at the host."""
        return salted_hmac(_PUBLISHED, self.text, algorithm="sha256").hexdigest()[:40]


def make(host: str, *, gap: float | None, lifts: bool = False) -> LimitRequest:
    """
    Return a new request. No two requests have the same token.

    Raises:
        Invalid: the gap is out of range.
    """
    check_gap(gap)
    text = signing.dumps([host, gap, lifts, secrets.token_urlsafe(12)], salt=_SALT)
    return LimitRequest(host, gap, lifts, text)


def read(text: str, *, host: str) -> LimitRequest:
    """
    Return the request of a signed text.

    Raises:
        InvalidLimitRequest: the text is not a request for this host, or the request is too old.
    """
    if len(text) > _LONGEST:
        raise InvalidLimitRequest
    try:
        meant, gap, lifts, _nonce = signing.loads(text, salt=_SALT, max_age=VALID_FOR)
    except signing.BadSignature:
        raise InvalidLimitRequest from None
    if meant != host:
        raise InvalidLimitRequest
    return LimitRequest(host, gap, lifts, text)


def name_without_port(host: str) -> str:
    """Return the name of a host, or its address, without its port."""
    return _PORT.sub("", host)


def record_name(host: str) -> str:
    """Return the name of the TXT record that proves control of a host; '' if the host is an address."""
    name = name_without_port(host)
    is_address = name.startswith("[") or name.replace(".", "").isdigit()
    return "" if is_address else f"_crawlctl.{name}"


def record_line(wanted: LimitRequest) -> str:
    """Return the record as a line of a zone file; '' if the host is an address."""
    name = record_name(wanted.host)
    return f'{name}. TXT "{wanted.token}"' if name else ""


def file_path(wanted: LimitRequest) -> str:
    """Return the path of the file that proves control of a host."""
    return f"/.well-known/crawlctl-{wanted.token}.txt"
