"""OpenDocument: texts, sheets and presentations."""

from typing import Final

from jobs.extraction.budget import Budget
from jobs.extraction.formats.container import Container
from jobs.extraction.formats.raw import Raw, in_lines
from jobs.extraction.formats.words import FieldsHandler, TextHandler
from jobs.extraction.formats.xml import XmlHandler
from jobs.extraction.result import AUTHOR, CREATED, KEYWORDS, MODIFIED, SUBJECT, ExtractionFailed, Reason

PREFIX: Final = "application/vnd.oasis.opendocument."
_LONGEST_TYPE: Final = 100
_NAMES: Final = {
    "initial-creator": AUTHOR,
    "creator": "modified_by",
    "creation-date": CREATED,
    "date": MODIFIED,
    "subject": SUBJECT,
    "keyword": KEYWORDS,
    "description": "description",
    "generator": "creator",
}
_CHARACTERS: Final = {"tab": "\t", "line-break": "\n", "s": " "}
_BLOCKS: Final = frozenset({"p", "h", "table-row"})


def type_of(container: Container, budget: Budget) -> str | None:
    """Return the media type of an OpenDocument container; None for another container."""
    if "mimetype" not in container or "content.xml" not in container:
        return None
    media_type = container.read("mimetype")[:_LONGEST_TYPE].decode("ascii", "replace").strip()
    return media_type if media_type.startswith(PREFIX) else None


def read_opendocument(container: Container, media_type: str, budget: Budget) -> Raw:
    """
    Return the text of an OpenDocument file.

    Raises:
        ExtractionFailed: the file is encrypted, damaged, or larger than the budget.
    """
    if "META-INF/manifest.xml" in container:
        manifest = _Encryption()
        container.read_xml("META-INF/manifest.xml", manifest)
        if manifest.is_found:
            raise ExtractionFailed(Reason.ENCRYPTED)
    found = Raw(media_type)
    if "meta.xml" in container:
        fields = FieldsHandler(most=budget.limits.values)
        container.read_xml("meta.xml", fields)
        for name, attributes, text in fields.found:
            if name == "title":
                found.title = " ".join(text.split())
            elif name == "language":
                found.language = text.strip()
            elif name == "user-defined" and attributes.get("name"):
                found.note(f"custom:{attributes['name']}", text)
            elif name in _NAMES:
                found.note(_NAMES[name], text)
    handler = TextHandler(
        budget, texts={"p", "h"}, blocks=_BLOCKS, hidden={"tracked-changes", "script"}, characters=_CHARACTERS
    )
    container.read_xml("content.xml", handler)
    found.text = in_lines(handler.collected)
    return found


class _Encryption(XmlHandler):
    is_found = False

    def start(self, name: str, attributes: dict[str, str]) -> None:
        self.is_found = self.is_found or name == "encryption-data"
