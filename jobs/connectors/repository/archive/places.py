"""
Places of archives as identifiers of documents, and back.

    archive:///srv/data                      a folder: all archive files below it
    archive:///srv/data/*.warc.gz            a pattern: * stops at a slash, ** does not
    archive:///srv/data/a.warc.gz            a file, and its first part
    archive:///srv/data/a.warc.gz#4194304    the part of a file that begins at this offset

Paths are escaped like paths of files. An asterisk in the name of a file is escaped, so the address is not a pattern.
"""

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, unquote, unquote_to_bytes

from jobs.connectors.repository.filesystem.paths import normal_path
from jobs.connectors.repository.kind import BadIdentifier

PREFIX: Final = "archive://"
# Characters that are not escaped in a path: the characters that RFC 3986, 3.3, permits, and the slash, but not the
# asterisk.
_PLAIN: Final = "/!$&'()+,;=:@"


@dataclass(frozen=True, slots=True)
class Place:
    """
    A folder, a file or a part of one. If it has a `pattern`, the place is the set of files below the folder `path` that
    match the pattern.
    """

    path: bytes
    pattern: str = ""
    start: int = 0

    @property
    def identifier(self) -> str:
        if self.pattern:
            slash = "" if self.path == b"/" else "/"
            return f"{PREFIX}{quote(self.path, safe=_PLAIN)}{slash}{quote(self.pattern, safe=_PLAIN + '*')}"
        return f"{PREFIX}{quote(self.path, safe=_PLAIN)}{f'#{self.start}' if self.start else ''}"


def is_place(identifier: str) -> bool:
    """True for the identifier of a place, False for the address of an archived page."""
    return identifier.startswith(PREFIX)


def read_place(typed: str) -> Place:
    """
    Return the place that an address means.

    Raises:
        BadIdentifier: this is not the address of an archive on this machine.
    """
    scheme, colon, rest = typed.strip().partition(":")
    if scheme.lower() != "archive" or not colon or not rest.startswith("//"):
        raise BadIdentifier(f"{typed!r} is not an address of an archive. Write archive:///path/to/it.")
    host, slash, path = rest[2:].partition("/")
    if host.lower() not in {"", "localhost"}:
        raise BadIdentifier(
            f"{typed!r} is an archive of another machine, {host}. Mount it and write archive:///path/to/it."
        )
    path, mark, start = path.partition("#")
    if not slash or "?" in path or (mark and not (start.isascii() and start.isdigit() and len(start) < 16)):
        raise BadIdentifier(f"{typed!r} is not a path. Write ? and # in names as %3F and %23.")
    above, star, below = path.partition("*")
    if not star:
        return Place(normal_path(unquote_to_bytes("/" + path), typed=typed), start=int(start or 0))
    folder, _, begin = above.rpartition("/")
    pattern = unquote(begin + star + below)
    if ".." in pattern.split("/") or mark:
        raise BadIdentifier(f"{typed!r} is not a pattern. A pattern has no .. and no offset.")
    return Place(normal_path(unquote_to_bytes("/" + folder), typed=typed), pattern)
