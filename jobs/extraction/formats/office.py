"""Office Open XML: documents, workbooks and presentations."""

import posixpath
import re
from collections.abc import Iterator
from typing import Final

from jobs.extraction.budget import Budget
from jobs.extraction.formats.container import Container
from jobs.extraction.formats.raw import Raw, RawPart, in_lines
from jobs.extraction.formats.sheets import read_sheets
from jobs.extraction.formats.words import FieldsHandler, TextHandler
from jobs.extraction.result import AUTHOR, CREATED, KEYWORDS, MODIFIED, SUBJECT, ExtractionFailed, Reason

_PREFIX: Final = "application/vnd.openxmlformats-officedocument."
DOCUMENT: Final = f"{_PREFIX}wordprocessingml.document"
WORKBOOK: Final = f"{_PREFIX}spreadsheetml.sheet"
PRESENTATION: Final = f"{_PREFIX}presentationml.presentation"

_NAMES: Final = {
    "creator": AUTHOR,
    "lastModifiedBy": "modified_by",
    "created": CREATED,
    "modified": MODIFIED,
    "subject": SUBJECT,
    "keywords": KEYWORDS,
    "description": "description",
    "category": "category",
}
_OF_APPLICATION: Final = {
    "Application": "creator",
    "Company": "company",
    "Manager": "manager",
    "Pages": "pages",
    "Slides": "slides",
}
_CHARACTERS: Final = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "-"}
_SLIDE: Final = re.compile(r"ppt/slides/slide([0-9]{1,9})\.xml")
_EMBEDDED: Final = re.compile(r"(?:word|ppt|xl)/(?:embeddings|media)/[^/]+")
# Embedded files with text. Pictures have none.
_PICTURES: Final = frozenset(
    {
        ".png",
        ".jpg",
        ".jpeg",
        ".gif",
        ".bmp",
        ".emf",
        ".wmf",
        ".tif",
        ".tiff",
        ".svg",
        ".wdp",
        ".bin",
        ".mp4",
        ".wav",
        ".mp3",
    }
)


def type_of(container: Container) -> str | None:
    """Return the media type of an Office container; None for another container."""
    if "[Content_Types].xml" not in container:
        return None
    for name, media_type in (
        ("word/document.xml", DOCUMENT),
        ("xl/workbook.xml", WORKBOOK),
        ("ppt/presentation.xml", PRESENTATION),
    ):
        if name in container:
            return media_type
    return None


def read_office(container: Container, media_type: str, budget: Budget) -> Raw:
    """
    Return the text of an Office file.

    Raises:
        ExtractionFailed: the file is damaged, encrypted, or larger than the budget.
    """
    found = Raw(media_type)
    _read_properties(container, found, budget)
    if media_type == DOCUMENT:
        found.text = _text_of_document(container, budget)
    elif media_type == WORKBOOK:
        found.text = read_sheets(container, budget)
    else:
        found.text = _text_of_slides(container, budget)
    found.parts = _embedded_in(container)
    return found


def _read_properties(container: Container, found: Raw, budget: Budget) -> None:
    most = budget.limits.values
    if "docProps/core.xml" in container:
        fields = FieldsHandler(most=most)
        container.read_xml("docProps/core.xml", fields)
        for name, _attributes, text in fields.found:
            if name == "title":
                found.title = " ".join(text.split())
            elif name == "language":
                found.language = text.strip()
            elif name in _NAMES:
                found.note(_NAMES[name], text)
    if "docProps/app.xml" in container:
        fields = FieldsHandler(most=most)
        container.read_xml("docProps/app.xml", fields)
        for name, _attributes, text in fields.found:
            if name in _OF_APPLICATION:
                found.note(_OF_APPLICATION[name], text)
    if "docProps/custom.xml" in container:
        fields = FieldsHandler(most=2 * most)
        container.read_xml("docProps/custom.xml", fields)
        value = ""
        for name, attributes, text in fields.found:
            if name == "property" and attributes.get("name"):
                found.note(f"custom:{attributes['name']}", value)
            value = text


def _text_of_document(container: Container, budget: Budget) -> str:
    texts = []
    names = [
        "word/document.xml",
        *sorted(name for name in container.names() if re.fullmatch(r"word/(?:footnotes|endnotes|comments)\.xml", name)),
    ]
    for name in names:
        handler = TextHandler(budget, texts={"t"}, blocks={"p"}, hidden={"del", "Fallback"}, characters=_CHARACTERS)
        container.read_xml(name, handler)
        texts.append(handler.collected)
    return in_lines("\n".join(texts))


def _text_of_slides(container: Container, budget: Budget) -> str:
    slides = sorted((int(found[1]), name) for name in container.names() if (found := _SLIDE.fullmatch(name)))
    texts = []
    for number, name in slides:
        for part in (name, f"ppt/notesSlides/notesSlide{number}.xml"):
            if part in container:
                handler = TextHandler(budget, texts={"t"}, blocks={"p"}, hidden={"Fallback"}, characters={"br": "\n"})
                container.read_xml(part, handler)
                texts.append(handler.collected)
    return in_lines("\n".join(texts))


def _embedded_in(container: Container) -> Iterator[RawPart]:
    for name in container.names():
        if not _EMBEDDED.fullmatch(name) or posixpath.splitext(name)[1].lower() in _PICTURES:
            continue
        try:
            yield RawPart(posixpath.basename(name), container.read(name))
        except ExtractionFailed as failure:
            if failure.reason is Reason.BOMB:
                raise
            yield RawPart(posixpath.basename(name), None, problem=failure.reason)
