"""
Paths of files as identifiers of documents, and back: `file:///srv/data/a%20b.txt`.

A path consists of bytes: a name that an operating system stores need not be text in any encoding. So names are escaped
byte by byte, and a name that is not UTF-8 is preserved. Every path has one identifier: absolute, without `.`, `..` and
double slashes, without a slash at the end.
"""

import os
import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from jobs.connectors.repository.kind import BadIdentifier

_PREFIX: Final = "file://"
# Characters that are not escaped in a path: the characters that RFC 3986, 3.3, permits, and the slash.
_PLAIN: Final = "/!$&'()*+,;=:@"
_DOTS: Final = re.compile(rb"(^|/)\.\.(/|$)")


def identifier_of(path: bytes) -> str:
    """Return the identifier of a normal, absolute path."""
    return _PREFIX + quote(path, safe=_PLAIN)


def path_of(identifier: str) -> bytes:
    """Return the path of an identifier that `identifier_of` or `canonical` returned."""
    return unquote_to_bytes(identifier[len(_PREFIX) :])


def canonical(typed: str) -> str:
    """
    Return the one identifier of the file or directory at this address.

    Raises:
        BadIdentifier: this is not the address of a file on this machine.
    """
    scheme, colon, rest = typed.strip().partition(":")
    if scheme.lower() != "file" or not colon or not rest.startswith("//"):
        raise BadIdentifier(f"{typed!r} is not an address of a file; write file:///path/to/it")
    host, slash, path = rest[2:].partition("/")
    if host.lower() not in {"", "localhost"}:
        raise BadIdentifier(f"{typed!r} is a file of another machine, {host}; mount it and write file:///path/to/it")
    if not slash or "?" in path or "#" in path:
        raise BadIdentifier(f"{typed!r} is not a path; write ? and # in names as %3F and %23")
    return identifier_of(normal_path(unquote_to_bytes("/" + path), typed=typed))


def normal_path(path: bytes, *, typed: str) -> bytes:
    """
    Return the path in its normal form. `..` is refused, not resolved: together with symbolic links it has two meanings.

    Raises:
        BadIdentifier: this is not a valid path of a file.
    """
    if not path.startswith(b"/") or b"\x00" in path:
        raise BadIdentifier(f"{typed!r} is not an absolute path")
    if _DOTS.search(path):
        raise BadIdentifier(f"{typed!r} has .. in its path; write the path without it")
    return b"/" + os.path.normpath(path).lstrip(b"/")


def is_within(path: bytes, directory: bytes) -> bool:
    """True if a normal path is this directory or lies below it."""
    return directory in {path, b"/"} or path.startswith(directory + b"/")


def shown(path: bytes) -> str:
    """Return the path as text for people and patterns. Bytes that are not UTF-8 become U+FFFD."""
    return path.decode("utf-8", "replace")
