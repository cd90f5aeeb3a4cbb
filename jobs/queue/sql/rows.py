"""Rows by name: `row.lane_id` is more readable than `row[3]`."""

from typing import Any

import psycopg
from psycopg.rows import namedtuple_row


def named_rows(connection: psycopg.Connection[Any], *, binary: bool = False) -> psycopg.Cursor[Any]:
    """Return a cursor whose rows have the query's columns as attributes; `binary` for the hot path."""
    return connection.cursor(row_factory=namedtuple_row, binary=binary)
