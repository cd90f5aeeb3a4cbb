"""
The contract between the crawl and a kind of source.

A repository connector gets one document at a time and reports the result through an `Activity`. This is ManifoldCF's
contract (`needs_indexing`, `ingest`, `no_document`, `delete`, `reference`, `retry_later`) as asynchronous Python. The
activity turns the reports into one `Outcome`, a value that the flush writes. A connector never sees the queue. Apart
from the ending it may report when to fetch the document again (`set_schedule_bounds`, `originated_at`) and its steps
(`record`).

A connector reports exactly one *ending* for each document: `ingest`, `unchanged`, `no_document`, `delete`, `failed`,
`retry_later` or `wait_for`. References may be added before it. A document that ends without having been read
(`unchanged(read=False)`, `failed`) keeps its stored links.
"""

import datetime as dt
import enum
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final
from urllib.parse import quote

from jobs.archive.records import RawExchange, Stored
from jobs.connectors.metadata import Metadata, lasting
from jobs.connectors.repository.access import OPEN, Access
from jobs.connectors.transformation.base import Item
from jobs.lifecycle.activity import ActivityName

# Characters that stay as they are in the address of a part, apart from letters, digits and "_.-~".
_PLAIN_IN_FRAGMENTS: Final = "/!,()"
# Largest number of parts of one document in an output.
MOST_PARTS: Final = 1_000
# Highest stored duration of a request (ms).
_LONGEST_RESPONSE: Final = 2**31 - 1

# Values that parents carry to the documents that they reference, by name.
Carried = Mapping[str, tuple[str, ...]]


def hash_of(identifier: str) -> str:
    """Return the hash of an identifier: 32 hex digits, the same in all jobs."""
    return blake2b(identifier.encode(), digest_size=16).hexdigest()


def configuration_of(version: str) -> str:
    """Return the part of a version that identifies the configuration of the job; '' for no version."""
    return version.partition(":")[0].partition("+")[0]


class Ending(enum.IntEnum):
    """The result class of a document; a job's counts use these classes."""

    INDEXED = 1
    UNCHANGED = 2
    FAILED = 3
    EXCLUDED = 4
    # Outcomes that leave the document in the queue.
    RETRY = 5
    GIVEN_BACK = 6
    WAITING = 7

    @property
    def is_final(self) -> bool:
        """
        True if this ending is the last one of the document in its run. A new reference can still make it due again.
        """
        return self not in {Ending.RETRY, Ending.GIVEN_BACK, Ending.WAITING}


@dataclass(frozen=True, slots=True)
class Document:
    """
    One document as a worker gets it from the queue.

    `hash` is 32 hex digits. `version` is the one in the outputs, '' if they have none or it is unknown. `validators`
    are from the connector's last look at it (for the web: ETag and Last-Modified), '' if the fetch must be
    unconditional. `failures` counts attempts in a row that ended in a retry, and `failing_for` the seconds since the
    first of these attempts. `failures_by_cause` has the attempts by the cause of their limit, None if they are not
    known. `redirects` counts the redirects that led here. `carried` holds the values that all parents together carry to
    it: sorted by name, each value once; None if there are none.
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
    failures_by_cause: Mapping[str, int] | None = field(default=None, compare=False)

    def failures_of(self, cause: str) -> int:
        """
        Return the number of attempts in a row with this cause, or of all attempts in a row if their causes are not
        known.
        """
        return self.failures if self.failures_by_cause is None else self.failures_by_cause.get(cause, 0)


@dataclass(frozen=True, slots=True)
class Content:
    """
    One document for an output: its text and the facts about it. `metadata` has further values by name.

    Connectors report the `access` as their source gives it. Outputs get it with the group and the rules of the job.
    """

    url: str
    title: str
    description: str
    text: str
    content_type: str
    language: str
    access: Access = OPEN
    metadata: Metadata = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """Return a digest that distinguishes this content from any other, wherever it was read."""
        parts = [self.title, self.description, self.text, self.content_type, self.language]
        if not self.access.is_open:
            parts.append(self.access.text)
        if self.metadata and (values := lasting(self.metadata)):
            parts.append(json.dumps(values))
        return blake2b("\x00".join(parts).encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of a document, such as an attachment or a member of an archive. Each output has a separate entry for it.

    `id` is its path within the document, unique there. If `content` is None, outputs keep their content of the part.
    """

    id: str
    content: Content | None = None
    version: str = ""


