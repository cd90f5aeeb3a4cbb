"""The result of a reader of a format: the text, the metadata, and the bytes of the parts."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from jobs.extraction.result import Reason

_BLANKS: Final = re.compile(r"[^\S\n]+")
_LINES: Final = re.compile(r"\s*\n\s*")


@dataclass(frozen=True, slots=True)
class RawPart:
    """A part before its own extraction. `body` is None if it cannot be unpacked, and `problem` says why."""

    name: str
    body: bytes | None
    content_type: str = ""
    problem: Reason | None = None


@dataclass(slots=True)
class Raw:
    """
    The result of a reader. `parts` may be lazy, so that each part is unpacked when the extraction reaches it.

    `language` is the language that the file names, or "".
    """

    content_type: str
    text: str = ""
    title: str = ""
    metadata: dict[str, list[str]] = field(default_factory=dict)
    language: str = ""
    parts: Iterable[RawPart] = ()

    def note(self, name: str, value: str | None) -> None:
        """Add a value of metadata, unless it is empty."""
        if value is not None and (value := " ".join(value.split())):
            values = self.metadata.setdefault(name, [])
            if value not in values:
                values.append(value)


def in_lines(text: str) -> str:
    """Return a text with single blanks and without empty lines."""
    return _LINES.sub("\n", _BLANKS.sub(" ", text)).strip()
