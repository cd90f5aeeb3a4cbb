"""The answer with the file of an export, for pages and the API."""

from collections.abc import AsyncIterator
from io import BufferedReader
from pathlib import Path
from typing import Final

from asgiref.sync import sync_to_async
from django.http import StreamingHttpResponse

from jobs.exports.files import find_file
from jobs.exports.formats import CONTENT_TYPES
from jobs.exports.models import Export

# Number of bytes of one read.
_CHUNK: Final = 512 * 1024


def send(export: Export) -> StreamingHttpResponse:
    """
    Return the file of an export as a download.

    Raises:
        Refused: there is no file, or it is on another machine.
    """
    path = find_file(export)
    response = StreamingHttpResponse(_read(path), content_type=CONTENT_TYPES[Export.Format(export.format)])
    response["Content-Length"] = str(path.stat().st_size)
    name = f"{export.what}-{export.created_at:%Y%m%d-%H%M%S}.{export.format}"
    response["Content-Disposition"] = f'attachment; filename="{name}"'
    response["X-Content-Type-Options"] = "nosniff"
    return response


async def _read(path: Path) -> AsyncIterator[bytes]:
    """Yield the bytes of a file. Each read is in a thread, so a slow disk delays no other request."""
    file = await sync_to_async(_open, thread_sensitive=False)(path)
    try:
        while chunk := await sync_to_async(file.read, thread_sensitive=False)(_CHUNK):
            yield chunk
    finally:
        file.close()


def _open(path: Path) -> BufferedReader:
    return path.open("rb")
