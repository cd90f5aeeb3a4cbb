"""Compression of the records of both formats."""

from typing import Final

from isal import isal_zlib

# Compression level of ISA-L. Level 3 takes a third longer and saves no space.
_LEVEL: Final = 1
# Value of `wbits` for a gzip member with the largest window.
_GZIP: Final = 31


def gzip_member(data: bytes) -> bytes:
    """Return the data as one gzip member. The compression releases the GIL, so other threads run meanwhile."""
    return isal_zlib.compress(data, _LEVEL, _GZIP)
