"""
Archives as a source: a document is a folder, a file or a part of one, or an archived page. No request is sent.

    a folder, a pattern                    DIRECTORY; references its files, by links of type part
    a part of a file                       ARCHIVE; references its pages by links of type record, and the next part
    a part with damaged records            ARCHIVE_DAMAGED; references the pages of the other records
    the same file as before                UNCHANGED, not read; also a page if its newest answer is the same
    something else                         NOT_ARCHIVE; NOT_BY_RECORD if all records are in one gzip member
    missing                                NOT_FOUND

    a page whose newest answer is 2xx      200, as the web connector reads it
    one whose newest answer is 404 or 410  its status; removed from the outputs
    one that redirects                     REDIRECT; removed from the outputs
    no text, noindex, refused by rules     as on the web
    no answer can be read                  TRUNCATED, NO_ORIGINAL, BAD_RECORD, TOO_LARGE, INCOMPLETE; the outputs keep it

Parts carry the locations of answers to their pages. A page therefore knows its answers in all files, and the newest one
that can be read decides. If a part carries a new location, the page is due again.
"""

import asyncio
import logging
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final
from zlib import crc32

from jobs.archive.scanning import NotByRecord
from jobs.connectors.repository.activity import Activity
from jobs.connectors.repository.archive.answers import Answers, Unusable
from jobs.connectors.repository.archive.known_pages import KnownPage
from jobs.connectors.repository.archive.library import Library
from jobs.connectors.repository.archive.locations import Location
from jobs.connectors.repository.archive.originals import Originals
from jobs.connectors.repository.archive.parts import KnownPart, ReadPart, read_part
from jobs.connectors.repository.archive.places import Place, is_place, read_place
from jobs.connectors.repository.archive.specification import ArchiveSpecification
from jobs.connectors.repository.base import Document, RetryLimit, hash_of
from jobs.connectors.repository.filesystem.tree import TreeError
from jobs.connectors.repository.kind import Pace
from jobs.connectors.repository.web.fetch import Response
from jobs.connectors.repository.web.limits import DEFAULT_LIMITS, Limits
from jobs.connectors.repository.web.links import LinkTable
from jobs.connectors.repository.web.reading import PageReader
from jobs.connectors.repository.web.urls import BadUrl, canonical

logger = logging.getLogger(__name__)

# Name of the value that parts carry to pages: the locations of their answers.
_AT: Final = "at"
_PASSING: Final = frozenset({"CHANGING", "IO_ERROR", "NO_ROOT"})
_WITHOUT_CONTENT: Final = frozenset({"OUT_OF_ROOT", "SYMLINK", "SPECIAL_FILE"})
# Pauses before further attempts after a passing error (seconds). After them the document fails.
_RETRY_DELAYS: Final = (1.0, 5.0)
# Number of bins over which files are spread, and number of bins over which pages are spread (decision 0085).
_BINS_OF_FILES: Final = 8
_BINS_OF_PAGES: Final = 32
_GONE: Final = frozenset({404, 410})


def bin_of_file(path: bytes) -> str:
    """Return the bin of a folder, and of all parts of a file."""
    return f"archive-files:{crc32(path) % _BINS_OF_FILES}"


def bin_of_page(url: str) -> str:
    """Return the bin of an archived page. The bin does not depend on the files that have its answers."""
    return f"archived-pages:{crc32(url.encode()) % _BINS_OF_PAGES}"


