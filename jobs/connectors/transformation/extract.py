"""
The extraction of texts: a stage that reads the text of PDF, Office, OpenDocument, e-mail and archives.

Documents that already have a text pass as they are. So do documents of a type that no reader knows: a later stage may
read them. Attachments and members become components.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from django.utils.translation import gettext_lazy as _

from jobs.connectors.metadata import bounded, pairs_of
from jobs.connectors.repository.base import part_address
from jobs.connectors.schema import Field, FieldKind, Schema
from jobs.connectors.transformation.base import Candidate, Item, Runs, Stage, TransformationKind
from jobs.extraction.budget import Limits
from jobs.extraction.extract import Wanted, extract
from jobs.extraction.kinds import may_be_read
from jobs.extraction.result import ExtractionFailed, Metadata, Part, Reason

# Version of the code of this stage. It is part of the description, and grows when results change.
_RULES: Final = 3
_LIMITS: Final = Limits()

_SETTINGS: Final = Schema(
    (
        Field(
            name="parts",
            kind=FieldKind.TRUTH,
            label=_("Parts"),
            help=_("Read attachments and members of archives, too. Without this, they are not opened."),
        ),
        Field(
            name="language",
            kind=FieldKind.TRUTH,
            label=_("Language"),
            help=_("Find the language of a text whose file names none."),
        ),
    )
)


class TextExtractor(Stage):
    """A stage that extracts texts, with its settings."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._wanted = Wanted(parts=values.get("parts", True), language=values.get("language", True))
        self.description = f"extract {_RULES} {json.dumps([self._wanted.parts, self._wanted.language])}"

    def reads(self, candidate: Candidate) -> bool:
        return may_be_read(candidate.content_type, candidate.url)

    def transform(self, item: Item) -> Sequence[Item]:
        if item.body is None or item.text or not may_be_read(item.content_type, item.component or item.url):
            return (item,)
        named = f"{item.content_type}; charset={item.charset}" if item.charset else item.content_type
        try:
            found = extract(
                item.body,
                content_type=named,
                name=item.component or item.url.partition("?")[0],
                limits=_LIMITS,
                wanted=self._wanted,
            )
        except ExtractionFailed as failure:
            if failure.reason is Reason.UNKNOWN_TYPE:
                return (item,)
            raise
        document = replace(
            item,
            body=None,
            text=found.text,
            title=found.title or item.title,
            language=found.language or item.language,
            content_type=found.content_type,
            metadata=_joined(item.metadata, found.metadata),
            note=" ".join(filter(None, (item.note, found.note))),
        )
        return (document, *(_component_of(document, part) for part in found.parts))


def address_of(item: Item, part: str) -> str:
    """Return the address of a part: the address of the document, with the path of the part as the fragment."""
    return part_address(item.url.partition("#")[0], part)


def _component_of(document: Item, part: Part) -> Item:
    # This is a part of a part: an earlier stage has made the outer part.
    component = f"{document.component}!/{part.id}" if document.component else part.id
    metadata = {**part.metadata, "problem": (str(part.problem),)} if part.problem is not None else part.metadata
    return Item(
        url=address_of(document, component),
        content_type=part.content_type,
        text=part.text,
        title=part.title or part.name,
        language=part.language,
        originated_at=document.originated_at,
        metadata=bounded(pairs_of(metadata)),
        component=component,
    )


def _joined(of_source: Metadata, of_file: Metadata) -> dict[str, tuple[str, ...]]:
    """Return the metadata of the source and of the file. If both have a name, the value of the file counts."""
    found = bounded(pairs_of(of_file))
    return bounded(pairs_of({**of_source, **found}))


EXTRACT: Final = TransformationKind(
    name="extract",
    label=_("Text extraction"),
    help=_("Reads the text of PDF, Office, OpenDocument, e-mail and archives, with their metadata and parts."),
    settings=_SETTINGS,
    open=TextExtractor,
    runs_in=Runs.IN_PROCESS,
)
