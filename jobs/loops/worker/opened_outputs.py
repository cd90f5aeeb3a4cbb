"""
The opened outputs of a worker's jobs.

Connections are read at their first use, and again when a job has a newer version of its specification. A change of a
connection gives a newer version to each of its jobs.
"""

from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, LiteralString

import psycopg

from jobs.connectors.output.base import NoticesLoss, Output, OutputError, WritesFile
from jobs.connectors.output.registry import open_output
from jobs.connectors.schema import BadSpecification
from jobs.queue.flushing.outcomes import JobFacts
from jobs.queue.take import Claimed

_CONNECTIONS: Final[LiteralString] = """
SELECT id, connector, configuration, is_confined FROM jobs_outputconnection WHERE id = ANY(%(ids)s)
"""


class OpenedOutputs:
    """The outputs that a worker has opened, by id. All of them are forgotten when a job has a newer version."""

    def __init__(self) -> None:
        self._opened: dict[int, Output] = {}
        self._versions: dict[int, int] = {}
        # By job: the last run in which its outputs were checked for losses.
        self._runs: dict[int, int] = {}

    def __getitem__(self, output: int) -> Output:
        return self._opened[output]

    def files(self) -> list[Path]:
        """Return the files of this machine that the outputs in use write."""
        return [output.path for output in self._opened.values() if isinstance(output, WritesFile)]

    def notice_changes(self, claims: Iterable[tuple[Claimed, JobFacts]]) -> None:
        """Forget all opened outputs if one of these jobs has a newer version than known."""
        newer: dict[int, int] = {}
        for claim, job in claims:
            # A document may be claimed before an edit of its job and end after this edit.
            version = max(claim.specification_version, job.specification_version)
            if version > max(self._versions.get(job.id, -1), newer.get(job.id, -1)):
                newer[job.id] = version
        if newer:
            self._opened.clear()
            self._versions.update(newer)

    def notice_losses(self, cursor: psycopg.Cursor[Any], jobs: Iterable[JobFacts]) -> None:
        """
        Check the outputs of each job for losses once a run. Writes do not find every loss, because a run without
        changes writes nothing.
        """
        for job in {job.id: job for job in jobs}.values():
            if self._runs.get(job.id) == job.run_no:
                continue
            self._runs[job.id] = job.run_no
            # An output that cannot be used refuses its documents later, with a reason.
            with suppress(OutputError):
                self.open(cursor, set(job.outputs))
            for output in [self._opened[output] for output in job.outputs if output in self._opened]:
                if isinstance(output, NoticesLoss):
                    output.notice_loss(cursor)

    def open(self, cursor: psycopg.Cursor[Any], ids: set[int]) -> None:
        """
        Open these outputs.

        Raises:
            OutputError: one cannot be used, or no longer exists.
        """
        unknown = sorted(ids - self._opened.keys())
        if not unknown:
            return
        for row in cursor.execute(_CONNECTIONS, {"ids": unknown}).fetchall():
            try:
                self._opened[row.id] = open_output(row)
            except BadSpecification as error:
                raise OutputError(f"Output connection {row.id} cannot be used: {error}.") from error
        for missing in ids - self._opened.keys():
            raise OutputError(f"Output connection {missing} no longer exists.")
