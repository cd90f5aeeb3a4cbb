"""
`jsonl:-`: documents as JSON lines on standard output, while they are crawled.

Workers append to a file below `var/`, as to any file of JSON lines, and this process copies its whole lines. So a slow
reader delays no worker. The file stays after a kill, and the next crawl of the job copies it first. So the stream lacks
no document, but may repeat some.
"""

import fcntl
import os
import threading
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

from django.conf import settings

from jobs.connectors.output.lost_lines import memory_of
from jobs.models import Job, OutputConnection

# Value of the option `--output`.
STANDARD_OUTPUT: Final = "jsonl:-"
_STDOUT: Final = 1
# Time between two reads of the file (seconds).
_PAUSE: Final = 0.1
_BLOCK: Final = 1 << 20


def connection_of(job_name: str) -> OutputConnection:
    """Return the connection by which a job writes to standard output. It is stored if it does not exist."""
    directory = _directory()
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    facts = {"connector": "jsonl", "configuration": {"path": str(directory / f"{uuid.uuid4()}.jsonl")}}
    return OutputConnection.objects.get_or_create(name=f"standard output of {job_name}", defaults=facts)[0]


class DocumentStream:
    """
    Copies a file of JSON lines to standard output.

    `on_closed` is called once, with the reason as a sentence, when nothing more can be written: the reader of standard
    output has ended, or the disk is full.
    """

    def __init__(self, connection: OutputConnection, *, on_closed: Callable[[str], None]) -> None:
        self._connection = connection
        self._path = Path(connection.configuration["path"])
        self._on_closed = on_closed
        self._copied = 0
        self._is_over = threading.Event()
        self._is_closed = False
        self._thread = threading.Thread(target=self._copy_until_end, name="standard output", daemon=True)

    @classmethod
    def of_job(cls, job: Job, *, on_closed: Callable[[str], None]) -> "DocumentStream | None":
        """Return the stream of a job that writes to standard output, else None."""
        for connection in job.outputs.filter(connector="jsonl"):
            if Path(connection.configuration["path"]).parent == _directory():
                return cls(connection, on_closed=on_closed)
        return None

    def start(self) -> None:
        """Begin to copy, first the lines of an earlier crawl whose process was killed."""
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._thread.start()

    def finish(self) -> bool:
        """
        Copy the rest after all workers have stopped writing. Return True if everything was written to standard output.
        """
        self._is_over.set()
        self._thread.join()
        if not self._is_closed:
            # Everything was written, so the file is deleted, and the next crawl of the job has nothing to copy first.
            memory_of(self._connection.pk, self._path).forget()
            self._path.unlink(missing_ok=True)
        return not self._is_closed

    def _copy_until_end(self) -> None:
        try:
            while not self._is_over.wait(_PAUSE):
                self._copy_whole_lines()
            self._copy_whole_lines()
        except OSError as error:
            self._is_closed = True
            self._on_closed(
                f"Standard output accepts no more documents ({error.strerror}), so the crawl was interrupted."
            )

    def _copy_whole_lines(self) -> None:
        with suppress(FileNotFoundError), self._path.open("rb") as file:
            end = _length_between_writes(file.fileno())
            # A worker has removed lines that it could not write completely.
            self._copied = min(self._copied, end)
            while block := os.pread(file.fileno(), min(_BLOCK, end - self._copied), self._copied):
                _write(block)
                self._copied += len(block)


def _length_between_writes(descriptor: int) -> int:
    """Return the length of the file while no worker is writing to it."""
    fcntl.flock(descriptor, fcntl.LOCK_SH)
    try:
        return os.fstat(descriptor).st_size
    finally:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


def _write(block: bytes) -> None:
    left = memoryview(block)
    while left:
        left = left[os.write(_STDOUT, left) :]


def _directory() -> Path:
    return Path(settings.VAR_DIR) / "standard-output"
