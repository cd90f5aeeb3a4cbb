"""Collects the parts of a document that its connector reports, such as the attachments of a message in a mail store."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from jobs.connectors.metadata import Metadata
from jobs.connectors.repository.base import MOST_PARTS, Content, Part, Parts, part_address
from jobs.connectors.transformation.base import Item

logger = logging.getLogger(__name__)


class BadPart(ValueError):
    """A connector reported parts that no output can have: a defect of the connector."""


@dataclass(slots=True)
class PartReports:
    """
    Collects the reports about the parts of the document at `url`, before its `ingest`.

    A path identifies a part within its document, and the last report about a path counts. Parts that are not named leave
    the outputs. A connector may retain parts if `may_retain` is True. Then every output holds the stored version of the
    document with its parts, made under the present specification.
    """

    url: str
    may_retain: bool
    # The content of a part. None means that outputs keep the content that they have.
    _given: dict[str, Item | None] = field(default_factory=dict)
    _removed: set[str] = field(default_factory=set)
    _keeps_others: bool = False

    def __bool__(self) -> bool:
        return bool(self._given or self._removed) or self._keeps_others

    def add(
        self,
        path: str,
        text: str,
        *,
        title: str = "",
        content_type: str = "text/plain",
        language: str = "",
        metadata: Metadata | None = None,
        body: bytes | None = None,
        charset: str = "",
    ) -> None:
        """
        Report a part. Outputs get the part if they do not have the same content already.

        The part has the access of its document. `body` has the bytes of the part if the pipeline `reads` them.

        Raises:
            BadPart: the path is not valid for a part.
        """
        item = Item(
            url=part_address(self.url, _checked(path)),
            content_type=content_type,
            charset=charset,
            text=text,
            body=body,
            title=title,
            language=language,
            metadata=metadata or {},
            component=path,
        )
        self._name(path, item)

    def retain(self, path: str) -> None:
        """
        Report a part that has not changed. Outputs keep their content of the part, and its own parts.

        Raises:
            BadPart: an output may lack it.
        """
        self._check_retaining()
        self._name(_checked(path), None)

    def retain_others(self) -> None:
        """
        Report that outputs keep all parts that are not named.

        Raises:
            BadPart: an output may lack some.
        """
        self._check_retaining()
        self._keeps_others = True

    def remove(self, path: str) -> None:
        """Report a part that the document no longer has. Only a document that retains its other parts needs this."""
        self._given.pop(_checked(path), None)
        self._removed.add(path)

    def check(self, content: Content, *, has_body: bool) -> None:
        """
        Check the reports of a document with this content. The content has the access that the source gives.

        Raises:
            BadPart: outputs would keep parts with an old access, or parts that the body of the document no longer has.
        """
        if not content.access.is_open and (self._keeps_others or None in self._given.values()):
            raise BadPart("A document with access tokens of its source must add each of its parts.")
        if self._keeps_others and has_body:
            raise BadPart("A document with a body must name each part that it keeps.")

    def divided(
        self, content: Content, document: Item | None, *, version_of: Callable[[str], str]
    ) -> tuple[Parts, list[Item]]:
        """
        Return the parts for the outputs, and the items for the pipeline of the `document`.

        Without a pipeline, outputs get each part with the access of the document's `content`.
        """
        if document is None:
            made = [Part(path) if item is None else _part_of(item, content, version_of) for path, item in self._named]
            return self._parts(made), []
        items = [replace(item, originated_at=document.originated_at) for _, item in self._named if item is not None]
        return self._parts([Part(path) for path, item in self._named if item is None]), items

    @property
    def _named(self) -> Sequence[tuple[str, Item | None]]:
        return list(self._given.items())

    def _parts(self, given: Sequence[Part]) -> Parts:
        return Parts(given, keeps_others=self._keeps_others, removed=frozenset(self._removed))

    def _check_retaining(self) -> None:
        if not self.may_retain:
            raise BadPart(f"An output may lack parts of {self.url}: add each of them.")

    def _name(self, path: str, item: Item | None) -> None:
        if path not in self._given and len(self._given) == MOST_PARTS:
            logger.warning("%s has more than %d parts; %s is left out", self.url, MOST_PARTS, path)
            return
        self._removed.discard(path)
        self._given[path] = item


def _part_of(item: Item, content: Content, version_of: Callable[[str], str]) -> Part:
    made = replace(
        content,
        url=item.url,
        title=item.title,
        description=item.description,
        text=item.text,
        content_type=item.content_type,
        language=item.language,
        metadata=item.metadata,
    )
    return Part(item.component, made, version_of(made.fingerprint))


def _checked(path: str) -> str:
    if not path or "\0" in path or (not path.isascii() and any("\ud800" <= sign <= "\udfff" for sign in path)):
        raise BadPart(f"{path!r} is no path of a part.")
    return path
