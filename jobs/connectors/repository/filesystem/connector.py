"""
A file system as a source: one document is one file or one directory.

    a directory                            DIRECTORY; references its entries, by links of type child
    a file with text                       OK; OK_UNCHANGED if the outputs hold exactly this text
    a file with the same signature         UNCHANGED, not read
    a file with anything else              NOT_TEXT
    a file over the job's limit            TOO_LARGE
    left out by the job's rules            EXCLUDED
    below no root of the connection        OUT_OF_ROOT
    a symbolic link                        SYMLINK; references its target if links are followed
    a pipe, a socket, a device             SPECIAL_FILE
    missing                                NOT_FOUND; removed from the outputs
    not readable for this user             FORBIDDEN; the outputs keep it, unless permissions are its access
    changes while it is read               CHANGING, retried after a second and after five, then failed
    the disk fails, or a root is missing   IO_ERROR, NO_ROOT, retried in the same way

After each of these results except the last three, a document without text is removed from the outputs. A file with the
same signature (time of change, size, inode, and access if the connection reads it) is not read again. Directories are
always read, because the facts of a directory say nothing about the files below it.
"""

import asyncio
import datetime as dt
import functools
import logging
import mimetypes
import pwd
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Final
from zlib import crc32

from jobs.connectors.metadata import LAST_MODIFIED, Metadata, of_page
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.base import Content, Document, RetryLimit, hash_of
from jobs.connectors.repository.filesystem.paths import identifier_of, path_of, shown
from jobs.connectors.repository.filesystem.specification import FileSpecification
from jobs.connectors.repository.filesystem.tree import Directory, File, Found, Link, Tree, TreeError
from jobs.connectors.repository.kind import Pace
from jobs.reading.page import read_page
from jobs.reading.text import Kind, decoded, kind_of

logger = logging.getLogger(__name__)

# Media types by the endings of names. They are added here, because the tables of some machines lack them.
_TYPES: Final = mimetypes.MimeTypes()
for _name, _media_type in {
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".odt": "application/vnd.oasis.opendocument.text",
    ".ods": "application/vnd.oasis.opendocument.spreadsheet",
    ".odp": "application/vnd.oasis.opendocument.presentation",
    ".epub": "application/epub+zip",
    ".msg": "application/vnd.ms-outlook",
}.items():
    _TYPES.add_type(_media_type, _name)

_HTML_NAMES: Final = (".html", ".htm", ".xhtml", ".xht", ".shtml")
# Result codes by which the source states that the document has no text, so that the outputs must not hold one.
_WITHOUT_TEXT: Final = frozenset({"OUT_OF_ROOT", "SYMLINK", "SPECIAL_FILE", "TOO_LARGE"})
_PASSING: Final = frozenset({"CHANGING", "IO_ERROR", "NO_ROOT"})
# Pauses before further attempts after a passing error (seconds). After them the document fails.
_RETRY_DELAYS: Final = (1.0, 5.0)
# Number of bins of each root. A disk needs no politeness, but several workers can share the documents of several bins.
_PARTS: Final = 8


def bin_of(path: bytes, root: bytes) -> str:
    """
    Return the bin of a path. Each root has a few bins, so the files of a large directory are spread over several bins.
    """
    return f"{shown(root)}:{crc32(path) % _PARTS}"


