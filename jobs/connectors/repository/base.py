"""
The contract between the crawl and a kind of source.

A repository connector is given documents one at a time and says what became of each through an
`Activity`: ManifoldCF's contract (`needs_indexing`, `ingest`, `no_document`, `delete`, `reference`,
`retry_later`), async. The activity turns what was said into one `Outcome`, a value that the flush
writes; a connector never sees the queue.

Exactly one *ending* is said for each document: `ingest`, `unchanged`, `no_document`, `delete`,
`failed`, `retry_later` or `give_back`. References may be added before it. A document that ends
without having been read (`unchanged(read=False)`, `failed`) keeps the links that are stored for it.
"""

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol


class Ending(enum.IntEnum):
    """What became of a document; the classes that a job's counts speak of."""

    INDEXED = 1
    UNCHANGED = 2
    FAILED = 3
    EXCLUDED = 4
    # These two leave the document in the queue.
    RETRY = 5
    GIVEN_BACK = 6


@dataclass(frozen=True, slots=True)
class Document:
    """
    One document as a worker takes it.

    `hash` is 32 hex digits. `version` is what the outputs hold, '' when that is nothing or unknown;
    `validators` is what the connector gave with it (for the web: ETag and Last-Modified), '' when
    the fetch must be unconditional. `failures` counts attempts in a row that ended in a retry,
    `failing_for` seconds since the first of them. `redirects` counts those that led here.
    """

    hash: str
    identifier: str
    depth: int
    redirects: int
    version: str
    validators: str
    failures: int
    failing_for: float


@dataclass(frozen=True, slots=True)
class Content:
    """What an output is given: the text of one document and what is known about it."""

    url: str
    title: str
    description: str
    text: str
    content_type: str
    language: str


@dataclass(frozen=True, slots=True)
class Reference:
    """An identifier that a document names. A redirect is no link: it keeps the depth."""

    hash: str
    identifier: str
    bin: str
    depth: int
    redirects: int


@dataclass(slots=True)
class Outcome:
    """
    What the flush writes for one document.

    `references` is None when the document was not read: then the stored links hold.
    `requested` is False when nothing was asked of the source, so its place in the budget is free again.
    `removes` says that the source itself no longer has a text here, so the outputs must not either.
    `retry_after` and `back_off` are seconds from now: for this document, and for its whole bin.
    """

    document: Document
    ending: Ending
    code: str
    requested: bool = False
    version: str = ""
    validators: str = ""
    content: Content | None = None
    references: list[Reference] | None = None
    removes: bool = False
    retry_after: float = 0.0
    back_off: float = 0.0
    bytes_read: int = 0


class EndingTwice(Exception):
    """A connector said two endings for one document: a defect of the connector."""


@dataclass(slots=True)
class Activity:
    """
    Collects what a connector says of one document.

    `configuration` names the job's specification: a version that was made under another one never
    equals the present one, so a changed job reads and indexes everything anew.
    """

    document: Document
    configuration: str
    outcome: Outcome | None = None
    requested: bool = False
    bytes_read: int = 0
    _references: dict[str, Reference] = field(default_factory=dict)

    def record_request(self) -> None:
        """The source has been asked: the document has used its place in the job's budget."""
        self.requested = True

    def record_bytes(self, count: int) -> None:
        self.bytes_read += count

    def version_of(self, fingerprint: str) -> str:
        """The full version of a content whose own fingerprint is given."""
        return f"{self.configuration}:{fingerprint}"

    @property
    def may_be_conditional(self) -> bool:
        """Every output holds the stored version, made under the present specification."""
        return bool(self.document.validators) and self.document.version.startswith(f"{self.configuration}:")

    def needs_indexing(self, version: str) -> bool:
        return self.document.version != version

    def reference(self, *, identifier: str, hash: str, bin: str, redirect: bool = False) -> None:  # noqa: A002 (the field's word)
        """Name another document; the first mention of an identifier counts."""
        if hash not in self._references:
            self._references[hash] = Reference(
                hash=hash,
                identifier=identifier,
                bin=bin,
                depth=self.document.depth + (not redirect),
                redirects=self.document.redirects + 1 if redirect else 0,
            )

    def reference_all(self, references: Mapping[str, Reference]) -> None:
        """Name ready-made references, by hash: values that a connector may share between documents."""
        if self._references:
            self._references = {**references, **self._references}
        else:
            self._references = dict(references)

    def ingest(self, content: Content, *, code: str, version: str, validators: str) -> None:
        """The document was read and is to stand in every output with this version."""
        self._end(
            Ending.INDEXED, code, version=version, validators=validators, content=content, references=self._read_links()
        )

    def unchanged(self, *, code: str, validators: str | None = None, read: bool) -> None:
        """The outputs hold what the source has. `read` tells whether the links given now are its links."""
        self._end(
            Ending.UNCHANGED,
            code,
            version=self.document.version,
            validators=self.document.validators if validators is None else validators,
            references=self._read_links() if read else None,
        )

    def no_document(self, *, code: str, read: bool = True) -> None:
        """The source answered, and there is nothing to index here (a redirect, noindex, no text, robots)."""
        self._end(Ending.EXCLUDED, code, references=self._read_links() if read else None, removes=True)

    def out_of_reach(self, *, code: str) -> None:
        """The source does not let us ask now; what the outputs hold stays, and so do its stored links."""
        document = self.document
        self._end(Ending.EXCLUDED, code, version=document.version, validators=document.validators)

    def delete(self, *, code: str) -> None:
        """The source says that the document is gone."""
        self._end(Ending.FAILED, code, references=[], removes=True)

    def failed(self, *, code: str) -> None:
        """It could not be read this time; what the outputs hold stays, and so do its stored links."""
        document = self.document
        self._end(Ending.FAILED, code, version=document.version, validators=document.validators)

    def retry_later(self, *, code: str, after: float, back_off: float = 0.0) -> None:
        """Try again `after` seconds; `back_off` keeps the whole bin closed for so long."""
        document = self.document
        self._end(
            Ending.RETRY,
            code,
            version=document.version,
            validators=document.validators,
            retry_after=after,
            back_off=back_off,
        )

    def _read_links(self) -> list[Reference]:
        return list(self._references.values())

    def _end(self, ending: Ending, code: str, **facts: Any) -> None:
        if self.outcome is not None:
            raise EndingTwice(f"{self.document.identifier}: {code} after {self.outcome.code}")
        self.outcome = Outcome(
            document=self.document,
            ending=ending,
            code=code,
            requested=self.requested,
            bytes_read=self.bytes_read,
            **facts,
        )


class Pace(Protocol):
    """The worker's hold on a connector: every request to the source begins behind it."""

    async def before_request(self) -> None:
        """Return when the next request of the document's bin may start. What it raises ends `process`."""


class RepositoryConnector(Protocol):
    """
    One kind of source, set up for one job.

    `bin_of` names the unit of politeness of an identifier: one bin, the connector's own namespace.
    `seeds` turns what a person typed into identifiers. `process` says exactly one ending.
    """

    namespace: str

    def bin_of(self, identifier: str) -> str: ...

    def hash_of(self, identifier: str) -> str: ...

    def seeds(self, typed: Sequence[str]) -> list[Reference]: ...

    async def process(self, document: Document, activity: Activity, pace: Pace) -> None: ...
