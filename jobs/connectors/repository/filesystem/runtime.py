"""What jobs of file systems share in one process: the threads that wait for disks."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import psycopg

from jobs.connectors.repository.filesystem.connector import FileConnector
from jobs.connectors.repository.filesystem.specification import FileSpecification
from jobs.connectors.repository.kind import Asked, Database

_THREADS: Final = 8


class FileRuntime:
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="files")

    def open(self, asked: Asked) -> FileConnector:
        return FileConnector(FileSpecification.read(asked), threads=self._threads)

    async def prepare(self, documents: Mapping[str, float], database: Database) -> None:
        return

    def store(self, connection: psycopg.Connection[Any]) -> Callable[[str], bool]:
        return _is_about_nothing

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_about_nothing(_identifier: str) -> bool:
    return False
