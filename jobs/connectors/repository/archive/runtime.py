"""The threads that archive jobs share in one process, for blocking calls."""

from concurrent.futures import ThreadPoolExecutor
from typing import Final

from jobs.connectors.repository.archive.connector import ArchiveConnector
from jobs.connectors.repository.archive.specification import ArchiveSpecification
from jobs.connectors.repository.kind import Runtime, SourceSettings
from jobs.connectors.roots import why_not_read

_THREADS: Final = 8


class ArchiveRuntime(Runtime):
    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="archives")

    def open(self, source: SourceSettings) -> ArchiveConnector:
        """
        Return the connector of a job.

        Raises:
            ValueError: the stored configuration is invalid, or outside of CRAWLCTL_FILE_ROOTS.
        """
        specification = ArchiveSpecification.read(source)
        if source.is_confined and (why := why_not_read(specification.roots)):
            raise ValueError(why)
        return ArchiveConnector(specification, threads=self._threads)

    async def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)
