"""
Cookies of a login: parsing (RFC 6265, section 5), and the selection for a request.

The expiry of a cookie is not stored, because the login page shows that a session has ended. A cookie that a server
deletes is removed.
"""

import email.utils
import json
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Final, Self
from urllib.parse import urlsplit

from jobs.connectors.repository.web.suffixes import is_public_suffix

_MOST_COOKIES: Final = 100
_MOST_CHARACTERS: Final = 4096
_SECONDS: Final = re.compile(r"-?[0-9]+")


@dataclass(frozen=True, slots=True)
class Cookie:
    """`host` is the name that set the cookie, or its domain. If `is_for_domain`, names below it get the cookie too."""

    name: str
    value: str = field(repr=False)
    host: str
    is_for_domain: bool
    path: str
    is_secure: bool

    @property
    def identity(self) -> tuple[str, str, str]:
        return self.name, self.host, self.path

    def goes_to(self, *, scheme: str, host: str, path: str) -> bool:
        """True if a request for this address must have this cookie."""
        if self.is_secure and scheme != "https":
            return False
        if host != self.host and not (self.is_for_domain and host.endswith(f".{self.host}")):
            return False
        below = self.path if self.path.endswith("/") else f"{self.path}/"
        return path == self.path or path.startswith(below)


@dataclass(frozen=True, slots=True)
class Cookies:
    """The cookies set so far, as a value."""

    held: tuple[Cookie, ...] = ()

    @classmethod
    def read(cls, stored: str) -> Self:
        """Return the cookies in a text that `stored` returned."""
        return cls(tuple(Cookie(**facts) for facts in json.loads(stored)))

    def stored(self) -> str:
        return json.dumps([asdict(cookie) for cookie in self.held])

    def with_those_of(self, url: str, headers: Iterable[str]) -> "Cookies":
        """
        Return these cookies with the changes of an answer from this address. `headers` are the values of its Set-Cookie
        headers.
        """
        held = {cookie.identity: cookie for cookie in self.held}
        for header in headers:
            cookie, is_over = _cookie_in(header, url)
            if cookie is not None:
                held.pop(cookie.identity, None)
                if not is_over and len(held) < _MOST_COOKIES:
                    held[cookie.identity] = cookie
        return Cookies(tuple(held.values()))

    def header_for(self, url: str) -> str:
        """Return the value of a request's header Cookie; "" without cookies. Longer paths come first."""
        parts = urlsplit(url)
        chosen = [
            cookie
            for cookie in self.held
            if cookie.goes_to(scheme=parts.scheme, host=parts.hostname or "", path=parts.path or "/")
        ]
        chosen.sort(key=lambda cookie: -len(cookie.path))
        return "; ".join(f"{cookie.name}={cookie.value}" for cookie in chosen)


def _cookie_in(header: str, url: str) -> tuple[Cookie | None, bool]:
    """Return the cookie of one Set-Cookie header (None if it is refused), and True if the header deletes it."""
    first, *attributes = header.split(";")
    name, is_pair, value = first.partition("=")
    name, value = name.strip(), value.strip()
    if not is_pair or not name or len(first) > _MOST_CHARACTERS or not first.isprintable() or not first.isascii():
        return None, False
    said = {key.strip().lower(): text.strip() for key, _, text in (part.partition("=") for part in attributes)}
    parts = urlsplit(url)
    host = parts.hostname or ""
    domain = said.get("domain", "").lower().removeprefix(".")
    if domain == host and is_public_suffix(domain):
        # A host that is a public suffix may set cookies for itself, but not for the names below it (RFC 6265, section
        # 5.3).
        domain = ""
    if domain and domain != host and (_is_address(host) or not host.endswith(f".{domain}") or is_public_suffix(domain)):
        return None, False
    path = said.get("path", "")
    cookie = Cookie(
        name=name,
        value=value,
        host=domain or host,
        is_for_domain=bool(domain) and not _is_address(host),
        path=path if path.startswith("/") else _directory_of(parts.path),
        is_secure="secure" in said,
    )
    return cookie, _is_over(said)


def _is_address(host: str) -> bool:
    """True if a host is an IP address. There are no names below an address, so it cannot have cookies for them."""
    return ":" in host or host.replace(".", "").isdigit()


def _directory_of(path: str) -> str:
    return path[: path.rfind("/")] or "/"


def _is_over(said: dict[str, str]) -> bool:
    if _SECONDS.fullmatch(age := said.get("max-age", "")):
        return int(age[:12]) <= 0
    try:
        # A server's clock may differ from ours. So a cookie is deleted only if its expiry is before the year 2000.
        return email.utils.parsedate_to_datetime(said.get("expires", "")).year < 2000
    except (ValueError, TypeError, IndexError, OverflowError):
        return False
