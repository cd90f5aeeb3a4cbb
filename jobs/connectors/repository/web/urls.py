"""
The canonical form of a web address: two addresses with one form are one document.

A WHATWG parser (ada) parses the address, so everything that a browser accepts is accepted with the same meaning:
spaces, backslashes, international names, odd spellings of IPv4, dot segments. The result is the parser's serialisation
with these changes:

- only http and https; the fragment and any user name and password are dropped;
- the default port is dropped (by the parser), and an empty path is `/`;
- one trailing dot of the host is dropped: the DNS has the same name without the dot, so the bin must be the same;
- escapes are in upper case, and escaped letters, digits and `-._~` are written as they are (RFC 3986, 6.2.2);
- an empty query is dropped: HTTP clients, also ours, send `/?` as `/`, so the page would be fetched twice;
- nothing else: the query keeps its order, and no parameter is assumed to be without effect.

Refused with a reason: other schemes, an empty host label, port 0, more than the limits allow.

Most links need no parser. They are already in canonical form, or get it when their path is appended to the path of the
page. One expression (`_PLAIN`) recognizes them. It matches no address that the parser would change.
"""

import re
from typing import Final

from ada_url import join_url, normalize_url

from jobs.connectors.repository.kind import BadIdentifier
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits

# Longest input of the parser (characters). Line breaks and dot segments may shrink an address a great deal, but a
# megabyte is an attack.
_MOST_CHARACTERS_PARSED: Final = 65_536

_ESCAPE: Final = re.compile(r"%([0-9A-Fa-f]{2})")
_PARTS: Final = re.compile(r"([/\\?#])")
_UNRESERVED: Final = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~")

# An address in canonical form. Its host has lower-case labels, of which the last is not a number, or four numbers. Its
# port cannot be a default. Its path has no escapes, and no segment begins with a dot. Its query, if any, is not empty,
# and needs no escape.
_OF_AN_ADDRESS: Final = "(?: 25[0-5] | 2[0-4][0-9] | 1[0-9][0-9] | [1-9]?[0-9] )"
_PLAIN: Final = re.compile(
    rf"""https?://
        (?: (?: (?!xn--) [a-z0-9] [a-z0-9-]* \. )* (?!xn--) [a-z] [a-z0-9-]*
          | (?: {_OF_AN_ADDRESS} \. ){{3}} {_OF_AN_ADDRESS} )
        (?: : (?: [1-9][0-9]{{3}} | [1-5][0-9]{{4}} ) )?
        (?: / (?: [A-Za-z0-9_~!$&()*+,;=:@-] [A-Za-z0-9_~!$&()*+,;=:@.-]* )? )+
        (?: \? [A-Za-z0-9_~!$&()*+,;=:@./-]+ )?""",
    re.VERBOSE | re.ASCII,
)
# A path relative to the page's directory or to a directory above it. It cannot contain a scheme.
_PLAIN_PATH: Final = re.compile(r"(?P<up>(?:\.\./)*)(?P<path>[A-Za-z0-9_~-][A-Za-z0-9_~./-]*)", re.ASCII)
_UP: Final = len("../")
_SLASHES_OF_A_ROOT: Final = "http://host/".count("/")


class BadUrl(BadIdentifier):
    """An address that names no web document. `reason` is a phrase. Neither `reason` nor `url` contains a password."""

    def __init__(self, url: str, reason: str) -> None:
        self.url, self.reason = without_userinfo(url)[:200], reason
        super().__init__(f"{self.url!r}: {reason}")


class OverLimit(BadUrl):
    """A web address that is longer or deeper than the limits allow. It is probably a trap for crawlers."""


def canonical(url: str, base: str | None = None, *, limits: Limits = DEFAULT_LIMITS) -> str:
    """
    Return the canonical form of this address. A relative address is resolved against `base`, which must be canonical.

    Raises:
        BadUrl: the address cannot be parsed, or is not of the web.
        OverLimit: the address is longer or deeper than the limits allow.
    """
    if len(url) > _MOST_CHARACTERS_PARSED:
        raise OverLimit(url, f"longer than {limits.url_characters} characters")
    plain = url if base is None else _joined_as_text(url, base)
    if _PLAIN.fullmatch(plain) and len(plain) <= limits.url_characters and plain.count("/") <= limits.path_segments:
        return plain
    try:
        read = normalize_url(url) if base is None else join_url(base, url)
    except ValueError:
        raise BadUrl(url, _why_no_address(url)) from None

    scheme, _, rest = read.partition("://")
    if scheme not in {"http", "https"}:
        raise BadUrl(url, "not an http or https address")
    if "#" in rest:
        rest = rest[: rest.index("#")]
    if rest[-1:] == "?" and rest.count("?") == 1:
        rest = rest[:-1]
    authority, _, path = rest.partition("/")
    authority = _plain_authority(url, authority)
    if "%" in path:
        path = _with_normal_escapes(path)

    result = f"{scheme}://{authority}/{path}"
    if len(result) > limits.url_characters:
        raise OverLimit(url, f"longer than {limits.url_characters} characters")
    if result.count("/") > limits.path_segments and _segments(path) > limits.path_segments:
        raise OverLimit(url, f"more than {limits.path_segments} path segments")
    return result


