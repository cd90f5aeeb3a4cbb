"""
The contract between the crawl and a kind of source.

A repository connector is given documents one at a time and says what became of each through an
`Activity`: ManifoldCF's contract (`needs_indexing`, `ingest`, `no_document`, `delete`, `reference`,
`retry_later`), async. The activity turns what was said into one `Outcome`, a value that the flush
writes; a connector never sees the queue. Beside the ending it may say how soon the document should be
looked at again (`set_schedule_bounds`, `originated_at`) and what it did (`record`).

Exactly one *ending* is said for each document: `ingest`, `unchanged`, `no_document`, `delete`,
`failed`, `retry_later` or `wait_for`. References may be added before it. A document that ends
without having been read (`unchanged(read=False)`, `failed`) keeps the links that are stored for it.
"""

import datetime as dt
import enum
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from jobs.connectors.repository.shared import Shared

# Values that parents pass to what they name, by name.
Carried = Mapping[str, tuple[str, ...]]


def hash_of(identifier: str) -> str:
    """The identity of a document: 32 hex digits, the same for everybody who names it so."""
    return blake2b(identifier.encode(), digest_size=16).hexdigest()


def configuration_of(version: str) -> str:
    """Return the configuration under which a document's version was made; '' for no version."""
    return version.partition(":")[0].partition("+")[0]


class Ending(enum.IntEnum):
    """What became of a document; the classes that a job's counts speak of."""

    INDEXED = 1
    UNCHANGED = 2
    FAILED = 3
    EXCLUDED = 4
    # These leave the document in the queue.
    RETRY = 5
    GIVEN_BACK = 6
    WAITING = 7

    @property
    def is_final(self) -> bool:
        """Whether the document has ended for its run, unless something names it anew."""
        return self not in {Ending.RETRY, Ending.GIVEN_BACK, Ending.WAITING}


@dataclass(frozen=True, slots=True)
class Document:
    """
    One document as a worker takes it.

    `hash` is 32 hex digits. `version` is what the outputs hold, '' when that is nothing or unknown;
    `validators` is what the connector gave with it (for the web: ETag and Last-Modified), '' when
    the fetch must be unconditional. `failures` counts attempts in a row that ended in a retry,
    `failing_for` seconds since the first of them. `redirects` counts those that led here. `carried` is
    what all parents together pass to it: each name's values sorted, each once; None when there is nothing.
    """

    hash: str
    identifier: str
    depth: int
    redirects: int
    version: str
    validators: str
    failures: int
    failing_for: float
    carried: Carried | None = None


@dataclass(frozen=True, slots=True)
class Content:
    """What an output is given: the text of one document and what is known about it."""

    url: str
    title: str
    description: str
    text: str
    content_type: str
    language: str

    @property
    def fingerprint(self) -> str:
        """What tells this content from another, wherever it was read."""
        parts = (self.title, self.description, self.text, self.content_type, self.language)
        return blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Reference:
    """
    An identifier that a document names. A link leads one step away from the seeds; a redirect is none, and keeps the depth.

    It says nothing of who names it, so those who name the same may share it. `link_type` is one of the connector's; hop
    counts are kept for each. `carry` is what the document passes on to the one that it names.
    """

    hash: str
    identifier: str
    bin: str
    is_redirect: bool = False
    link_type: str = "link"
    carry: Carried | None = None


@dataclass(slots=True)
class Record:
    """
    Something that a connector did for a document, for the history: one fetch, one listing.

    `began` is a moment of this process' `time.monotonic()`; `seconds` is how long it took.
    """

    activity: str
    began: float
    seconds: float
    bytes: int
    entity: str
    result_code: str
    result_description: str = ""


@dataclass(frozen=True, slots=True)
class RetryLimit:
    """
    When trying again has been enough: after so many `attempts` or so many `seconds` since the first failure,
    whichever comes first (None is no limit). Then the document fails; if `aborts_job`, so does its job's run.
    """

    attempts: int | None = None
    seconds: float | None = None
    aborts_job: bool = False


