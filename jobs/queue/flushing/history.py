"""
History entries: rows that a statement inserts with the change that they describe.

Entries of connectors are stored as recorded. Changes of outputs get one entry for each output that holds documents.
"""

import datetime as dt
import time
import uuid
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, LiteralString

from jobs.connectors.repository.base import Ending
from jobs.lifecycle.activity import ActivityName
from jobs.queue.flushing.outcomes import JobFacts, Result
from jobs.queue.sql.columns import columns_of

# A common table expression, for statements that also get the parameters of a `History`. Moments and durations are sent
# in binary, because texts take several times as long to write and to read. The name of the worker is read once for all
# rows, and not at all without rows. Locks: none. The rows are new.
WRITE_HISTORY: Final[LiteralString] = """
    INSERT INTO jobs_activity (started_at, seconds, job_id, repository_id, output_id, bytes, activity, entity,
                               result_code, result_description, node)
    SELECT past.*, coalesce((SELECT name FROM nodes_node WHERE id = %(past_worker)s::uuid), '')
      FROM unnest(%(past_starts)b::timestamptz[], %(past_seconds)b::float8[], %(past_jobs)s::bigint[],
                  %(past_repositories)s::bigint[], %(past_outputs)s::bigint[], %(past_bytes)s::bigint[],
                  %(past_activities)s::text[], %(past_entities)s::text[], %(past_codes)s::text[],
                  %(past_descriptions)s::text[]) AS past
"""
_PARAMETERS: Final = (
    "past_starts",
    "past_seconds",
    "past_jobs",
    "past_repositories",
    "past_outputs",
    "past_bytes",
    "past_activities",
    "past_entities",
    "past_codes",
    "past_descriptions",
)
# Longest text of an entry (characters). Sources have no limit for their texts.
_LONGEST: Final = 4_000


@dataclass(frozen=True, slots=True)
class Departure:
    """A document that left an output, with its job and lane, for the history and the counts."""

    job_id: int
    lane_id: int
    output_id: int
    hash: str
    identifier: str


class History:
    """
    Rows of the history, collected for one statement; always empty if no history is kept.

    `worker` did the activities; None if no worker did them.
    """

    def __init__(self, *, now: dt.datetime, is_kept: bool, worker: uuid.UUID | None = None) -> None:
        self._now = now
        self._is_kept = is_kept
        self._worker = worker
        self._monotonic = time.monotonic()
        self._rows: list[tuple[Any, ...]] = []

    def record_outcomes(
        self, results: Iterable[Result], *, unwritten: Container[tuple[int, str]] = frozenset()
    ) -> None:
        """
        Add the activities of these documents: at their source, and at the outputs that got their text.

        `unwritten` has the outputs, by output and hash, that already had the document.
        """
        if not self._is_kept:
            return
        for result in results:
            job, outcome = result.job, result.outcome
            for record in outcome.records:
                started_at = self._now - dt.timedelta(seconds=self._monotonic - record.began)
                self._rows.append(
                    (
                        started_at,
                        record.seconds,
                        job.id,
                        job.repository,
                        None,
                        record.bytes,
                        record.activity,
                        _storable(record.entity),
                        record.result_code,
                        _storable(record.result_description),
                    )
                )
            if outcome.deliveries is not None:
                self._record_deliveries(result, unwritten)
            elif outcome.ending == Ending.INDEXED and outcome.content is not None and job.outputs:
                size = _size_of(outcome.content.text)
                for output in job.outputs:
                    self._record(ActivityName.INGEST, job, output, result.claimed.document.identifier, size)

    def _record_deliveries(self, result: Result, unwritten: Container[tuple[int, str]]) -> None:
        """Add an entry for each output that got the document from a pipeline, or did not get it, with the reason."""
        job, document = result.job, result.claimed.document
        for output, delivery in (result.outcome.deliveries or {}).items():
            if delivery.content is None:
                said = f"{delivery.stage}: {delivery.reason}" if delivery.stage else delivery.reason
                self._record(
                    ActivityName.REFUSAL, job, output, document.identifier, None, code=delivery.code, description=said
                )
            elif output in job.outputs and (output, document.hash) not in unwritten:
                size, said = _size_of(delivery.content.text), delivery.reason
                self._record(ActivityName.INGEST, job, output, document.identifier, size, description=said)

    def record_departures(self, departures: Iterable[Departure], *, jobs: Mapping[int, JobFacts]) -> None:
        """Add an entry for each document that left an output."""
        if self._is_kept:
            for gone in departures:
                self._record(ActivityName.DELETION, jobs[gone.job_id], gone.output_id, gone.identifier, None)

    def parameters(self) -> dict[str, Any]:
        """Return the rows by column, and their worker, as parameters of `WRITE_HISTORY`."""
        return {**columns_of(self._rows, _PARAMETERS), "past_worker": self._worker}

    def _record(
        self,
        activity: ActivityName,
        job: JobFacts,
        output: int,
        identifier: str,
        size: int | None,
        *,
        code: str = "OK",
        description: str = "",
    ) -> None:
        facts = (self._now, None, job.id, job.repository, output, size, activity.value, identifier)
        self._rows.append((*facts, code, _storable(description) if description else ""))


def departures_by_lane(departures: Iterable[Departure]) -> dict[tuple[int, int], int]:
    """
    Return the number of documents that left an output, by job and lane. A document that left several outputs counts
    once.
    """
    counts: dict[tuple[int, int], int] = {}
    for job_id, lane_id, _ in {(one.job_id, one.lane_id, one.hash) for one in departures}:
        counts[job_id, lane_id] = counts.get((job_id, lane_id), 0) + 1
    return counts


def _size_of(text: str) -> int:
    """Return the length of the text in UTF-8 (bytes)."""
    return len(text) if text.isascii() else len(text.encode(errors="replace"))


def _storable(text: str) -> str:
    """Return the text of a source without the characters that PostgreSQL cannot store, cut to the longest entry."""
    if text.isascii() and "\0" not in text:
        return text[:_LONGEST]
    return text[:_LONGEST].replace("\0", "").encode(errors="replace").decode()