def origin_of(url: str) -> str:
    """Return the scheme, host and port of a canonical address: the range of one robots.txt."""
    return url[: url.index("/", 8)]


def bin_of(url: str) -> str:
    """
    Return the host, with its port if that is not the default of the scheme: the unit of politeness.

    So http on port 80 and https on port 443 of one host share a bin, because they reach one machine.
    """
    start = 7 if url[4] == ":" else 8
    return url[start : url.index("/", start)]


def host_and_port(url: str) -> tuple[str, int]:
    """Return the host name (an IPv6 address in brackets) and the port of a canonical address."""
    authority = bin_of(url)
    host, colon, port = authority.rpartition(":")
    if colon and not port.endswith("]"):
        return host, int(port)
    return authority, 80 if url[4] == ":" else 443


def without_parameters(url: str, names: frozenset[str]) -> str:
    """Return a canonical address without these parameters of its query, whose names are in lower case."""
    if not names:
        return url
    before, mark, query = url.partition("?")
    if not mark:
        return url
    kept = "&".join(part for part in query.split("&") if part.partition("=")[0].lower() not in names)
    return f"{before}?{kept}" if kept else before


def directory_of(url: str) -> str:
    """Return a canonical address up to the last slash of its path."""
    path, _, _ = url.partition("?")
    return path[: path.rindex("/") + 1]


# User name and password of an entered address. A file path has none, and may contain an @.
_TYPED_USERINFO: Final = re.compile(r"^(\s*(?!file:)[a-z][a-z0-9+.-]*:[/\\]*)[^/\\?#]*@", re.IGNORECASE)


def typed_without_userinfo(typed: str) -> str:
    """Return an entered address without user name and password; any other text as it is."""
    return _TYPED_USERINFO.sub(r"\1", typed) if "@" in typed else typed


def without_userinfo(url: str) -> str:
    """Return the text of an address, well-formed or not, without the part before an @ between two slashes."""
    return "".join(piece.rpartition("@")[2] for piece in _PARTS.split(url[:_MOST_CHARACTERS_PARSED]))


def _joined_as_text(url: str, base: str) -> str:
    """Return the address joined with its base by text operations; '' if only the parser can join them."""
    if url.startswith("http"):
        return url
    try:
        if url[:1] == "/":
            return origin_of(base) + url if url[:2] != "//" else ""
        read = _PLAIN_PATH.fullmatch(url)
        if read is None:
            return ""
        directory = directory_of(base)
        steps_up = len(read["up"]) // _UP
        if directory.count("/") < _SLASHES_OF_A_ROOT + steps_up:
            return ""
        for _ in range(steps_up):
            directory = directory[: directory.rindex("/", 0, -1) + 1]
    except ValueError:
        return ""
    return directory + read["path"]


def _why_no_address(typed: str) -> str:
    if not is_unicode(typed):
        return "not valid Unicode"
    return "not an address" if "://" in typed else "not an address that starts with http:// or https://"


def is_unicode(text: str) -> bool:
    """True if the text can be encoded: it has no lone surrogate."""
    return not any("\ud800" <= character <= "\udfff" for character in text)


def _plain_authority(url: str, authority: str) -> str:
    """Return the authority without user name, password and trailing dot."""
    if "@" in authority:
        authority = authority[authority.rindex("@") + 1 :]
    if "." not in authority and ":" not in authority:
        if not authority:
            raise BadUrl(url, "no host")
        return authority
    host, port = authority, ""
    if not host.endswith("]") and ":" in host:
        host, _, digits = authority.rpartition(":")
        port = f":{digits}"
        if digits == "0":
            raise BadUrl(url, "port 0")
    host = host.removesuffix(".")
    if not host or host[0] == "." or host[-1] == "." or ".." in host:
        raise BadUrl(url, "an empty label in the host name")
    return host + port


def _with_normal_escapes(path: str) -> str:
    plain = _ESCAPE.sub(_normal_escape, path)
    # '%%37e' would become '%7e', which is the form of another address. So such escapes stay as they are.
    if _ESCAPE.sub(_normal_escape, plain) != plain:
        return _ESCAPE.sub(lambda escape: escape[0].upper(), path)
    return plain


def _normal_escape(escape: re.Match[str]) -> str:
    character = chr(int(escape[1], 16))
    return character if character in _UNRESERVED else escape[0].upper()


def _segments(path: str) -> int:
    path, _, _ = path.partition("?")
    return path.count("/") + (path != "" and not path.endswith("/"))