@dataclass(frozen=True, slots=True)
class ScheduleBounds:
    """
    Within which a continuous job looks at the document again, or lets it expire: seconds from now.

    None leaves the job's own interval as it is. A source that says how often it changes says it here.
    """

    recrawl_least: float | None = None
    recrawl_most: float | None = None
    expire_least: float | None = None
    expire_most: float | None = None


@dataclass(slots=True)
class Outcome:
    """
    What the flush writes for one document.

    `references` is None when the document was not read: then the stored links hold.
    `requested` is False when nothing was asked of the source, so its place in the budget is free again.
    `removes` says that the source itself no longer has a text here, so the outputs must not either.
    `retry_after` is seconds from now. `back_off` says that the source is asked too much of: its whole bin is left alone
    for so many seconds, 0 where the source named none.
    A hash may stand twice among the references if it was named by links of two types. `carries` says that one
    of them carries something. `gate` is what a waiting document waits for.
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
    back_off: float | None = None
    bytes_read: int = 0
    carries: bool = False
    retry_limit: RetryLimit | None = None
    schedule_bounds: ScheduleBounds | None = None
    originated_at: dt.datetime | None = None
    gate: str = ""
    records: Sequence[Record] = ()


class EndingTwice(Exception):
    """A connector said two endings for one document: a defect of the connector."""


@dataclass(slots=True)
class Activity:
    """
    Collects what a connector says of one document.

    `configuration` names the job's specification: a version that was made under another one never
    equals the present one, so a changed job reads and indexes everything anew. What is carried to the document
    counts likewise: with other values it is read and indexed anew. `shared` is what it has together with the
    documents that other workers process.
    """

    document: Document
    configuration: str
    outcome: Outcome | None = None
    requested: bool = False
    bytes_read: int = 0
    # None where a document is processed outside of a crawl.
    shared: Shared | None = None
    _references: dict[str, Reference] = field(default_factory=dict)
    # What is also named by a link of another type: (hash, type). Rare, so apart.
    _other_links: dict[tuple[str, str], Reference] | None = None
    _carries: bool = False
    _back_off: float | None = None
    _records: list[Record] = field(default_factory=list)
    _bounds: ScheduleBounds | None = None
    _originated_at: dt.datetime | None = None

    def record_request(self) -> None:
        """The source has been asked: the document has used its place in the job's budget."""
        self.requested = True

    def record_bytes(self, count: int) -> None:
        self.bytes_read += count

    def version_of(self, fingerprint: str) -> str:
        """The full version of a content whose own fingerprint is given."""
        return f"{self._circumstances}:{fingerprint}"

    @property
    def may_be_conditional(self) -> bool:
        """Every output holds the stored version, made under the present specification."""
        return bool(self.document.validators) and self.document.version.startswith(f"{self._circumstances}:")

    def needs_indexing(self, version: str) -> bool:
        return self.document.version != version

    def carried(self, name: str) -> tuple[str, ...]:
        """The values of this name that the document's parents pass to it, sorted."""
        return (self.document.carried or {}).get(name, ())

    def set_schedule_bounds(self, bounds: ScheduleBounds) -> None:
        self._bounds = bounds

    def set_origination(self, moment: dt.datetime) -> None:
        """
        State the document's origination date, as its source gives it: a continuous job counts the expiry from then.

        State it each time that the document is processed. Otherwise the expiry counts from the time of processing.
        """
        self._originated_at = moment

    def record(
        self,
        activity: str,
        *,
        began: float,
        seconds: float,
        bytes: int = 0,  # noqa: A002 (the field's word)
        entity: str | None = None,
        result_code: str,
        result_description: str = "",
    ) -> None:
        """Tell the history of something that was done; `entity` is the document itself if nothing is given."""
        self._records.append(
            Record(
                activity,
                began,
                seconds,
                bytes,
                self.document.identifier if entity is None else entity,
                result_code,
                result_description,
            )
        )

    def reference(
        self,
        *,
        identifier: str,
        hash: str,  # noqa: A002 (the field's word)
        bin: str,  # noqa: A002 (the field's word)
        redirect: bool = False,
        link_type: str = "link",
        carry: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """Name another document; the first mention of an identifier counts, and what all of them carry."""
        named = Reference(
            hash=hash,
            identifier=identifier,
            bin=bin,
            is_redirect=redirect,
            link_type=link_type,
            carry=_in_order(carry) if carry else None,
        )
        self._carries = self._carries or named.carry is not None
        known = self._references.setdefault(hash, named)
        if known is named:
            return
        if known.link_type == link_type:
            self._references[hash] = _joined(known, named)
            return
        if self._other_links is None:
            self._other_links = {}
        other = self._other_links.setdefault((hash, link_type), named)
        if other is not named:
            self._other_links[hash, link_type] = _joined(other, named)

    def reference_all(self, references: Mapping[str, Reference]) -> None:
        """Name ready-made references, by hash: values that a connector may share; they carry nothing."""
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

    def no_document(self, *, code: str, read: bool = True, validators: str = "") -> None:
        """
        The source answered, and there is nothing to index here (a redirect, noindex, no text, robots).

        `validators` are for the connector's next look at it: `may_be_conditional` knows nothing of them.
        """
        references = self._read_links() if read else None
        self._end(Ending.EXCLUDED, code, validators=validators, references=references, removes=True)

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

    def back_off(self, asked: float | None) -> None:
        """
        The source says that it is asked too much of: its whole bin is left alone for the seconds that it `asked` for.

        Where it named none they are more each time (`jobs.throttling.back_off`). The document has its ending besides.
        """
        self._back_off = asked or 0.0

    def retry_later(self, *, code: str, after: float, limit: RetryLimit | None = None) -> None:
        """
        Try again `after` seconds.

        Without a `limit` it is tried for ever: the connector counts by itself (`Document.failures`).
        """
        document = self.document
        self._end(
            Ending.RETRY,
            code,
            version=document.version,
            validators=document.validators,
            retry_after=after,
            retry_limit=limit,
        )

    def wait_for(self, gate: str, *, code: str) -> None:
        """Try again when this gate opens; at once if it is open by then. It is no failure."""
        document = self.document
        self._end(Ending.WAITING, code, version=document.version, validators=document.validators, gate=gate)

    @property
    def _circumstances(self) -> str:
        """All that the version of a content depends on besides the content."""
        carried = self.document.carried
        if not carried:
            return self.configuration
        values = json.dumps(carried, sort_keys=True).encode()
        return f"{self.configuration}+{blake2b(values, digest_size=8).hexdigest()}"

    def _read_links(self) -> list[Reference]:
        named = list(self._references.values())
        if self._other_links:
            named.extend(self._other_links.values())
        return named

    def _end(self, ending: Ending, code: str, **facts: Any) -> None:
        if self.outcome is not None:
            raise EndingTwice(f"{self.document.identifier}: {code} after {self.outcome.code}")
        self.outcome = Outcome(
            document=self.document,
            ending=ending,
            code=code,
            requested=self.requested,
            bytes_read=self.bytes_read,
            carries=self._carries,
            back_off=self._back_off,
            schedule_bounds=self._bounds,
            originated_at=self._originated_at,
            records=self._records,
            **facts,
        )


def _in_order(carry: Mapping[str, Iterable[str]]) -> Carried:
    return {_storable(name): tuple(sorted({_storable(value) for value in values})) for name, values in carry.items()}


def _storable(text: str) -> str:
    """The text without what no database holds: zero bytes, and halves of characters."""
    return text.encode(errors="replace").decode().replace("\0", "?")


def _joined(known: Reference, again: Reference) -> Reference:
    """A reference that was mentioned twice, with what both mentions carry."""
    if not again.carry:
        return known
    both = known.carry or {}
    values = {name: {*both.get(name, ()), *again.carry.get(name, ())} for name in {*both, *again.carry}}
    return replace(known, carry=_in_order(values))
