"""The activity: a connector reports the result of one document, and the activity makes an `Outcome` of the reports."""

import datetime as dt
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from jobs.archive.records import RawExchange
from jobs.connectors.repository.access import NO_RULES, JobAccess
from jobs.connectors.repository.base import (
    NO_PARTS,
    Content,
    Document,
    Ending,
    Outcome,
    Record,
    Reference,
    RetryLimit,
    ScheduleBounds,
    part_address,
)
from jobs.connectors.repository.carried_values import in_order, joined
from jobs.connectors.repository.parts import BadPart, PartReports
from jobs.connectors.repository.shared import Shared
from jobs.connectors.transformation.base import Candidate, Item, ReadsBodies


class EndingTwice(Exception):
    """A connector reported two endings for one document: a defect of the connector."""


@dataclass(slots=True)
class Activity:
    """
    Collects the reports of a connector about one document.

    `configuration` identifies the job's specification. A version under another configuration never equals the present
    one. So after a change of the job, every document is read and indexed again. A change of its carried values has the
    same effect. `shared` is the state that documents share across workers. `access` has the job's access rules, which
    are a part of its configuration. The stages of the `pipeline` get the document after its ending.
    """

    document: Document
    configuration: str
    outcome: Outcome | None = None
    requested: bool = False
    bytes_read: int = 0
    # None if a document is processed outside of a crawl.
    shared: Shared | None = None
    access: JobAccess = NO_RULES
    # None if the job has no pipeline: then the outputs get documents as the connector reads them.
    pipeline: ReadsBodies | None = None
    _references: dict[str, Reference] = field(default_factory=dict)
    # References by links of further types: (hash, type). They are in a separate dict, because they are rare.
    _other_links: dict[tuple[str, str], Reference] | None = None
    _carries: bool = False
    _back_off: float | None = None
    _records: list[Record] = field(default_factory=list)
    _bounds: ScheduleBounds | None = None
    _originated_at: dt.datetime | None = None
    _exchange: RawExchange | None = None
    _response_headers: Mapping[str, str] = field(default_factory=dict)
    _rejected: Sequence[str] = ()
    # None as long as the connector names no part.
    _parts: PartReports | None = None

    def record_request(self) -> None:
        """Report that the source got a request. The document then counts towards the job's budget."""
        self.requested = True

    def record_bytes(self, count: int) -> None:
        self.bytes_read += count

    def version_of(self, fingerprint: str) -> str:
        """Return the full version of a content with this fingerprint."""
        return f"{self._circumstances}:{fingerprint}"

    @property
    def may_be_conditional(self) -> bool:
        """
        True if a request may be conditional. The document then has validators, and every output holds its stored
        version, which was made under the present specification.
        """
        return bool(self.document.validators) and self._has_valid_version

    @property
    def parts(self) -> PartReports:
        """Return the reports about parts of the document, such as attachments. Only `ingest` uses them."""
        if self._parts is None:
            self._parts = PartReports(self.document.identifier, may_retain=self._has_valid_version)
        return self._parts

    def reads(self, content_type: str, *, length: int | None = None, part: str = "") -> bool:
        """
        True if the job's pipeline wants the bytes of a document of this type, or of its `part`.

        A connector then reads them, even if it finds no text in them, and passes them to `ingest` or `parts.add`.
        """
        if self.pipeline is None:
            return False
        url = part_address(self.document.identifier, part) if part else self.document.identifier
        return self.pipeline.reads(Candidate(url, content_type, length))

    def fingerprint_of(self, content: Content, body: bytes | None = None) -> str:
        """Return a digest of the document's content. If stages get its bytes, the digest includes them."""
        if self.pipeline is None or body is None:
            return content.fingerprint
        digest = blake2b(f"{content.fingerprint}\0".encode(), digest_size=16)
        digest.update(body)
        return digest.hexdigest()

    def needs_indexing(self, version: str) -> bool:
        return self.document.version != version

    def carried(self, name: str) -> tuple[str, ...]:
        """Return the values of this name that the document's parents carry to it, sorted."""
        return (self.document.carried or {}).get(name, ())

    def set_schedule_bounds(self, bounds: ScheduleBounds) -> None:
        self._bounds = bounds

    def set_origination(self, moment: dt.datetime) -> None:
        """
        Report the document's origination date, as its source gives it. A continuous job counts the expiry from this
        date.

        Report it each time that the document is processed. Otherwise the expiry counts from the time of processing.
        """
        self._originated_at = moment

    def keep_exchange(self, exchange: RawExchange | None) -> None:
        """Report the raw exchange of the document's own request, before its ending."""
        self._exchange = exchange

    def note_headers(self, headers: Mapping[str, str]) -> None:
        """Report the headers of the source's answer, before the document's ending."""
        self._response_headers = headers

    def record(
        self,
        activity: str,
        *,
        began: float,
        seconds: float,
        bytes: int = 0,  # noqa: A002 (the field's name)
        entity: str | None = None,
        result_code: str,
        result_description: str = "",
    ) -> None:
        """Report an action for the history. Its `entity` is the document by default."""
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
        hash: str,  # noqa: A002 (the field's name)
        bin: str,  # noqa: A002 (the field's name)
        redirect: bool = False,
        link_type: str = "link",
        carry: Mapping[str, Iterable[str]] | None = None,
    ) -> None:
        """
        Report a reference to another document. If an identifier is referenced several times, the first reference is
        stored, with the carried values of all these references.
        """
        named = Reference(
            hash=hash,
            identifier=identifier,
            bin=bin,
            is_redirect=redirect,
            link_type=link_type,
            carry=in_order(carry) if carry else None,
        )
        self._carries = self._carries or named.carry is not None
        known = self._references.setdefault(hash, named)
        if known is named:
            return
        if known.link_type == link_type:
            self._references[hash] = joined(known, named)
            return
        if self._other_links is None:
            self._other_links = {}
        other = self._other_links.setdefault((hash, link_type), named)
        if other is not named:
            self._other_links[hash, link_type] = joined(other, named)

    def reference_all(self, references: Mapping[str, Reference]) -> None:
        """Report finished references, by hash. Documents may share them, because they have no carried values."""
        if self._references:
            self._references = {**references, **self._references}
        else:
            self._references = dict(references)

    def note_rejected(self, identifiers: Sequence[str]) -> None:
        """
        Report identifiers, in their normal form, that the document references and the job's rules refuse.

        A sample of them is kept, for rehearsals of other rules. Report an identifier once: repetitions add nothing.
        """
        self._rejected = identifiers

    def ingest(
        self,
        content: Content,
        *,
        code: str,
        version: str,
        validators: str,
        body: bytes | None = None,
        charset: str = "",
    ) -> None:
        """
        End: the document was read. Every output must hold it with this version, and with the parts that were reported
        before.

        `body` has the bytes of the document if the pipeline `reads` them, and `charset` is the one that the source
        names. The outputs get the access by the rules of the job, with tokens of the repository's authority group.

        Raises:
            BadPart: the connector retained parts that outputs must not keep.
        """
        if self._parts is not None:
            self._parts.check(content, has_body=self.pipeline is not None and body is not None)
        access = self.access.of(self.document.identifier, content.access)
        if access is not content.access:
            content = replace(content, access=access)
        item = None if self.pipeline is None else self._item(content, body, charset)
        parts = NO_PARTS
        part_items: list[Item] = []
        if self._parts is not None:
            parts, part_items = self._parts.divided(content, item, version_of=self.version_of)
        self._end(
            Ending.INDEXED,
            code,
            version=version,
            validators=validators,
            content=content,
            references=self._read_links(),
            item=item,
            part_items=part_items,
            parts=parts,
        )

    def unchanged(self, *, code: str, validators: str | None = None, read: bool) -> None:
        """
        End: the outputs already hold the source's content. If `read`, the references reported now replace the stored
        links, otherwise the stored links stay.

        Raises:
            BadPart: the connector reported parts, which an unchanged document does not take.
        """
        if self._parts:
            raise BadPart("An unchanged document keeps its parts: end with ingest.")
        self._end(
            Ending.UNCHANGED,
            code,
            version=self.document.version,
            validators=self.document.validators if validators is None else validators,
            references=self._read_links() if read else None,
        )

    def no_document(self, *, code: str, read: bool = True, validators: str = "") -> None:
        """
        End: the source answered, but has nothing to index here (a redirect, noindex, no text, robots).

        `validators` are for the connector's next request. `may_be_conditional` does not consider them.
        """
        references = self._read_links() if read else None
        self._end(Ending.EXCLUDED, code, validators=validators, references=references, removes=True)

    def refuse(self, *, code: str) -> None:
        """
        End: the rules of the job refuse the document, which they admitted when it was referenced. No request was made.
        """
        self._end(Ending.EXCLUDED, code, references=[], removes=True, is_refused=True)

    def out_of_reach(self, *, code: str) -> None:
        """End: the source permits no request now. The content of the outputs and the stored links stay."""
        document = self.document
        self._end(Ending.EXCLUDED, code, version=document.version, validators=document.validators)

    def delete(self, *, code: str) -> None:
        """End: the source reports that the document no longer exists."""
        self._end(Ending.FAILED, code, references=[], removes=True)

    def failed(self, *, code: str) -> None:
        """End: the document could not be read this time. The content of the outputs and the stored links stay."""
        document = self.document
        self._end(Ending.FAILED, code, version=document.version, validators=document.validators)

    def back_off(self, asked: float | None) -> None:
        """
        Report that the source is overloaded: its whole bin waits for the seconds that it `asked` for.

        If it named none, the wait grows each time (`jobs.throttling.back_off`). The document still needs an ending.
        """
        self._back_off = asked or 0.0

    def retry_later(self, *, code: str, after: float, limit: RetryLimit | None = None) -> None:
        """
        End: try again `after` seconds.

        Without a `limit`, there is no last attempt, and the connector itself must count attempts
        (`Document.failures_of`).
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
        """End: try again when this gate opens; immediately if it is already open. This is not a failure."""
        document = self.document
        self._end(Ending.WAITING, code, version=document.version, validators=document.validators, gate=gate)

    @property
    def _has_valid_version(self) -> bool:
        return self.document.version.startswith(f"{self._circumstances}:")

    @property
    def _circumstances(self) -> str:
        """Return a text with everything, apart from the content, on which the version of the document depends."""
        carried = self.document.carried
        if not carried:
            return self.configuration
        values = json.dumps(carried, sort_keys=True).encode()
        return f"{self.configuration}+{blake2b(values, digest_size=8).hexdigest()}"

    def _item(self, content: Content, body: bytes | None, charset: str) -> Item:
        return Item(
            url=content.url,
            content_type=content.content_type,
            charset=charset,
            text=content.text,
            body=body,
            title=content.title,
            description=content.description,
            language=content.language,
            originated_at=self._originated_at,
            metadata=content.metadata,
        )

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
            exchange=self._exchange,
            rejected=self._rejected,
            headers=self._response_headers,
            **facts,
        )