@dataclass(frozen=True, slots=True)
class Parts:
    """
    The parts of a document for an output. The output removes all other parts, or only the `removed` parts if it
    `keeps_others`. A part of a part is kept or removed together with that part, unless the connector names it itself.
    """

    given: Sequence[Part] = ()
    keeps_others: bool = False
    removed: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.given) or self.keeps_others

    def keep(self, part: str) -> bool:
        """True if an output keeps the content that it has of this part."""
        contents = {given.id: given.content for given in self.given}
        while part:
            if part in self.removed or contents.get(part) is not None:
                return False
            if part in contents:
                return True
            part = part.rpartition("!/")[0]
        return self.keeps_others


NO_PARTS: Final = Parts()


def part_address(identifier: str, part: str) -> str:
    """Return the address of a part: the address of its document, with the path of the part as the fragment."""
    return f"{identifier}#{quote(part, safe=_PLAIN_IN_FRAGMENTS)}"


@dataclass(frozen=True, slots=True)
class Delivery:
    """
    The result of a job's pipeline for one output: a content with its version, or the stage that passed nothing on.

    `failed` is True if the stage failed. A failure says nothing about the document, so the output keeps it. If there is
    a content, the `reason` says what the content lacks.
    """

    content: Content | None = None
    version: str = ""
    parts: Parts = NO_PARTS
    stage: str = ""
    code: str = ""
    reason: str = ""
    failed: bool = False

    @property
    def removes(self) -> bool:
        """True if the document must leave the output."""
        return self.content is None and not self.failed


@dataclass(frozen=True, slots=True)
class Reference:
    """
    An identifier that a document references. A link leads one step away from the seeds. A redirect keeps the depth.

    A reference does not name the referencing document, so documents with equal references may share it. `link_type` is
    a type that the connector defines. Each type has its own hop counts. `carry` holds the values that the document
    carries to the target.
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
    An action of a connector for a document, for the history: one fetch, one listing.

    `began` is a moment of this process's `time.monotonic()`. `seconds` is the duration.
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
    The limit of retries: a number of `attempts`, or of `seconds` since the first failure, whichever is reached first.
    None means no limit. At the limit the document fails. If `aborts_job`, the run of its job fails, too.

    Attempts are counted for each `cause`, so an outage of a source does not use up the retries of another cause.
    """

    attempts: int | None = None
    seconds: float | None = None
    aborts_job: bool = False
    cause: str = ""


@dataclass(frozen=True, slots=True)
class ScheduleBounds:
    """
    Bounds for the recrawl and the expiry of a document in a continuous job (seconds from now).

    None keeps the job's own interval. Connectors use these bounds if a source publishes how often it changes.
    """

    recrawl_least: float | None = None
    recrawl_most: float | None = None
    expire_least: float | None = None
    expire_most: float | None = None


@dataclass(slots=True)
class Outcome:
    """
    The result that the flush writes for one document.

    - `references`: None if the document was not read. Then the stored links stay.
    - `requested`: False if the source got no request, so that its place in the budget is free again.
    - `removes`: the source no longer has a text for this document, so it must leave the outputs.
    - `is_refused`: the rules of the job refuse the document, and the source was not asked. If the run ends with a
      clean-up, only the clean-up removes the document.
    - `retry_after`: seconds from now.
    - `back_off`: the source is overloaded, so its whole bin waits for this number of seconds; 0 if the source named
      none.
    - A hash may occur twice among the references if links of two types reference it.
    - `carries`: one of the references carries a value.
    - `gate`: the gate for which a waiting document waits.
    - `item`: the document for the job's pipeline, if it has one, and `part_items` its parts. `deliveries` are the
      results of the pipeline, by output; None without a pipeline.
    - `parts`: the parts of a document. With a pipeline, only the parts that outputs keep or remove.
    - `exchange`: the raw exchange, if the job keeps an archive; `stored` is its place there, once it has one.
    - `rejected`: identifiers that the document references and the job's rules refuse.
    - `headers`: the headers of the source's answer, if it has any.
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
    is_refused: bool = False
    retry_after: float = 0.0
    back_off: float | None = None
    bytes_read: int = 0
    carries: bool = False
    retry_limit: RetryLimit | None = None
    schedule_bounds: ScheduleBounds | None = None
    originated_at: dt.datetime | None = None
    gate: str = ""
    records: Sequence[Record] = ()
    item: Item | None = None
    part_items: Sequence[Item] = ()
    deliveries: Mapping[int, Delivery] | None = None
    parts: Parts = NO_PARTS
    exchange: RawExchange | None = None
    stored: Stored | None = None
    rejected: Sequence[str] = ()
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def response_ms(self) -> int | None:
        """Return the duration of the document's own last request (ms); None if no request was recorded."""
        for record in reversed(self.records):
            if record.activity == ActivityName.FETCH and record.entity == self.document.identifier:
                return min(round(record.seconds * 1000), _LONGEST_RESPONSE)
        return None
