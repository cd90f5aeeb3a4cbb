"""The gzip members of a file of any origin, inflated in pieces with a limit."""

import zlib
from collections.abc import Iterator
from typing import IO, Final

from jobs.archive.records import BadArchive

_PIECE: Final = 64 * 1024
# Number of bytes of one read. Most members are shorter.
_READ: Final = 16 * 1024
# Number of inflated bytes from which a member may count as a bomb: it does if it inflates more than a hundredfold.
_ALWAYS_INFLATED: Final = 64 * 1024 * 1024
_MOST_TIMES: Final = 100


class BadRecord(BadArchive):
    """A record is damaged, or not what it claims to be. The message completes the sentence "a record is skipped: …"."""


class TornRecord(BadArchive):
    """The file ends in the middle of a record."""


class Member:
    """One gzip member. When all pieces were read, `end` is the offset after the member."""

    def __init__(self, file: IO[bytes], offset: int) -> None:
        self._file = file
        self._offset = offset
        self.end = offset

    def pieces(self) -> Iterator[bytes]:
        """
        Yield the inflated content.

        Raises:
            BadRecord: the member is damaged, or inflates to more bytes than allowed.
            TornRecord: the file ends within it.
        """
        file, inflater = self._file, zlib.decompressobj(wbits=31)
        file.seek(self._offset)
        read, inflated, piece = 0, 0, b""
        while not inflater.eof:
            data = inflater.unconsumed_tail
            if not data and len(piece) < _PIECE:
                data = file.read(_READ)
                read += len(data)
                if not data:
                    raise TornRecord("the record ends early")
            try:
                piece = inflater.decompress(data, _PIECE)
            except zlib.error as error:
                raise BadRecord(str(error)) from None
            inflated += len(piece)
            if inflated > _ALWAYS_INFLATED and inflated > _MOST_TIMES * (read - len(inflater.unconsumed_tail)):
                raise BadRecord(f"it has {inflated} bytes or more when decompressed")
            if piece:
                yield piece
        self.end = self._offset + read - len(inflater.unused_data)
