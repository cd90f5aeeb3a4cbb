"""The result of an extraction, and the reasons for which an extraction fails."""

import enum
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Self

Metadata = Mapping[str, tuple[str, ...]]

# Names of metadata that all formats share. Other names come from the file.
TITLE: Final = "title"
AUTHOR: Final = "author"
CREATED: Final = "created"
MODIFIED: Final = "modified"
SUBJECT: Final = "subject"
KEYWORDS: Final = "keywords"


class Reason(enum.StrEnum):
    """The reasons why a file has no text."""

    UNKNOWN_TYPE = "unknown_type"
    ENCRYPTED = "encrypted"
    DAMAGED = "damaged"
    # The file unpacks to more than the limit.
    BOMB = "bomb"
    # The file is nested more deeply than the limit.
    NESTED = "nested"
    # The child was ended for one of these reasons, or ended by itself.
    TIME = "time"
    MEMORY = "memory"
    OUTPUT = "output"
    CRASH = "crash"

    @property
    def ends_child(self) -> bool:
        """True if the child must not read another file."""
        return self in {Reason.TIME, Reason.MEMORY, Reason.OUTPUT, Reason.CRASH}


_SENTENCES: Final = {
    Reason.UNKNOWN_TYPE: "The content is of no type that can be read.",
    Reason.ENCRYPTED: "The file is encrypted.",
    Reason.DAMAGED: "The file is damaged.",
    Reason.BOMB: "The file unpacks to more than the limit.",
    Reason.NESTED: "The file is nested too deeply.",
    Reason.TIME: "The extraction took too long.",
    Reason.MEMORY: "The extraction needed too much memory.",
    Reason.OUTPUT: "The extraction returned too much.",
    Reason.CRASH: "The extraction broke down.",
}


class ExtractionFailed(Exception):
    """A file has no text for this reason. `detail` adds facts for people, without content of the file."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        self.reason, self.detail = reason, detail
        super().__init__(self.sentence)

    @property
    def sentence(self) -> str:
        """Return the reason as a sentence for people."""
        said = _SENTENCES[self.reason]
        return f"{said[:-1]} ({self.detail})." if self.detail else said


@dataclass(frozen=True, slots=True)
class Part:
    """
    A part of a file: an attachment, or a member of an archive.

    `id` is its path, which is unique in the file. The id of a part of a part is both paths with `!/` between them.
    `digest` changes with the bytes of the part. If the part has no text, `problem` is the reason.
    """

    id: str
    name: str
    digest: str
    content_type: str
    text: str = ""
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    language: str = ""
    problem: Reason | None = None


@dataclass(frozen=True, slots=True)
class Extraction:
    """
    The text of a file and the facts about it.

    `content_type` is the type that was found in the content. `metadata` has dates as in ISO 8601. `language` is a code
    of ISO 639, or "". If the text `is_cut`, it reached the limit. If `lacks_parts`, the file has more parts than the
    limit. `unread_pages` counts the pages that cannot be read, of the file and of its parts.
    """

    content_type: str
    text: str = ""
    title: str = ""
    metadata: Metadata = field(default_factory=dict)
    language: str = ""
    parts: tuple[Part, ...] = ()
    is_cut: bool = False
    lacks_parts: bool = False
    unread_pages: int = 0

    @property
    def note(self) -> str:
        """
        Return sentences for people about the gaps of the text, such as a limit that cut it; "" if the text is complete.
        """
        pages = f"{self.unread_pages} page{'' if self.unread_pages == 1 else 's'} of PDF could not be read."
        sentences = {
            pages: self.unread_pages > 0,
            "The text ends at the limit of characters.": self.is_cut,
            "Some parts of the file were left out.": self.lacks_parts,
        }
        return " ".join(sentence for sentence, applies in sentences.items() if applies)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Self:
        """
        Return the extraction that a child has written.

        Raises:
            KeyError, TypeError, ValueError: the answer has no valid result, because a file has taken control of the
            child.
        """
        parts = tuple(
            Part(
                id=_text(part["id"]),
                name=_text(part["name"]),
                digest=_text(part["digest"]),
                problem=None if part["problem"] is None else Reason(part["problem"]),
                **_facts(part),
            )
            for part in value["parts"]
        )
        return cls(
            parts=parts,
            is_cut=bool(value["is_cut"]),
            lacks_parts=bool(value["lacks_parts"]),
            unread_pages=int(value["unread_pages"]),
            **_facts(value),
        )


def _facts(value: Mapping[str, Any]) -> dict[str, Any]:
    metadata = {_text(name): tuple(_text(one) for one in values) for name, values in value["metadata"].items()}
    return {
        "content_type": _text(value["content_type"]),
        "text": _text(value["text"]),
        "title": _text(value["title"]),
        "metadata": metadata,
        "language": _text(value["language"]),
    }


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
    return storable(value)


def storable(text: str) -> str:
    """Return a text without zero bytes and halves of surrogate pairs, which no output and no database can store."""
    return text.replace("\0", "").encode(errors="replace").decode()
