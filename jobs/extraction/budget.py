"""The limits of one extraction, shared by all readers of a file and of its parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from jobs.extraction.result import ExtractionFailed, Reason

_MIB: Final = 1024 * 1024
# Number of bytes that are unpacked in one step.
_CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """
    Limits of one file with all its parts: characters of text, unpacked bytes, parts, and levels of parts within parts.

    `members` limits the entries that a container may list. `metadata` limits the characters of one value, and
    `values` the number of values.
    """

    characters: int = 10_000_000
    unpacked: int = 256 * _MIB
    parts: int = 1_000
    levels: int = 5
    members: int = 20_000
    metadata: int = 2_000
    values: int = 200


class Budget:
    """
    The amounts that a file may still use up to its limits, and the parts that its text lacks because of these limits.
    """

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._unpacked = limits.unpacked
        self._characters = limits.characters
        self._parts = limits.parts
        self.is_cut = False
        self.lacks_parts = False
        self.unread_pages = 0

    def unpack(self, count: int) -> None:
        """
        Count unpacked bytes.

        Raises:
            ExtractionFailed: the file unpacks to more than its limit.
        """
        self._unpacked -= count
        if self._unpacked < 0:
            raise ExtractionFailed(Reason.BOMB, f"more than {self.limits.unpacked // _MIB} MiB unpacked")

    def read_all(self, read: Callable[[int], bytes]) -> bytes:
        """Call `read` until it returns nothing more, and return all bytes. They are counted while they are unpacked."""
        chunks: list[bytes] = []
        while chunk := read(_CHUNK):
            self.unpack(len(chunk))
            chunks.append(chunk)
        return b"".join(chunks)

    def check_members(self, count: int) -> None:
        if count > self.limits.members:
            raise ExtractionFailed(Reason.BOMB, f"more than {self.limits.members} members")

    def take_text(self, text: str) -> str:
        """Return the text, or its beginning if the rest exceeds the limit."""
        if len(text) > self._characters:
            text, self.is_cut = text[: self._characters], True
        self._characters -= len(text)
        return text

    def takes_part(self) -> bool:
        """True if one more part is within the limit."""
        if self._parts <= 0:
            self.lacks_parts = True
            return False
        self._parts -= 1
        return True
