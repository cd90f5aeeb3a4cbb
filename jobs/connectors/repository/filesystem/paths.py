"""
Paths of files as identifiers of documents, and back: `file:///srv/data/a%20b.txt`.

A path is bytes: what an operating system stores as a name need not be text in any encoding. So names are
escaped byte by byte, and the one that is not UTF-8 comes back as it was. Every path has one identifier:
absolute, without `.`, `..` and double slashes, without a slash at the end.
"""

import os
import re
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from jobs.connectors.repository.kind import BadIdentifier

_PREFIX: Final = "file://"
# What may stand in a path of an address as it is (RFC 3986, 3.3), and the slash.
_PLAIN: Final = "/!$&'()*+,;=:@"
_DOTS: Final = re.compile(rb"(^|/)\.\.(/|$)")


def identifier_of(path: bytes) -> str:
    """The identifier of a normal, absolute path."""
    return _PREFIX + quote(path, safe=_PLAIN)


def path_of(identifier: str) -> bytes:
    """The path of an identifier that `identifier_of` or `canonical` gave."""
    return unquote_to_bytes(identifier[len(_PREFIX) :])


def canonical(typed: str) -> str:
    """
    The one identifier of the file or directory that this address means.

    Raises:
        BadIdentifier: it is no address of a file of this machine.
    """
    scheme, colon, rest = typed.strip().partition(":")
    if scheme.lower() != "file" or not colon or not rest.startswith("//"):
        raise BadIdentifier(f"{typed!r} is no address of a file; write file:///path/to/it")
    host, slash, path = rest[2:].partition("/")
    if host.lower() not in {"", "localhost"}:
        raise BadIdentifier(f"{typed!r} is a file of another machine, {host}; mount it and write file:///path/to/it")
    if not slash or "?" in path or "#" in path:
        raise BadIdentifier(f"{typed!r} is no path; write ? and # in names as %3F and %23")
    return identifier_of(normal_path(unquote_to_bytes("/" + path), typed=typed))


def normal_path(path: bytes, *, typed: str) -> bytes:
    """
    The path in its one form. `..` is refused, not taken away: beside symbolic links it has two meanings.

    Raises:
        BadIdentifier: it cannot be the path of a file.
    """
    if not path.startswith(b"/") or b"\x00" in path:
        raise BadIdentifier(f"{typed!r} is no absolute path")
    if _DOTS.search(path):
        raise BadIdentifier(f"{typed!r} has .. in its path; write where that leads")
    return b"/" + os.path.normpath(path).lstrip(b"/")


def is_within(path: bytes, directory: bytes) -> bool:
    """Whether a normal path is this directory or lies below it."""
    return directory in {path, b"/"} or path.startswith(directory + b"/")


def shown(path: bytes) -> str:
    """The path for people and patterns; bytes that are no UTF-8 are shown as U+FFFD."""
    return path.decode("utf-8", "replace")