class ArchiveConnector:
    """The connector of one job that reads archives. `threads` execute blocking calls."""

    max_depth: Final = None

    def __init__(
        self, specification: ArchiveSpecification, *, threads: ThreadPoolExecutor, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._specification = specification
        self._threads = threads
        self._library = Library(specification.roots)
        self._answers = Answers(self._library, Originals(self._library, specification.seeds), limits=limits)
        self._reader = PageReader(
            LinkTable(admits=specification.scope.admits, is_near=specification.scope.is_near, limits=limits),
            robots_name=specification.robots_name,
            limits=limits,
        )

    def interval_of(self, identifier: str) -> float | None:
        return None

    def admits(self, identifier: str) -> bool:
        """True if the job's rules admit this archived page. They do not apply to files."""
        return is_place(identifier) or self._specification.scope.admits(identifier)

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None:
        began = time.monotonic()
        await pace.before_request()
        description = ""
        try:
            if is_place(document.identifier):
                description = await self._process_place(read_place(document.identifier), document, activity)
            else:
                await self._process_page(document, activity)
        except TreeError as error:
            description = error.detail
            self._end_unread(error.code, document, activity)
        except Unusable as unusable:
            description = unusable.detail
            self._end_unread(unusable.code, document, activity)
        assert activity.outcome is not None
        activity.record(
            "fetch",
            began=began,
            seconds=time.monotonic() - began,
            bytes=activity.bytes_read,
            result_code=activity.outcome.code,
            result_description=description,
        )

    async def _process_place(self, place: Place, document: Document, activity: Activity) -> str:
        """Process a folder or a part, and return a description for the history."""
        in_thread = asyncio.get_running_loop().run_in_executor
        if place.pattern or (not place.start and await in_thread(self._threads, self._library.is_folder, place.path)):
            for path in await in_thread(self._threads, list, self._library.files_at(place)):
                self._refer_to_part(Place(path), activity)
            activity.no_document(code="DIRECTORY")
            return ""
        activity.record_request()
        configuration = activity.configuration
        known = KnownPart.read(document.validators, configuration=configuration)
        work = partial(read_part, self._library, place, known, configuration=configuration)
        try:
            read = await in_thread(self._threads, work)
        except NotByRecord as error:
            activity.no_document(code="NOT_BY_RECORD")
            return str(error)
        if read is None:
            activity.no_document(code="NOT_ARCHIVE")
            return ""
        return self._end_part(read, place, activity)

    def _end_part(self, read: ReadPart, place: Place, activity: Activity) -> str:
        known, part = read.known, read.part
        activity.record_bytes(read.size)
        if part is None:
            code = "UNCHANGED" if known.code == "ARCHIVE" else known.code
            activity.no_document(code=code, read=False, validators=known.stored)
            return ""
        if known.has_next:
            self._refer_to_part(Place(place.path, start=known.end), activity)
        refused = 0
        carried: dict[str, list[Location]] = {}
        for found in part.found:
            try:
                url = canonical(found.url)
            except BadUrl:
                refused += 1
                continue
            if self._specification.wants(found) and self._specification.scope.admits(url):
                carried.setdefault(url, []).append(Location.of(found, place.path))
        for url, locations in carried.items():
            activity.reference(
                identifier=url,
                hash=hash_of(url),
                bin=bin_of_page(url),
                link_type="record",
                carry={_AT: [location.text for location in _needed(locations)]},
            )
        activity.no_document(code=known.code, validators=known.stored)
        torn = (
            " The rest of the file is not read: a record is incomplete, or too many are damaged."
            if part.is_torn
            else ""
        )
        return f"{part.records} records, {len(part.found)} answers, {part.bad} damaged, {refused} without an address.{torn}"

    def _refer_to_part(self, place: Place, activity: Activity) -> None:
        activity.reference(
            identifier=place.identifier,
            hash=hash_of(place.identifier),
            bin=bin_of_file(place.path),
            link_type="part",
        )

    async def _process_page(self, document: Document, activity: Activity) -> None:
        if not self.admits(document.identifier):
            activity.refuse(code="OUT_OF_SCOPE")
            return
        locations = sorted(map(Location.read, activity.carried(_AT)), reverse=True)
        if not locations:
            activity.delete(code="NOT_FOUND")
            return
        newest = locations[0]
        activity.set_origination(newest.date)
        if newest.status in _GONE:
            activity.delete(code=str(newest.status))
            return
        if 300 <= newest.status < 400 and not newest.may_be_read:
            activity.no_document(code="REDIRECT")
            return
        known = KnownPage.read(document.validators)
        if known is not None and known.holds(newest, configuration=activity.configuration):
            if known.code:
                activity.no_document(code=known.code, read=False, validators=document.validators)
                return
            if activity.may_be_conditional:
                activity.unchanged(code="UNCHANGED", read=False)
                return
        activity.record_request()
        location, response = await self._first_usable(locations, activity)
        activity.record_bytes(response.bytes_read)
        self._end_page(location, response, document, activity)

    async def _first_usable(self, locations: Sequence[Location], activity: Activity) -> tuple[Location, Response]:
        """
        Return the newest answer that can be read.

        Raises:
            Unusable: no answer can be read. The error is that of the newest.
        """
        first: Unusable | None = None
        for at, location in enumerate(locations):
            if not location.may_be_read:
                continue
            work = partial(self._answers.read, location, locations[at + 1 :], reads=activity.reads)
            try:
                return location, await asyncio.get_running_loop().run_in_executor(self._threads, work)
            except Unusable as unusable:
                first = first or unusable
        raise first or Unusable("NOT_FOUND")

    def _end_page(self, location: Location, response: Response, document: Document, activity: Activity) -> None:
        known = KnownPage(activity.configuration, location.text)
        page = self._reader.read(response, document, follows_links=False, reads=activity.reads)
        if page is None:
            refused: str | None = "NOT_TEXT"
        elif page.robots.noindex:
            refused = "NOINDEX"
        else:
            refused = self._specification.index_rules.why_not(page.content, length=len(response.body))
        if refused is not None or page is None:
            known = KnownPage(activity.configuration, location.text, refused or "")
            activity.no_document(code=refused or "", validators=known.stored)
            return
        fingerprint = activity.fingerprint_of(page.content, page.body)
        version = activity.version_of(f"{location.date.isoformat()}-{fingerprint}")
        if activity.needs_indexing(version):
            activity.ingest(
                page.content,
                code=str(response.status),
                version=version,
                validators=known.stored,
                body=page.body,
                charset=page.charset,
            )
        else:
            activity.unchanged(code="OK_UNCHANGED", validators=known.stored, read=True)

    def _end_unread(self, code: str, document: Document, activity: Activity) -> None:
        if code == "NOT_FOUND" and is_place(document.identifier):
            activity.delete(code=code)
        elif code in _WITHOUT_CONTENT and is_place(document.identifier):
            activity.no_document(code=code)
        elif code in _PASSING and document.failures < len(_RETRY_DELAYS):
            limit = RetryLimit(attempts=len(_RETRY_DELAYS) + 1)
            activity.retry_later(code=code, after=_RETRY_DELAYS[document.failures], limit=limit)
        else:
            activity.failed(code=code)


def _needed(locations: Sequence[Location]) -> list[Location]:
    """
    Return the newest of these answers of a page. If its record has no body, also return the newest answer with a body.
    """
    newest = max(locations)
    bodies = [location for location in locations if location.has_body]
    return [newest] if not bodies or newest.has_body else [newest, max(bodies)]
