"""
Fast dumpers for lists as parameters.

A flush passes some fifty values for each document, by column. psycopg converts the values of a list one by one, in
Python. This module converts a list of integers, texts or truth values in a few calls, and leaves all other lists to
psycopg.

Large lists are sent in binary, because the server parses a text character by character, and an array twice.
"""

import struct
from collections.abc import Sized
from typing import Any, Final

import psycopg
from psycopg import adapters
from psycopg.abc import Buffer, DumperKey
from psycopg.adapt import Dumper, PyFormat
from psycopg.pq import Format
from psycopg.types.array import BaseListDumper, ListDumper

_UUID: Final = adapters.types["uuid"]
_VECTOR: Final = adapters.types["tsvector"]
# Length of each element in bytes, as the hexadecimal digits that precede it.
_SIXTEEN_BYTES: Final = "00000010"
# OID of an unspecified type, which the server infers.
_UNSPECIFIED_TYPE: Final = 0
_WRITTEN_HERE: Final = ({int}, {str}, {bool})


def register_arrays(connection: psycopg.Connection[Any]) -> None:
    """Register this module's list dumpers on the connection."""
    connection.adapters.register_dumper(list, QuickListDumper)
    connection.adapters.register_dumper(Hashes, HashesDumper)
    connection.adapters.register_dumper(Vectors, VectorsDumper)


class Hashes(list[str]):
    """Hashes of documents, 32 hexadecimal digits each. As a parameter they are an array of uuids."""


class HashesDumper(Dumper):
    """Dumps `Hashes` as an array of uuids in PostgreSQL's binary format."""

    format = Format.BINARY
    oid = _UUID.array_oid

    def dump(self, obj: Hashes) -> Buffer | None:
        return _head_of(obj) + (bytes.fromhex(_SIXTEEN_BYTES + _SIXTEEN_BYTES.join(obj)) if obj else b"")


class Keys(list[bytes]):
    """Hashes of documents, 16 bytes each. As a parameter they are an array of uuids."""


class KeysDumper(Dumper):
    """Dumps `Keys` as an array of uuids in PostgreSQL's binary format."""

    format = Format.BINARY
    oid = _UUID.array_oid

    def dump(self, obj: Keys) -> Buffer | None:
        length = bytes.fromhex(_SIXTEEN_BYTES)
        return _head_of(obj) + (length + length.join(obj) if obj else b"")


class Vectors(list[bytes]):
    """Vectors of the search index in PostgreSQL's binary format. As a parameter they are an array of tsvectors."""


class VectorsDumper(Dumper):
    """Dumps `Vectors` as an array of tsvectors in PostgreSQL's binary format."""

    format = Format.BINARY
    oid = _VECTOR.array_oid

    def dump(self, obj: Vectors) -> Buffer | None:
        pieces = [_head_of(obj, oid=_VECTOR.oid)]
        for vector in obj:
            pieces += (len(vector).to_bytes(4), vector)
        return b"".join(pieces)


def _head_of(values: Sized, *, oid: int = _UUID.oid) -> bytes:
    """Return the bytes before the first element of an array of this type."""
    if not values:
        return struct.pack("!iiI", 0, 0, oid)
    # Dimensions, no nulls, OID of the elements, number of elements, lower bound.
    return struct.pack("!iiIii", 1, 0, oid, len(values), 1)


class QuickListDumper(ListDumper):
    """
    Dump a `list` as psycopg does, but quote every text.

    The statement declares the type of the array. psycopg would choose it by the largest number, and declare none for
    an empty list. The server would prepare and plan a separate statement for each of these combinations.
    """

    def get_key(self, obj: list[Any], format: PyFormat) -> DumperKey:  # noqa: A002 (psycopg's word)
        return self.cls if set(map(type, obj)) in _WRITTEN_HERE else super().get_key(obj, format)

    def upgrade(self, obj: list[Any], format: PyFormat) -> BaseListDumper:  # noqa: A002 (psycopg's word)
        dumper = super().upgrade(obj, format)
        dumper.oid = _UNSPECIFIED_TYPE
        return dumper

    def dump(self, obj: list[Any]) -> Buffer | None:
        kinds = set(map(type, obj))
        if kinds == {int}:
            return f"{{{','.join(map(str, obj))}}}".encode()
        if kinds == {bool}:
            return f"{{{','.join(map('ft'.__getitem__, obj))}}}".encode()
        if kinds == {str}:
            together = "\0".join(obj)
            # PostgreSQL does not allow NUL in texts. psycopg's own dumper raises the error for it.
            if together.count("\0") == len(obj) - 1:
                quoted = together.replace("\\", "\\\\").replace('"', '\\"').replace("\0", '","')
                return f'{{"{quoted}"}}'.encode()
        return super().dump(obj)
