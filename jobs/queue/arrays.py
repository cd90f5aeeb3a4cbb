"""
Lists as parameters, written at once.

A flush hands over some fifty values for each document, by column. psycopg writes the values of a list one by one, in Python; this
writes a list of whole numbers, or of texts, in a few calls, and leaves all others to psycopg.

What there is much of goes over in binary: the server reads a text character by character, twice where it is an array.
"""

import struct
from typing import Any, Final

import psycopg
from psycopg import adapters
from psycopg.abc import Buffer, DumperKey
from psycopg.adapt import Dumper, PyFormat
from psycopg.pq import Format
from psycopg.types.array import BaseListDumper, ListDumper

_UUID: Final = adapters.types["uuid"]
# How long each one is, in bytes, as the hexadecimal digits that stand before it.
_SIXTEEN_BYTES: Final = "00000010"
# For the server a type that it finds out by itself.
_UNSAID: Final = 0
_WRITTEN_HERE: Final = ({int}, {str})


def register_arrays(connection: psycopg.Connection[Any]) -> None:
    """Let the connection write lists as this module does."""
    connection.adapters.register_dumper(list, QuickListDumper)
    connection.adapters.register_dumper(Hashes, HashesDumper)


class Hashes(list[str]):
    """Hashes of documents, 32 hexadecimal digits each: as a parameter, an array of uuids."""


class HashesDumper(Dumper):
    """Writes hashes in binary."""

    format = Format.BINARY
    oid = _UUID.array_oid

    def dump(self, obj: Hashes) -> Buffer | None:
        if not obj:
            return struct.pack("!iiI", 0, 0, _UUID.oid)
        # Dimensions, no nulls, whose array it is, how many there are and the number of the first one.
        head = struct.pack("!iiIii", 1, 0, _UUID.oid, len(obj), 1)
        return head + bytes.fromhex(_SIXTEEN_BYTES + _SIXTEEN_BYTES.join(obj))


class QuickListDumper(ListDumper):
    """
    For `list`: it writes what psycopg's own would, with every text in quotes.

    Of what it is a list, the statement says. psycopg would say for numbers how large the largest is, and nothing for a list
    that is empty: for the server each such combination is another statement, to be prepared and planned anew.
    """

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:  # noqa: A002 (psycopg's word)
        return self.cls if set(map(type, obj)) in _WRITTEN_HERE else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> BaseListDumper:  # noqa: A002 (psycopg's word)
        dumper = super().upgrade(obj, format)
        dumper.oid = _UNSAID
        return dumper

    def dump(self, obj: list[Any]) -> Buffer | None:
        kinds = set(map(type, obj))
        if kinds == {int}:
            return f"{{{','.join(map(str, obj))}}}".encode()
        if kinds == {str}:
            together = "\0".join(obj)
            # PostgreSQL has no NUL in its texts; psycopg says so.
            if together.count("\0") == len(obj) - 1:
                quoted = together.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
                return f'{{"{quoted}"}}'.encode()
        return super().dump(obj)