class FileConnector:
    """The connector of one job that reads files. `threads` execute blocking calls."""

    max_depth: Final = None

    def __init__(self, specification: FileSpecification, *, threads: ThreadPoolExecutor) -> None:
        self._specification = specification
        self._threads = threads
        self._rules = specification.rules()
        self._tree = Tree(
            specification.roots, follows_links=specification.follow_links, permissions=specification.permissions
        )

    def interval_of(self, identifier: str) -> float | None:
        return None

    def admits(self, identifier: str) -> bool:
        """True if the job's rules admit this path as a file or as a directory."""
        path = path_of(identifier)
        return self._rules.admits_file(path) or self._rules.admits_directory(path)

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        path = path_of(document.identifier)
        known = document.validators if activity.may_be_conditional else ""
        look = partial(
            self._tree.look,
            path,
            known=known,
            most_bytes=self._specification.max_bytes,
            is_wanted=lambda first: _kind_of(path, first) is not Kind.OTHER or activity.reads(_type_of(path)),
        )
        await pace.before_request()
        activity.record_request()
        began = time.monotonic()
        try:
            found = await asyncio.get_running_loop().run_in_executor(self._threads, look)
        except TreeError as error:
            self._end_without_file(error, document, activity)
            description = error.detail
        else:
            self._end_with(found, path, document, activity)
            description = ""
        assert activity.outcome is not None
        activity.record(
            "fetch",
            began=began,
            seconds=time.monotonic() - began,
            bytes=activity.bytes_read,
            result_code=activity.outcome.code,
            result_description=description,
        )

    def _end_without_file(self, error: TreeError, document: Document, activity: Activity) -> None:
        if error.code == "NOT_FOUND":
            activity.delete(code=error.code)
        elif error.code in _WITHOUT_TEXT:
            activity.no_document(code=error.code)
        elif error.code == "FORBIDDEN" and self._specification.permissions is not None:
            # The new permissions are unknown, so the document leaves the outputs. Otherwise, users with the old
            # permissions would still see it.
            activity.no_document(code=error.code, read=False)
        elif error.code in _PASSING and document.failures < len(_RETRY_DELAYS):
            activity.retry_later(
                code=error.code,
                after=_RETRY_DELAYS[document.failures],
                limit=RetryLimit(attempts=len(_RETRY_DELAYS) + 1),
            )
        else:
            activity.failed(code=error.code)

    def _end_with(self, found: Found, path: bytes, document: Document, activity: Activity) -> None:
        match found:
            case Directory(entries):
                if not self._rules.admits_directory(path):
                    activity.no_document(code="EXCLUDED")
                    return
                for entry in entries:
                    admits = self._rules.admits_directory if entry.is_directory else self._rules.admits_file
                    if entry.path != path and admits(entry.path):
                        self._name(entry.path, activity)
                activity.no_document(code="DIRECTORY")
            case Link(target):
                if target is not None:
                    self._name(target, activity)
                activity.no_document(code="SYMLINK")
            case File():
                _report_origination(found.modified_at, activity)
                if self._rules.admits_file(path):
                    self._end_with_file(found, path, document, activity)
                else:
                    activity.no_document(code="EXCLUDED")

    def _name(self, path: bytes, activity: Activity) -> None:
        root = self._tree.root_of(path)
        if root is None:
            return
        identifier = identifier_of(path)
        activity.reference(identifier=identifier, hash=hash_of(identifier), bin=bin_of(path, root), link_type="child")

    def _end_with_file(self, found: File, path: bytes, document: Document, activity: Activity) -> None:
        if found.body is None:
            activity.unchanged(code="UNCHANGED", read=False)
            return
        activity.record_bytes(len(found.body))
        kind = _kind_of(path, found.body)
        named = _type_of(path)
        if kind is Kind.PLAIN and activity.reads(named, length=len(found.body)):
            # A text that a stage wants to read goes to the stage as bytes. An e-mail is a text, too, and only a stage
            # finds its attachments.
            kind = Kind.OTHER
        media_type = named if kind is Kind.OTHER else "text/html" if kind is Kind.HTML else "text/plain"
        reads_body = activity.reads(media_type, length=len(found.body))
        if not found.is_whole or (kind is Kind.OTHER and not reads_body):
            activity.no_document(code="NOT_TEXT")
            return
        content = replace(_content_of(found, found.body, kind, path, document), access=found.access)
        body = found.body if reads_body else None
        version = activity.version_of(activity.fingerprint_of(content, body))
        if activity.needs_indexing(version):
            activity.ingest(content, code="OK", version=version, validators=found.signature, body=body)
        else:
            activity.unchanged(code="OK_UNCHANGED", validators=found.signature, read=True)


def _report_origination(modified_at: float, activity: Activity) -> None:
    moment = _moment_of(modified_at)
    if moment is not None:
        activity.set_origination(moment)


def _moment_of(modified_at: float) -> dt.datetime | None:
    try:
        return dt.datetime.fromtimestamp(modified_at, dt.UTC)
    except (OverflowError, ValueError, OSError):
        # A file system may store any number as a time, even one outside of the range of dates.
        return None


def _kind_of(path: bytes, first: bytes) -> Kind:
    return kind_of("text/html" if _is_named_html(path) else "", first)


def _type_of(path: bytes) -> str:
    """Return the media type that the name of a file suggests."""
    return _TYPES.guess_type(shown(path))[0] or "application/octet-stream"


def _is_named_html(path: bytes) -> bool:
    return shown(path).lower().endswith(_HTML_NAMES)


def _content_of(file: File, body: bytes, kind: Kind, path: bytes, document: Document) -> Content:
    name = shown(path.rpartition(b"/")[2])
    if kind is Kind.OTHER:
        return Content(document.identifier, name, "", "", _type_of(path), "", metadata=_metadata_of(file, {}))
    text = decoded(body, "")
    if kind is Kind.PLAIN:
        return Content(document.identifier, name, "", text.strip(), "text/plain", "", metadata=_metadata_of(file, {}))
    # Robots directives in the page are ignored, because the operator has requested a crawl of this directory.
    page = read_page(text, robots_name="")
    return Content(
        document.identifier,
        page.title or name,
        page.description,
        page.text,
        "text/html",
        page.language,
        metadata=_metadata_of(file, of_page(page.named)),
    )


def _metadata_of(file: File, metadata: Metadata) -> Metadata:
    found = {**metadata, "owner": (_name_of_owner(file.owner),)}
    if (moment := _moment_of(file.modified_at)) is not None:
        found[LAST_MODIFIED] = (moment.isoformat(timespec="seconds"),)
    return found


@functools.lru_cache(maxsize=1_000)
def _name_of_owner(number: int) -> str:
    """Return the name of the user with this number on this machine, or the number if there is no such user."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)
