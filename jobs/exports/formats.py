"""
The formats of exports. Each part of the rows is written to a file, and the files of all parts are joined to one file.

Each part is complete by itself, so a part that was written before a crash is used again. The functions return after
their file is on the disk.
"""

import csv
import datetime as dt
import json
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from arro3.core import Array, DataType, Field, RecordBatch, RecordBatchReader, Schema
from arro3.io import read_parquet, write_parquet

from jobs.api.downloads import safe_cell
from jobs.exports.models import Export
from jobs.exports.parts import Row, Type

Columns = Mapping[str, Type]

CONTENT_TYPES: Final = {
    Export.Format.CSV: "text/csv; charset=utf-8",
    Export.Format.JSON_LINES: "application/x-ndjson",
    Export.Format.PARQUET: "application/vnd.apache.parquet",
}
_TYPES: Final = {
    Type.TEXT: DataType.string(),
    Type.WHOLE: DataType.int64(),
    Type.NUMBER: DataType.float64(),
    Type.MOMENT: DataType.timestamp("us", tz="UTC"),
}
_COMPRESSION: Final = "zstd(3)"
# Number of rows in each row group of the whole Parquet file. Readers can skip row groups.
_ROWS_OF_A_GROUP: Final = 100_000
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


def write_part(path: Path, rows: Sequence[Row], *, columns: Columns, form: str, is_first: bool) -> None:
    """Write the rows of a part to a file. The first part of CSV begins with the names of the columns."""
    match form:
        case Export.Format.CSV:
            with path.open("w", encoding="utf-8", newline="") as file:
                writer = csv.writer(file)
                if is_first:
                    writer.writerow(columns)
                writer.writerows([_cell(value) for value in row] for row in rows)
        case Export.Format.JSON_LINES:
            names = tuple(columns)
            with path.open("w", encoding="utf-8") as file:
                for row in rows:
                    line = json.dumps(dict(zip(names, row, strict=True)), ensure_ascii=False, default=_as_text)
                    file.write(f"{line}\n")
        case _:
            write_parquet(_batch(rows, columns), path, compression=_COMPRESSION)
    _sync(path)


def join(parts: Iterable[Path], whole: Path, *, columns: Columns, form: str) -> int:
    """Write the rows of all parts to one file, and return its length in bytes."""
    if form == Export.Format.PARQUET:
        reader = RecordBatchReader.from_batches(_schema(columns), _batches(parts))
        write_parquet(reader, whole, compression=_COMPRESSION, max_row_group_size=_ROWS_OF_A_GROUP)
    else:
        with whole.open("wb") as file:
            for part in parts:
                with part.open("rb") as source:
                    shutil.copyfileobj(source, file, 1024 * 1024)
    _sync(whole)
    return whole.stat().st_size


def sync_directory(directory: Path) -> None:
    """Let the names of a directory survive a power failure."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _sync(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())


def _cell(value: object) -> object:
    return value.isoformat() if isinstance(value, dt.datetime) else safe_cell(value)


def _as_text(value: object) -> str:
    assert isinstance(value, dt.datetime)
    return value.isoformat()


def _schema(columns: Columns) -> Schema:
    return Schema([Field(name, _TYPES[kind]) for name, kind in columns.items()])


def _batch(rows: Sequence[Row], columns: Columns) -> RecordBatch:
    by_column: list[Sequence[Any]] = list(zip(*rows, strict=True)) or [()] * len(columns)
    arrays = [_array(values, kind) for values, kind in zip(by_column, columns.values(), strict=True)]
    return RecordBatch.from_arrays(arrays, schema=_schema(columns))


def _array(values: Sequence[Any], kind: Type) -> Array:
    if kind is not Type.MOMENT:
        return Array(values, _TYPES[kind])
    since = [None if value is None else (value - _EPOCH) // _MICROSECOND for value in values]
    return Array(since, DataType.int64()).cast(_TYPES[kind])


def _batches(parts: Iterable[Path]) -> Iterator[RecordBatch]:
    for part in parts:
        yield from read_parquet(part)
