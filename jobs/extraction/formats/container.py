"""ZIP containers: the files of Office and OpenDocument, and archives."""

import io
import lzma
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from jobs.extraction.budget import Budget
from jobs.extraction.formats.xml import XmlHandler, read_xml
from jobs.extraction.result import ExtractionFailed, Reason

_ENCRYPTED: Final = 0x1
# Errors of the standard library for damaged archives.
DAMAGES: Final = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    ValueError,
    NotImplementedError,
    KeyError,
    IndexError,
    OverflowError,
)


class Container:
    """The members of a ZIP file, by name. The bytes of a member are counted while it is unpacked."""

    def __init__(self, body: bytes, budget: Budget) -> None:
        """
        Open a ZIP file.

        Raises:
            ExtractionFailed: the file is damaged, or lists too many members.
        """
        self._budget = budget
        with failing_plainly("ZIP"):
            self._zip = zipfile.ZipFile(io.BytesIO(body))
            self.members = self._zip.infolist()
        budget.check_members(len(self.members))
        self._names = {member.filename for member in self.members}

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def names(self) -> list[str]:
        return [member.filename for member in self.members if member.filename and not member.is_dir()]

    def read(self, name: str | zipfile.ZipInfo) -> bytes:
        """
        Return the bytes of a member.

        Raises:
            ExtractionFailed: the file is damaged, encrypted, or larger than the budget.
        """
        with self._open(name) as read:
            return self._budget.read_all(read)

    def read_xml(self, name: str, handler: XmlHandler) -> None:
        """
        Pass an XML member to the handler.

        Raises:
            ExtractionFailed: the member is missing, damaged, encrypted, or larger than the budget.
        """
        with self._open(name) as read:
            read_xml(read, handler, self._budget)

    @contextmanager
    def _open(self, name: str | zipfile.ZipInfo) -> Iterator[Callable[[int], bytes]]:
        with failing_plainly("ZIP"):
            member = self._zip.getinfo(name) if isinstance(name, str) else name
            if member.flag_bits & _ENCRYPTED:
                raise ExtractionFailed(Reason.ENCRYPTED)
            with self._zip.open(member) as opened:
                yield opened.read


@contextmanager
def failing_plainly(what: str) -> Iterator[None]:
    """Turn the errors of the standard library for damaged archives into ExtractionFailed."""
    try:
        yield
    except DAMAGES as error:
        raise ExtractionFailed(Reason.DAMAGED, f"{what}: {type(error).__name__}") from error
