"""
Wishes of webmasters for other limits, as signed texts.

Nothing is stored before a proof, so visitors cannot fill a table. A wish is in the address of its page. The token that
the webmaster publishes is computed from the wish, but the wish cannot be computed from the token. So a visitor who
reads the token in the DNS can neither repeat the wish nor make another one.
"""

import datetime as dt
import re
import secrets
from dataclasses import dataclass
from typing import Final

from django.core import signing
from django.utils.crypto import salted_hmac

from jobs.verbs.webmasters import check_gap

_SALT: Final = "crawlctl.webmasters.wish"
_PUBLISHED: Final = "crawlctl.webmasters.published"
# Time for which a wish is valid.
VALID_FOR: Final = dt.timedelta(days=7)
# Longest text of a wish (characters).
_LONGEST: Final = 1_000
_PORT: Final = re.compile(r":\d+$")


class NoWish(Exception):
    """The text is not a wish of this server, or it is too old."""


@dataclass(frozen=True, slots=True)
class Wish:
    """
    A limit that a visitor asks for. `gap` is the time between two starts (seconds), or None for no requests at all.

    A wish that `lifts` ends the limit of an earlier wish. `text` is its signed form.
    """

    host: str
    gap: float | None
    lifts: bool
    text: str

    @property
    def token(self) -> str:
        """Return the token that proves control when it is published at the host."""
        return salted_hmac(_PUBLISHED, self.text, algorithm="sha256").hexdigest()[:40]


def make(host: str, *, gap: float | None, lifts: bool = False) -> Wish:
    """
    Return a new wish, with a token of its own.

    Raises:
        Invalid: the gap is out of range.
    """
    check_gap(gap)
    text = signing.dumps([host, gap, lifts, secrets.token_urlsafe(12)], salt=_SALT)
    return Wish(host, gap, lifts, text)


def read(text: str, *, host: str) -> Wish:
    """
    Return the wish of a signed text.

    Raises:
        NoWish: the text is not a wish for this host, or it is too old.
    """
    if len(text) > _LONGEST:
        raise NoWish
    try:
        meant, gap, lifts, _nonce = signing.loads(text, salt=_SALT, max_age=VALID_FOR)
    except signing.BadSignature:
        raise NoWish from None
    if meant != host:
        raise NoWish
    return Wish(host, gap, lifts, text)


def name_without_port(host: str) -> str:
    """Return the name of a host, or its address, without its port."""
    return _PORT.sub("", host)


def record_name(host: str) -> str:
    """Return the name of the TXT record that proves control of a host; '' if the host is an address."""
    name = name_without_port(host)
    is_address = name.startswith("[") or name.replace(".", "").isdigit()
    return "" if is_address else f"_crawlctl.{name}"


def record_line(wish: Wish) -> str:
    """Return the record as a line of a zone file; '' if the host is an address."""
    name = record_name(wish.host)
    return f'{name}. TXT "{wish.token}"' if name else ""


def file_path(wish: Wish) -> str:
    """Return the path of the file that proves control of a host."""
    return f"/.well-known/crawlctl-{wish.token}.txt"
