"""Whole reports as files. Rows are sent while they are read, so the number of rows does not matter."""

import csv
import datetime as dt
import enum
import io
import itertools
import json
import re
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

Row = Mapping[str, Any]
# Characters with which a formula in a spreadsheet may begin, also in their East Asian forms. Cells contain addresses,
# and a crawled site could choose an address that is a formula.
_FORMULAS: Final = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


class DownloadKind(enum.StrEnum):
    """The format of a downloaded file."""

    CSV = "csv"
    JSON = "json"


class DownloadKindConverter:
    """The kind of a file as a part of its address."""

    regex = "|".join(DownloadKind)

    def to_python(self, value: str) -> DownloadKind:
        return DownloadKind(value)

    def to_url(self, value: str) -> str:
        return str(value)


def download(
    pages: Iterator[Sequence[Row]], *, name: str, kind: DownloadKind, now: dt.datetime
) -> StreamingHttpResponse:
    """
    Return a file of all rows. The first page is read here, so that an error is reported before the first byte is sent.
    """
    first = next(pages, ())
    write, content_type = {
        DownloadKind.CSV: (_as_csv, "text/csv; charset=utf-8"),
        DownloadKind.JSON: (_as_json, "application/json"),
    }[kind]
    chunks = write(itertools.chain([first], pages))
    response = StreamingHttpResponse(_read_in_thread(chunks), content_type=content_type)
    response["Content-Disposition"] = f'attachment; filename="{name}-{now:%Y%m%d-%H%M%S}.{kind}"'
    return response


def download_lines(lines: Iterator[str], *, name: str, now: dt.datetime) -> StreamingHttpResponse:
    """Return a file of lines of JSON. Characters of the name that some file systems refuse become `_`."""
    response = StreamingHttpResponse(_read_in_thread(lines), content_type="application/x-ndjson")
    name = re.sub(r"[^\w.-]", "_", name)
    response["Content-Disposition"] = f'attachment; filename="{name}-{now:%Y%m%d-%H%M%S}.ndjson"'
    return response


async def _read_in_thread(chunks: Iterator[str]) -> AsyncIterator[str]:
    """Yield the chunks. Each one is made in the thread of the request, which has the database connection."""
    read = sync_to_async(lambda: next(chunks, None))
    while (chunk := await read()) is not None:
        yield chunk


def _as_csv(pages: Iterator[Sequence[Row]]) -> Iterator[str]:
    has_header = False
    for page in pages:
        text = io.StringIO()
        writer = csv.writer(text)
        if page and not has_header:
            writer.writerow(page[0])
            has_header = True
        writer.writerows([safe_cell(value) for value in row.values()] for row in page)
        yield text.getvalue()


def _as_json(pages: Iterator[Sequence[Row]]) -> Iterator[str]:
    before = "["
    for page in pages:
        for row in page:
            yield f"{before}\n{json.dumps(row, ensure_ascii=False)}"
            before = ","
    yield "[]\n" if before == "[" else "\n]\n"


def safe_cell(value: object) -> object:
    """Return the value of a cell in CSV. An apostrophe precedes a text that a spreadsheet could take for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULAS) else value
